"""Encoder of one image: patches, their visual words, and the region of each; example patches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import DecodeConfig, decode, encode
from supdocnade.images.regions import Regions
from supdocnade.schema import array, fingerprint, stored
from supdocnade.visual_words.codebook import Codebook
from supdocnade.visual_words.describer import (
    Describer,
    FunctionDescriber,
    NetworkDescriber,
    SIFTDescriber,
)


@dataclass(frozen=True, eq=False)
class ImageWords:
    """The words of an image, its features as a whole, and its key."""

    ids: NDArray[np.int32] = array("N", np.int32, least=0)
    """Columns of the count matrix."""
    features_F: NDArray[np.float32] | None = array(
        "F", np.float32, stored_as=np.float16, default=None
    )
    """(features,) of the whole image; None unless a network describes images."""
    key: str | None = None
    """Digest of its contents."""


class EncodedImage(NamedTuple):
    """The words of one image, patch by patch."""

    ids: NDArray[np.int32]
    """(patches · words per patch · grids,) columns of the count matrix, one per visual word and
    region."""
    words_SM: NDArray[np.int32]
    """(patches, words per patch) visual words. The patches of the mirror image follow those of the
    image if the encoder has `mirror`."""
    centres_S2: NDArray[np.float32]
    """(patches, 2): y and x in pixels of the resized image, for mirrored patches, too."""
    patch_size_S: NDArray[np.int32]
    """(patches,) pixels along a side."""
    size: tuple[int, int]
    """Height and width of the resized image."""
    features_F: NDArray[np.float32] | None = None
    """(features,) of the image, divided by their root mean square; None unless a network describes
    images."""

    @property
    def patch_of_id(self) -> NDArray[np.int64]:
        """Number of the patch of each entry of `ids`."""
        n_patches = len(self.words_SM)
        return np.repeat(np.arange(n_patches), len(self.ids) // max(n_patches, 1))

    @property
    def words(self) -> ImageWords:
        """The words and features alone."""
        return ImageWords(self.ids, self.features_F)


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageEncoder:
    """Turns an image into visual words."""

    describer: Describer
    codebook: Codebook
    regions: Regions
    n_nearest: int = stored(1, least=1)
    """Number of nearest visual words assigned to each patch."""
    mirror: bool = False
    """True if an image also has the words of the same patches mirrored, in the same columns; only
    with SIFT."""

    @property
    def n_words(self) -> int:
        """Number of visual words."""
        return self.codebook.n_words

    @property
    def n_features(self) -> int:
        """Number of columns: visual words times regions."""
        return self.n_words * self.regions.n_regions

    @property
    def n_image_features(self) -> int:
        """Number of features of a whole image; 0 unless a network describes images."""
        return sum(self.map_width)

    @property
    def map_width(self) -> tuple[int, ...]:
        """Number of features in every map of a network; none unless a network describes images."""
        if not isinstance(self.describer, NetworkDescriber) or self.describer.projection is None:
            return ()
        return self.describer.projection.map_width

    @cached_property
    def mirrored_codebook(self) -> Codebook:
        """The mirrored words: a patch is as near to them as its mirror image is to the words."""
        assert isinstance(self.describer, SIFTDescriber)
        return Codebook(self.describer.mirror(self.codebook.centres_KD))

    def encode(self, source: Any, name: str = "", device: str = "cpu") -> EncodedImage:
        """Return the words of an image; they do not depend on the number of threads.

        Parameters
        ----------
        source : an image in any form that `decode` accepts.
        name : name of the image in errors.
        device : on which a network runs.
        """
        pixels = self.describer.read(source, name)
        size = (pixels.shape[0], pixels.shape[1])
        found = self.describer.describe(pixels, device)
        words_SM = self.codebook.assign_nearest(found.values_SD, self.n_nearest)
        centres_S2, patch_size_S = found.centres_S2, found.patch_size_S
        if self.mirror:
            mirrored_SM = self.mirrored_codebook.assign_nearest(found.values_SD, self.n_nearest)
            words_SM = np.concatenate([words_SM, mirrored_SM])
            cells_SG = self.regions.cells(centres_S2, size, mirror=True)
            centres_S2, patch_size_S = np.tile(centres_S2, (2, 1)), np.tile(patch_size_S, 2)
        else:
            cells_SG = self.regions.cells(centres_S2, size)
        return EncodedImage(
            self.regions.words(words_SM, cells_SG, self.n_words).astype(np.int32),
            words_SM,
            centres_S2,
            patch_size_S,
            size,
            found.image_F,
        )

    def fingerprint(self) -> str:
        """Return a digest of everything on which the words of an image depend."""
        describer = self.describer
        if isinstance(describer, FunctionDescriber):  # A function has no digest.
            name = repr(describer.function)
            describer = NetworkDescriber(name=name, fingerprint="", decoding=describer.decoding)
        return fingerprint(replace(self, describer=describer))


def count_words(documents: Sequence[NDArray[np.int32]], n_features: int) -> sparse.csr_array:
    """Return the count of each word in each document, (documents, words)."""
    parts = [np.unique(words, return_counts=True) for words in documents]
    ends = np.cumsum([0, *(len(words) for words, _ in parts)])
    words = np.concatenate([np.empty(0, np.int32), *(words for words, _ in parts)])
    counts = np.concatenate([np.empty(0, np.int64), *(counts for _, counts in parts)])
    return sparse.csr_array((counts, words, ends), shape=(len(documents), n_features))


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
