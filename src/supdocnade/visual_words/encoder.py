"""Encoder of one image: patches, their visual words, and the region of each."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.errors import StorageError, SupDocNADEError
from supdocnade.images.decode import DecodeConfig
from supdocnade.images.dense_sift import DenseSIFTConfig, patch_places
from supdocnade.images.patch_colors import patch_colors
from supdocnade.images.regions import Regions
from supdocnade.visual_words.codebook import Codebook
from supdocnade.visual_words.describer import PatchDescriber

FORMAT = 1
"""Format of `ImageEncoder.settings`; it changes when the same settings come to mean other words."""


class EncodedImage(NamedTuple):
    """The words of one image, patch by patch."""

    ids: NDArray[np.int32]
    """(patches · words per patch · grids,) columns of the count matrix, one per visual word and
    region; with mirror images, theirs follow."""
    words_SM: NDArray[np.int32]
    """(patches, words per patch) visual words."""
    centres_S2: NDArray[np.float32]
    """(patches, 2): y and x in pixels of the resized image."""
    patch_size_S: NDArray[np.int32]
    """(patches,) pixels along a side."""
    size: tuple[int, int]
    """Height and width of the resized image."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageEncoder:
    """Turns an image into visual words."""

    describer: PatchDescriber
    codebook: Codebook
    regions: Regions
    color_codebook: Codebook | None = None
    """Words for the colours of patches, numbered after the others: each patch has one of both."""
    mirror: bool = False
    """True if the words of the mirror image follow those of the image, in columns of their own.

    They are the words of the same patches, mirrored. An image with mirrored pixels has the same
    words if the patches of each size lie as far from its left edge as from its right edge."""

    @property
    def n_words(self) -> int:
        """Number of visual words, those for colours included."""
        n_color_words = 0 if self.color_codebook is None else self.color_codebook.n_words
        return self.codebook.n_words + n_color_words

    @property
    def n_features(self) -> int:
        """Number of columns: visual words times regions, twice that with mirror images."""
        return self.n_words * self.regions.n_regions * (2 if self.mirror else 1)

    @cached_property
    def mirrored_codebook(self) -> Codebook:
        """The mirrored words: a patch is as near to them as its mirror image is to the words."""
        return Codebook(self.describer.mirror(self.codebook.centres_KD))

    def encode(self, source: Any, name: str = "") -> EncodedImage:
        """Return the words of an image; they do not depend on the number of threads.

        Parameters
        ----------
        source : an image in any form that `decode` accepts.
        name : name of the image in errors.
        """
        pixels, colors = self.read(source, name)
        found, size = self.describer.describe(pixels), (pixels.shape[0], pixels.shape[1])
        words_SM = self.codebook.assign(found.values_SD)[:, None]
        if self.mirror:
            mirrored_SM = self.mirrored_codebook.assign(found.values_SD)[:, None]
            words_SM = np.concatenate([words_SM, mirrored_SM])
        if colors is not None:
            color_words_SM = self.assign_colors(colors, found.centres_S2, found.patch_size_S)
            words_SM = np.hstack([words_SM, color_words_SM])
        cells = self.regions.cells(found.centres_S2, size, mirror=self.mirror)
        return EncodedImage(
            self.regions.words(words_SM, cells, self.n_words).astype(np.int32),
            words_SM[: len(found.values_SD)],
            found.centres_S2,
            found.patch_size_S,
            size,
        )

    def read(
        self, source: Any, name: str = ""
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8] | None]:
        """Return the pixels of an image, and its colours if they have words."""
        if self.color_codebook is None:
            return self.describer.read(source, name), None
        return self.describer.read_with_color(source, name)

    def color_ids(self, colors: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return the columns of the words for the colours of all patches, as in `EncodedImage`."""
        size = (colors.shape[0], colors.shape[1])
        centres_S2, patch_size_S = patch_places(size, self.describer.sift)
        words_S1 = self.assign_colors(colors, centres_S2, patch_size_S)
        cells = self.regions.cells(centres_S2, size, mirror=self.mirror)
        return self.regions.words(words_S1, cells, self.n_words).astype(np.int32)

    def assign_colors(
        self,
        colors: NDArray[np.uint8],
        centres_S2: NDArray[np.float32],
        patch_size_S: NDArray[np.int32],
    ) -> NDArray[np.int32]:
        """Return the words for the colours of patches, (patches, 1), mirrored ones after them.

        A mirrored patch has the colours of the patch.
        """
        assert self.color_codebook is not None
        colors_SC = patch_colors(colors, centres_S2, patch_size_S)
        words_S1 = self.codebook.n_words + self.color_codebook.assign(colors_SC)[:, None]
        return np.concatenate([words_S1, words_S1]) if self.mirror else words_S1

    def fingerprint(self) -> str:
        """Return a digest of everything on which the words of an image depend."""
        digest = hashlib.blake2b(
            json.dumps(self.settings(), sort_keys=True).encode(), digest_size=16
        )
        digest.update(self.codebook.centres_KD.tobytes())
        if self.color_codebook is not None:
            digest.update(b"colors")
            digest.update(self.color_codebook.centres_KD.tobytes())
        if self.mirror:
            digest.update(b"both sides")
        return digest.hexdigest()

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values; together with the codebooks they define the encoder.

        `mirror` is not among them: it is chosen whenever images are encoded.
        """
        return {
            "format": FORMAT,
            "decoding": asdict(self.describer.decoding),
            "sift": asdict(self.describer.sift),
            "keep_constant": self.describer.keep_constant,
            "grids": [list(grid) for grid in self.regions.grids],
        }

    @classmethod
    def from_settings(
        cls, settings: Any, codebook: Codebook, name: str, color_codebook: Codebook | None = None
    ) -> "ImageEncoder":
        """Return the encoder with these settings; raise `StorageError` if they are not valid.

        Parameters
        ----------
        settings : the value of `settings`, read from a file.
        name : name of that file in errors.
        """
        try:
            if settings["format"] != FORMAT:
                raise StorageError(
                    f"{name} has an encoder of format {settings['format']!r}, "
                    f"this version reads {FORMAT}."
                )
            if type(settings["keep_constant"]) is not bool:
                raise TypeError("keep_constant must be true or false")
            encoder = cls(
                describer=PatchDescriber(
                    decoding=DecodeConfig(**settings["decoding"]),
                    sift=DenseSIFTConfig(**settings["sift"]),
                    keep_constant=settings["keep_constant"],
                ),
                codebook=codebook,
                color_codebook=color_codebook,
                regions=Regions.of([tuple(grid) for grid in settings["grids"]]),
            )
        except StorageError:
            raise
        except (KeyError, TypeError, AttributeError, SupDocNADEError) as error:
            raise StorageError(
                f"{name} is damaged: its encoder has odd settings: {error}."
            ) from error
        return encoder


def count_words(documents: Sequence[NDArray[np.int32]], n_features: int) -> sparse.csr_array:
    """Return the count of each word in each document, (documents, words)."""
    parts = [np.unique(words, return_counts=True) for words in documents]
    ends = np.cumsum([0, *(len(words) for words, _ in parts)])
    words = np.concatenate([np.empty(0, np.int32), *(words for words, _ in parts)])
    counts = np.concatenate([np.empty(0, np.int64), *(counts for _, counts in parts)])
    return sparse.csr_array((counts, words, ends), shape=(len(documents), n_features))


def damp_counts(counts: sparse.csr_array, scale: float | None) -> sparse.csr_array:
    """Return round(scale · √n) for each count n; None leaves the counts as they are."""
    if scale is None or counts.shape[0] == 0:
        return counts
    damped = np.round(scale * np.sqrt(counts.data))
    indices, indptr = counts.indices.copy(), counts.indptr.copy()
    result = sparse.csr_array((damped, indices, indptr), shape=counts.shape)
    result.eliminate_zeros()
    return result
