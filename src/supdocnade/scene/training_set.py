"""The photographs that a model was fitted on, as word counts.

They are stored in the model, so that more photographs can be added.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import check_shape, rises_to
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


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Photographs with the counts of their words."""

    photographs: Photographs
    """Their sources may no longer exist."""
    counts: sparse.csr_array
    """(photographs, words in regions)."""
    in_words_B: NDArray[np.bool_]
    """(photographs,) True for those that the visual words were learned from."""
    features_BF: Float32s | None = None
    """(photographs, features) of whole photographs; None unless a network describes them."""
    n_pixels_B: NDArray[np.int32] | None = None
    """(photographs,) pixels that they were described from; None in models that are older."""

    def take(self, rows: NDArray[np.integer]) -> "TrainingSet":
        """Return some of the photographs."""
        arrays = (self.features_BF, self.n_pixels_B)
        return TrainingSet(
            self.photographs.take(rows),
            self.counts[rows],
            self.in_words_B[rows],
            *(None if each is None else each[rows] for each in arrays),
        )

    def damp(self, scale: float | None) -> "TrainingSet":
        """Return the photographs with damped counts; None leaves them as they are."""
        return replace(self, counts=damp_counts(self.counts, scale))

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
        return TrainingSet(
            Photographs(
                sources=[*mine.sources, *theirs.sources],
                names=[*own_names, *theirs.names],
                labels=[*mine.labels, *theirs.labels],
                tags=[*mine.tags, *theirs.tags],
                keys=[*mine.content_keys(), *theirs.content_keys()],
                several_labels=mine.several_labels or theirs.several_labels,
            ),
            sparse.csr_array(sparse.vstack([own.counts, other.counts], format="csr")),
            np.concatenate([own.in_words_B, other.in_words_B]),
            _join(own.features_BF, other.features_BF),
            _join(own.n_pixels_B, other.n_pixels_B),
        )

    def encode_tags(self, vocabulary: AnnotationVocabulary) -> dict[str, Any]:
        """Return the annotation arguments of a topic model's `fit`."""
        if not len(vocabulary):
            return {}
        tags = vocabulary.encode(self.photographs.tags)
        return {
            "annotations": tags.annotations,
            "annotation_mask": tags.known,
            "annotation_names": list(vocabulary.names),
        }

    def describe(self, fingerprint: str) -> dict[str, Any]:
        """Return the numbers of photographs, classes and tags, and their fingerprint."""
        photographs = self.photographs
        return {
            "n_images": len(photographs),
            "images_of_class": dict(sorted(photographs.count_classes().items())),
            "n_unlabelled": photographs.labels.count(None),
            "n_tagged": sum(tags is not None for tags in photographs.tags),
            "fingerprint": fingerprint,
        }


def _join(first: Any, second: Any) -> Any:
    """Return two arrays as one; None if one of them is missing."""
    return None if first is None or second is None else np.concatenate([first, second])


def training_set_to_storage(training_set: TrainingSet) -> Arrays:
    """Return a training set as arrays.

    Strings are arrays, too: a description has no room for those of millions of photographs.
    """
    photographs = training_set.photographs
    counts = training_set.counts
    arrays = {
        "ends": counts.indptr.astype(np.int64),
        "words": _to_smallest_type(counts.indices),
        "counts": _to_smallest_type(counts.data),
        "in_words": training_set.in_words_B,
    }
    if training_set.features_BF is not None:
        arrays["features"] = training_set.features_BF
    if training_set.n_pixels_B is not None:
        arrays["n_pixels"] = training_set.n_pixels_B
    arrays |= pack_strings("names", photographs.names)
    arrays |= pack_strings("keys", photographs.content_keys())
    arrays |= pack_labels("labels", photographs.labels)
    arrays |= pack_string_lists("tags", photographs.tags)
    return arrays


def _to_smallest_type(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return numbers that are whole and not negative in the smallest type that holds them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def training_set_from_storage(
    arrays: Arrays, n_features: int, n_global_features: int
) -> TrainingSet:
    """Return the training set that `training_set_to_storage` described, checked.

    Parameters
    ----------
    n_features : number of different words.
    n_global_features : number of features of a whole photograph.
    """
    names, keys = (unpack_strings(name, arrays) for name in ("names", "keys"))
    labels, tags = unpack_labels("labels", arrays), unpack_string_lists("tags", arrays)
    check_shape("in_words", arrays["in_words"].shape, (len(names),))
    if len({len(names), len(labels), len(tags), len(keys)}) != 1:
        raise InvalidArgument("its photographs have different numbers of names, labels and tags")
    photographs = Photographs(
        sources=[b""] * len(names), names=names, labels=labels, tags=[*tags], keys=keys
    )
    features_BF = None
    if n_global_features:
        features_BF = arrays["features"]
        check_shape("features", features_BF.shape, (len(names), n_global_features))
        if features_BF.dtype != np.float32 or not np.isfinite(features_BF).all():
            raise InvalidArgument("features must be finite float32")
    n_pixels_B = arrays.get("n_pixels")
    if n_pixels_B is not None:
        check_shape("n_pixels", n_pixels_B.shape, (len(names),))
    return TrainingSet(
        photographs,
        _read_counts(arrays, (len(names), n_features)),
        arrays["in_words"].astype(np.bool_),
        features_BF,
        n_pixels_B,
    )


def _read_counts(arrays: Arrays, shape: tuple[int, int]) -> sparse.csr_array:
    ends, words, counts = (arrays[name] for name in ("ends", "words", "counts"))
    check_shape("ends", ends.shape, (shape[0] + 1,))
    check_shape("counts", counts.shape, words.shape)
    if {each.dtype.kind for each in (ends, words, counts)} - {"i", "u"}:
        raise InvalidArgument("its words and counts must be whole numbers")
    if not rises_to(len(words), ends) or (
        words.size and not (words.min() >= 0 and words.max() < shape[1])
    ):
        raise InvalidArgument("its words are out of range")
    if counts.size and counts.min() < 1:
        raise InvalidArgument("its counts must be positive")
    return sparse.csr_array((counts.astype(np.int64), words.astype(np.int32), ends), shape)
