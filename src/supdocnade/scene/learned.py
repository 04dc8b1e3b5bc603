"""What a model was learned from, kept as words, so that more photographs can be added to it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.errors import InvalidArgument
from supdocnade.scene.photographs import Photographs
from supdocnade.shapes import check_shape
from supdocnade.storage import Arrays


@dataclass(frozen=True, eq=False)
class LearnedFrom:
    """Photographs as words, with what is known of them."""

    photographs: Photographs
    """Their sources may be gone."""
    counts: sparse.csr_array
    """(photographs, words in regions), as they were counted."""
    in_words_B: NDArray[np.bool_]
    """(photographs,) which of them the visual words were learned from."""
    mirrored: sparse.csr_array | None = None
    """The counts of their mirror images, where those are learned from, too."""

    def joined(self, other: "LearnedFrom") -> "LearnedFrom":
        """Return these photographs and others; of a photograph that is in both, the other's."""
        again = set(other.photographs.content_keys())
        kept = [i for i, key in enumerate(self.photographs.content_keys()) if key not in again]
        mine, theirs = self.photographs.take(kept), other.photographs
        taken = set(theirs.names)  # Another photograph may have the name of one before.
        mirrored = None
        if self.mirrored is not None and other.mirrored is not None:
            mirrored = _stacked(self.mirrored[kept], other.mirrored)
        before = [f"{name} (before)" if name in taken else name for name in mine.names]
        return LearnedFrom(
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


def learned_to_storage(learned: LearnedFrom) -> tuple[Arrays, dict[str, Any]]:
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


def learned_from_storage(
    arrays: Arrays, description: dict[str, Any], n_features: int, *, mirror: bool
) -> LearnedFrom:
    """Return what `learned_to_storage` described, and check it.

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
    return LearnedFrom(
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
