"""The photographs that a model was fitted on, as word counts.

They are stored in the model, so that more photographs can be added. A mirror image shows the same
scene, so it has the label and the tags of its photograph. Only fitting uses mirror images:
photographs are held out, predicted, explained and shown as they are.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.scene.dataset import Photographs
from supdocnade.storage import (
    Arrays,
    pack_labels,
    pack_string_lists,
    pack_strings,
    unpack_labels,
    unpack_string_lists,
    unpack_strings,
)
from supdocnade.visual_words.encoder import damp_counts

Float32s = NDArray[np.float32]

_FEATURES = ("features", "mirrored_features")
"""Names of the features in files."""


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Photographs with the counts of their words."""

    photographs: Photographs
    """Their sources may no longer exist."""
    counts: sparse.csr_array
    """(photographs, words in regions)."""
    in_words_B: NDArray[np.bool_]
    """(photographs,) True for those that the visual words were learned from."""
    mirrored: sparse.csr_array | None = None
    """Counts of the mirror images; None: the model is not fitted on them."""
    features_BF: Float32s | None = None
    """(photographs, features) of whole photographs; None unless a network describes them."""
    mirrored_features_BF: Float32s | None = None
    """Features of the mirror images."""

    def take(self, rows: NDArray[np.integer]) -> "TrainingSet":
        """Return some of the photographs, each with its mirror image."""
        arrays = (self.mirrored, self.features_BF, self.mirrored_features_BF)
        return TrainingSet(
            self.photographs.take(rows),
            self.counts[rows],
            self.in_words_B[rows],
            *(None if each is None else each[rows] for each in arrays),
        )

    def damp(self, scale: float | None) -> "TrainingSet":
        """Return the photographs with damped counts; None leaves them as they are."""
        mirrored = None if self.mirrored is None else damp_counts(self.mirrored, scale)
        return replace(self, counts=damp_counts(self.counts, scale), mirrored=mirrored)

    def join(self, other: "TrainingSet") -> "TrainingSet":
        """Return these photographs and others; a photograph in both is taken from the other."""
        repeated = set(other.photographs.content_keys())
        keys = self.photographs.content_keys()
        own = self.take(np.array([i for i, key in enumerate(keys) if key not in repeated], int))
        mine, theirs = own.photographs, other.photographs
        own_names, taken = [], set(theirs.names)
        for name in mine.names:  # Another photograph may have the name of an earlier one.
            while name in taken:
                name += " (before)"
            taken.add(name)
            own_names.append(name)
        mirrored = None
        if own.mirrored is not None and other.mirrored is not None:
            mirrored = _stack(own.mirrored, other.mirrored)
        return TrainingSet(
            Photographs(
                sources=[*mine.sources, *theirs.sources],
                names=[*own_names, *theirs.names],
                labels=[*mine.labels, *theirs.labels],
                tags=[*mine.tags, *theirs.tags],
                keys=[*mine.content_keys(), *theirs.content_keys()],
            ),
            _stack(own.counts, other.counts),
            np.concatenate([own.in_words_B, other.in_words_B]),
            mirrored,
            _join(own.features_BF, other.features_BF),
            _join(own.mirrored_features_BF, other.mirrored_features_BF),
        )

    @property
    def n_sides(self) -> int:
        """Documents per photograph: 2 with mirror images, otherwise 1."""
        return 1 if self.mirrored is None else 2

    @property
    def document_counts(self) -> sparse.csr_array:
        """Counts of all photographs, followed by those of all mirror images."""
        return self.counts if self.mirrored is None else _stack(self.counts, self.mirrored)

    @property
    def document_features(self) -> Float32s | None:
        """Features of the rows of `document_counts`."""
        if self.mirrored is None:
            return self.features_BF
        return _join(self.features_BF, self.mirrored_features_BF)

    @property
    def document_labels(self) -> list[str | None]:
        """Labels of the rows of `document_counts`."""
        return self.photographs.labels * self.n_sides

    def document_tags(self, vocabulary: AnnotationVocabulary) -> dict[str, Any]:
        """Return the annotation arguments of a topic model's `fit` for `document_counts`."""
        if not len(vocabulary):
            return {}
        tags = vocabulary.encode(self.photographs.tags)
        return {
            "annotations": _stack(*[tags.annotations] * self.n_sides),
            "annotation_mask": np.tile(tags.known, self.n_sides),
            "annotation_names": list(vocabulary.names),
        }

    def describe(self) -> dict[str, Any]:
        """Return the numbers of photographs, classes and tags, and a fingerprint."""
        photographs = self.photographs
        n_images = Counter(photographs.labels)
        return {
            "n_images": len(photographs),
            "images_of_class": {label: n_images[label] for label in photographs.classes},
            "n_unlabelled": n_images[None],
            "n_tagged": sum(tags is not None for tags in photographs.tags),
            "fingerprint": photographs.fingerprint(),
        }


def _join(first: Float32s | None, second: Float32s | None) -> Float32s | None:
    return None if first is None or second is None else np.concatenate([first, second])


def _stack(*parts: sparse.csr_array) -> sparse.csr_array:
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def training_set_to_storage(training_set: TrainingSet) -> tuple[Arrays, dict[str, Any]]:
    """Return a training set as arrays, and an empty description.

    Strings are arrays, too: a description has no room for those of millions of photographs.
    """
    photographs = training_set.photographs
    arrays = {**_counts_to_storage("", training_set.counts), "in_words": training_set.in_words_B}
    if training_set.mirrored is not None:
        arrays |= _counts_to_storage("mirrored_", training_set.mirrored)
    for name in _FEATURES:
        if (features_BF := getattr(training_set, f"{name}_BF")) is not None:
            arrays[name] = features_BF
    arrays |= pack_strings("names", photographs.names)
    arrays |= pack_strings("keys", photographs.content_keys())
    arrays |= pack_labels("labels", photographs.labels)
    arrays |= pack_string_lists("tags", photographs.tags)
    return arrays, {}


def _counts_to_storage(prefix: str, counts: sparse.csr_array) -> Arrays:
    return {
        f"{prefix}ends": counts.indptr.astype(np.int64),
        f"{prefix}words": _to_smallest_type(counts.indices),
        f"{prefix}counts": _to_smallest_type(counts.data),
    }


def _to_smallest_type(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return numbers that are whole and not negative in the smallest type that holds them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def training_set_from_storage(
    arrays: Arrays,
    description: dict[str, Any],
    n_features: int,
    n_global_features: int,
    *,
    mirror: bool,
) -> TrainingSet:
    """Return the training set that `training_set_to_storage` described, checked.

    Parameters
    ----------
    n_features : number of different words.
    n_global_features : number of features of a whole photograph.
    mirror : whether there are mirror images.
    """
    if "names" in description:  # Format 2 of scene models.
        names, labels, tags, keys = _read_described(description)
    else:
        names, keys = (unpack_strings(name, arrays) for name in ("names", "keys"))
        labels, tags = unpack_labels("labels", arrays), unpack_string_lists("tags", arrays)
    check_shape("in_words", arrays["in_words"].shape, (len(names),))
    if len({len(names), len(labels), len(tags), len(keys)}) != 1:
        raise InvalidArgument("its photographs have different numbers of names, labels and tags")
    photographs = Photographs(
        sources=[b""] * len(names), names=names, labels=labels, tags=tags, keys=keys
    )
    shape = (len(names), n_features)
    features: list[Float32s | None] = [None, None]
    if n_global_features:
        for number, name in enumerate(_FEATURES[: 2 if mirror else 1]):
            features[number] = arrays[name]
            check_shape(name, arrays[name].shape, (len(names), n_global_features))
            if arrays[name].dtype != np.float32 or not np.isfinite(arrays[name]).all():
                raise InvalidArgument(f"{name} must be finite float32")
    return TrainingSet(
        photographs,
        _counts_from_storage("", arrays, shape),
        arrays["in_words"].astype(np.bool_),
        _counts_from_storage("mirrored_", arrays, shape) if mirror else None,
        *features,
    )


def _read_described(description: dict[str, Any]) -> tuple[list[Any], ...]:
    """Return names, labels, tags and keys from the description of a model of format 2."""
    names, labels, tags, keys = (description[key] for key in ("names", "labels", "tags", "keys"))
    flat_tags = [tag for some in tags if some is not None for tag in some]
    strings = [*names, *keys, *flat_tags, *(label for label in labels if label is not None)]
    if not all(isinstance(each, str) for each in strings):
        raise InvalidArgument("its names, labels and tags must be strings")
    return names, labels, tags, keys


def _counts_from_storage(prefix: str, arrays: Arrays, shape: tuple[int, int]) -> sparse.csr_array:
    ends, words, counts = (arrays[prefix + name] for name in ("ends", "words", "counts"))
    check_shape("ends", ends.shape, (shape[0] + 1,))
    check_shape("counts", counts.shape, words.shape)
    if {each.dtype.kind for each in (ends, words, counts)} - {"i", "u"}:
        raise InvalidArgument("its words and counts must be whole numbers")
    sound = ends[0] == 0 and ends[-1] == len(words) and (np.diff(ends) >= 0).all()
    if not sound or (words.size and not (words.min() >= 0 and words.max() < shape[1])):
        raise InvalidArgument("its words are out of range")
    if counts.size and counts.min() < 1:
        raise InvalidArgument("its counts must be positive")
    return sparse.csr_array((counts.astype(np.int64), words.astype(np.int32), ends), shape)
