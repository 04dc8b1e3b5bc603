"""What a model was learned from, kept as words, so that more photographs can be added to it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import check_count, check_range, check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.damp_counts import damp_counts
from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.scene.dataset import Photographs
from supdocnade.storage import Arrays


def damped(raw: sparse.csr_array, damping: float | None) -> sparse.csr_array:
    """Return counts with repeated words damped, if wanted."""
    if damping is None or raw.shape[0] == 0:
        return raw
    return sparse.csr_array(damp_counts(raw, damping))


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Photographs as words, with what is known of them."""

    photographs: Photographs
    """Their sources may be gone."""
    counts: sparse.csr_array
    """(photographs, words in regions), as they were counted."""
    in_words_B: NDArray[np.bool_]
    """(photographs,) which of them the visual words were learned from."""
    mirrored: sparse.csr_array | None = None
    """The counts of their mirror images, where those are learned from, too."""

    def joined(self, other: "TrainingSet") -> "TrainingSet":
        """Return these photographs and others; of a photograph that is in both, the other's."""
        again = set(other.photographs.content_keys())
        kept = [i for i, key in enumerate(self.photographs.content_keys()) if key not in again]
        mine, theirs = self.photographs.take(kept), other.photographs
        taken = set(theirs.names)  # Another photograph may have the name of one before.
        mirrored = None
        if self.mirrored is not None and other.mirrored is not None:
            mirrored = _stacked(self.mirrored[kept], other.mirrored)
        before = [f"{name} (before)" if name in taken else name for name in mine.names]
        return TrainingSet(
            Photographs(
                sources=[*mine.sources, *theirs.sources],
                names=[*before, *theirs.names],
                labels=[*mine.labels, *theirs.labels],
                tags=[*mine.tags, *theirs.tags],
                keys=[*mine.content_keys(), *theirs.content_keys()],
            ),
            _stacked(self.counts[kept], other.counts),
            np.concatenate([self.in_words_B[kept], other.in_words_B]),
            mirrored,
        )


def _stacked(first: sparse.csr_array, second: sparse.csr_array) -> sparse.csr_array:
    return sparse.csr_array(sparse.vstack([first, second], format="csr"))


def training_set_to_storage(learned: TrainingSet) -> tuple[Arrays, dict[str, Any]]:
    """Return what was learned from as arrays, and everything else about it."""
    photographs = learned.photographs
    arrays = {**_counts_to_storage("", learned.counts), "in_words": learned.in_words_B}
    if learned.mirrored is not None:
        arrays |= _counts_to_storage("mirrored_", learned.mirrored)
    tags = [None if some is None else list(some) for some in photographs.tags]
    description = {
        "names": photographs.names,
        "labels": photographs.labels,
        "tags": tags,
        "keys": photographs.content_keys(),
    }
    return arrays, description


def _counts_to_storage(prefix: str, counts: sparse.csr_array) -> Arrays:
    return {
        f"{prefix}ends": counts.indptr.astype(np.int64),
        f"{prefix}words": counts.indices.astype(np.int32),
        f"{prefix}counts": counts.data.astype(np.int32),
    }


def training_set_from_storage(
    arrays: Arrays, description: dict[str, Any], n_features: int, *, mirror: bool
) -> TrainingSet:
    """Return what `training_set_to_storage` described, and check it.

    Parameters
    ----------
    n_features : number of different words.
    mirror : whether there are mirror images.
    """
    names, labels, tags, keys = (description[key] for key in ("names", "labels", "tags", "keys"))
    check_shape("in_words", arrays["in_words"].shape, (len(names),))
    if len({len(names), len(labels), len(tags), len(keys)}) != 1:
        raise InvalidArgument("its photographs have different numbers of names, labels and tags")
    _check_strings(names, labels, tags, keys)
    photographs = Photographs(
        sources=[b""] * len(names), names=names, labels=labels, tags=tags, keys=keys
    )
    shape = (len(names), n_features)
    mirrored = _counts_from_storage("mirrored_", arrays, shape) if mirror else None
    return TrainingSet(
        photographs,
        _counts_from_storage("", arrays, shape),
        arrays["in_words"].astype(np.bool_),
        mirrored,
    )


def _counts_from_storage(prefix: str, arrays: Arrays, shape: tuple[int, int]) -> sparse.csr_array:
    ends, words, counts = (arrays[prefix + name] for name in ("ends", "words", "counts"))
    check_shape("ends", ends.shape, (shape[0] + 1,))
    check_shape("counts", counts.shape, words.shape)
    sound = ends[0] == 0 and ends[-1] == len(words) and (np.diff(ends) >= 0).all()
    if not sound or (words.size and not (words.min() >= 0 and words.max() < shape[1])):
        raise InvalidArgument("its words are out of range")
    if counts.size and counts.min() < 1:
        raise InvalidArgument("its counts must be positive")
    return sparse.csr_array((counts.astype(np.int64), words, ends), shape)


def _check_strings(names: Any, labels: Any, tags: Any, keys: Any) -> None:
    flat = [tag for some in tags if some is not None for tag in some]
    strings = [*names, *keys, *flat, *(label for label in labels if label is not None)]
    if not all(isinstance(each, str) for each in strings):
        raise InvalidArgument("its names, labels and tags must be strings")


# Photographs as a topic model learns from them: documents, and their mirror images beside them.
#
# A photograph and its mirror image show the same, so both have its label and its tags. Only
# learning knows of mirror images: what is held out, predicted, explained or shown is the photograph
# itself.


@dataclass(frozen=True, eq=False)
class SceneDocuments:
    """Photographs with the counts of their words, damped."""

    photographs: Photographs
    counts: sparse.csr_array
    """(photographs, words)."""
    mirrored: sparse.csr_array | None
    """The same of their mirror images; None: they are not learned from."""

    @classmethod
    def of(cls, learned: TrainingSet, damping: float | None) -> "SceneDocuments":
        """Return photographs as documents."""
        mirrored = None if learned.mirrored is None else damped(learned.mirrored, damping)
        return cls(learned.photographs, damped(learned.counts, damping), mirrored)

    def take(self, chosen: NDArray[np.integer]) -> "SceneDocuments":
        """Return some of the photographs, each with its mirror image."""
        mirrored = None if self.mirrored is None else self.mirrored[chosen]
        return SceneDocuments(self.photographs.take(chosen), self.counts[chosen], mirrored)

    @property
    def n_sides(self) -> int:
        """Documents of a photograph."""
        return 1 if self.mirrored is None else 2

    @property
    def counts_of_sides(self) -> sparse.csr_array:
        """The documents of all photographs, and after them those of all mirror images."""
        if self.mirrored is None:
            return self.counts
        return sparse.csr_array(sparse.vstack([self.counts, self.mirrored], format="csr"))

    @property
    def labels_of_sides(self) -> list[str | None]:
        """The labels of these documents."""
        return self.photographs.labels * self.n_sides

    def tags_of_sides(self, vocabulary: AnnotationVocabulary) -> dict[str, Any]:
        """Return the tags of these documents, as `fit` of a topic model takes them."""
        if not len(vocabulary):
            return {}
        tags = vocabulary.encode(self.photographs.tags)
        sides = [tags.annotations] * self.n_sides
        return {
            "annotations": sparse.csr_array(sparse.vstack(sides, format="csr")),
            "annotation_mask": np.tile(tags.known, self.n_sides),
            "annotation_names": list(vocabulary.names),
        }


@dataclass(frozen=True, kw_only=True)
class HeldOutImage:
    """A photograph that was held out, and what was said of it."""

    name: str
    label: str | None
    predicted: str | None
    probability: float | None
    tags: tuple[str, ...] | None
    given: tuple[tuple[str, float], ...]
    """The five most probable tags, with their probabilities of being there."""

    def __post_init__(self) -> None:
        texts = (self.label, self.predicted, *(self.tags or ()), *(tag for tag, _ in self.given))
        if not isinstance(self.name, str) or not all(isinstance(t, str | None) for t in texts):
            raise InvalidArgument("names, labels and tags of photographs must be strings.")
        chances = [chance for _, chance in self.given]
        for chance in chances if self.probability is None else [*chances, self.probability]:
            check_range("probability", chance, least=0, most=1)


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """How a model that had not seen them did on held-out photographs, before it was fitted again
    on all."""

    n_images: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    """accuracy, f_measure, class_calibration_error, ... as far as they could be measured."""
    confusion_CC: NDArray[np.int64] | None = None
    """(true classes, predicted classes)."""
    images: tuple[HeldOutImage, ...] = ()

    def __post_init__(self) -> None:
        check_count("n_images", self.n_images)
        for name, value in self.figures.items():
            check_range(str(name), value)
