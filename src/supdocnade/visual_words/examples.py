"""Example patches of visual words, as a compressed picture of each word."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import DecodeConfig, decode, encode
from supdocnade.schema import array, stored

QUALITY = 70
"""WebP quality; a patch of 48 × 48 pixels has about 260 bytes, without it 6,912."""

_AS_IT_IS = DecodeConfig(color=True)


@dataclass(frozen=True, eq=False)
class PatchExamples:
    """Example patches of visual words, the most typical of each word first."""

    pictures: tuple[bytes, ...] = array("K")
    """A WebP file of each word, the patches in rows; no bytes for a word without examples."""
    n_examples_K: NDArray[np.int32] = array("K", np.int32, least=0)
    """(words,) number of examples of each word."""
    side: int = stored(least=1)
    """Pixels along a side of a patch."""

    def __post_init__(self) -> None:
        if [n > 0 for n in self.n_examples_K.tolist()] != [len(each) > 0 for each in self.pictures]:
            raise InvalidArgument("examples must have a picture of each word with examples")

    @classmethod
    def of(cls, patches: Sequence[NDArray[np.uint8]], side: int) -> "PatchExamples":
        """Return examples, given the patches of each word as (examples, side, side, 3) pixels."""
        pictures = tuple(_draw(each) if len(each) else b"" for each in patches)
        return cls(pictures, np.array([len(each) for each in patches], np.int32), side)

    def patches(self, word: int) -> NDArray[np.uint8]:
        """Return the examples of a word, (examples, side, side, 3), as they are after WebP."""
        n_examples, side = int(self.n_examples_K[word]), self.side
        if n_examples == 0:
            return np.empty((0, side, side, 3), np.uint8)
        n_rows, n_columns = _grid(n_examples)
        picture = decode(self.pictures[word], _AS_IT_IS, name=f"picture of word {word}")
        check_shape("picture", picture.shape, (n_rows * side, n_columns * side, 3))
        rows = picture.reshape(n_rows, side, n_columns, side, 3).swapaxes(1, 2)
        return rows.reshape(-1, side, side, 3)[:n_examples]

    def __add__(self, other: "PatchExamples") -> "PatchExamples":
        """Return the examples of words, and of further words after them."""
        numbers_K = np.concatenate([self.n_examples_K, other.n_examples_K])
        return PatchExamples(self.pictures + other.pictures, numbers_K, self.side)


def _grid(n_examples: int) -> tuple[int, int]:
    """Return the rows and columns of a picture."""
    n_columns = ceil(sqrt(n_examples))
    return ceil(n_examples / n_columns), n_columns


def _draw(patches: NDArray[np.uint8]) -> bytes:
    (n_rows, n_columns), side = _grid(len(patches)), patches.shape[1]
    cells = np.zeros((n_rows * n_columns, side, side, 3), np.uint8)
    cells[: len(patches)] = patches
    rows = cells.reshape(n_rows, n_columns, side, side, 3).swapaxes(1, 2)
    return encode(rows.reshape(n_rows * side, n_columns * side, 3), "WEBP", quality=QUALITY)
