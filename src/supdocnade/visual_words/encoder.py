"""A fitted encoder: from one image to its visual words, each in its region."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.errors import StorageError, SupDocNADEError, UnreadableImage
from supdocnade.images.decode import DecodeConfig, decode
from supdocnade.images.dense_sift import DenseSIFTConfig, Descriptors, dense_sift
from supdocnade.images.regions import Regions
from supdocnade.images.sift_bins import SIZE, mirrored_order
from supdocnade.likelihood.cpu.threads import one_torch_thread
from supdocnade.visual_words.codebook import Codebook

FORMAT = 1
"""Of the description of an encoder; it changes when the same settings come to mean other words."""


class EncodedImage(NamedTuple):
    """The words of one image, patch by patch."""

    ids: NDArray[np.int32]
    """(patches · grids,) columns of the counts: a visual word in a region is a word of its own.
    Of both sides, those of the mirror image come after them."""
    words_S: NDArray[np.int32]
    """(patches,) visual words."""
    centres_S2: NDArray[np.float32]
    """(patches, 2): y and x in pixels of the image as it was described."""
    patch_size_S: NDArray[np.int32]
    """(patches,) pixels along a side."""
    size: tuple[int, int]
    """Height and width of the image as it was described."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """How the patches of an image are described, before there are words for them."""

    decoding: DecodeConfig
    sift: DenseSIFTConfig
    keep_constant: bool = True
    """Whether patches of one colour are words, too."""

    def read(self, source: Any, name: str = "") -> NDArray[np.uint8]:
        """Return the pixels of an image, in which there is room for a patch."""
        image = decode(source, self.decoding, name=name)
        if min(image.shape[:2]) < self.sift.least_side:
            raise UnreadableImage(self._why_too_small(source, name, image.shape))
        return image

    def describe(self, source: Any, name: str = "") -> tuple[Descriptors, tuple[int, int]]:
        """Return the descriptors of an image and its height and width."""
        image = self.read(source, name)
        found = dense_sift(image, self.sift)
        if not self.keep_constant:
            some = np.any(found.values_SD != 0, axis=1)
            if not some.all():
                found = found.take(some)
        return found, (image.shape[0], image.shape[1])

    def _why_too_small(self, source: Any, name: str, shape: tuple[int, ...]) -> str:
        """Return what is wrong with an image that no patch fits into once it has its size."""
        # Its own size is of interest only now: reading it once more costs others nothing.
        height, width = decode(source, replace(self.decoding, max_side=None), name=name).shape[:2]
        least, patch = self.sift.least_side, min(self.sift.patch_sizes)
        named = name or _name_of(source)
        longest = self.decoding.max_side
        can_be_cropped = self.decoding.upscale or min(height, width) >= least
        if longest is not None and can_be_cropped:
            return (
                f"{named} is too long and narrow: its {width} × {height} pixels become "
                f"{shape[1]} × {shape[0]}, since the longest side becomes {longest}, and patches "
                f"of {patch} need at least {least} × {least}; crop its longest side to "
                f"{min(height, width) * longest // least}."
            )
        return (
            f"{named} is too small: it has {width} × {height} pixels, and patches of {patch} need "
            f"at least {least} × {least}."
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageEncoder:
    """Everything between an image and its words."""

    description: Description
    codebook: Codebook
    regions: Regions
    both_sides: bool = False
    """Whether the words of the mirror image follow those of the image, as words of their own.

    They are those of the same patches, mirrored. The image with its pixels mirrored has the same
    words where the patches of every size lie as far from the left edge as from the right."""

    @property
    def n_features(self) -> int:
        """Number of different words: visual words times regions, times sides."""
        return self.codebook.n_words * self.regions.n_regions * (2 if self.both_sides else 1)

    @cached_property
    def mirrored_codebook(self) -> Codebook:
        """The words mirrored: a patch is as near to them as its mirror image is to the words."""
        centres_KD = self.codebook.centres_KD
        return Codebook(centres_KD[:, mirrored_order(centres_KD.shape[1] // SIZE)])

    def encode(self, source: Any, name: str = "") -> EncodedImage:
        """Return the words of an image: the same bits whatever the number of threads.

        Parameters
        ----------
        source : whatever `decode` takes.
        name : what to call the image in an error.
        """
        found, size = self.description.describe(source, name)
        with one_torch_thread():
            words_S = all_words = self.codebook.assign(found.values_SD)
            if self.both_sides:
                mirrored_S = self.mirrored_codebook.assign(found.values_SD)
                all_words = np.concatenate([words_S, mirrored_S])
        cells = self.regions.cells(found.centres_S2, size, both_sides=self.both_sides)
        ids = self.regions.words(all_words, cells, self.codebook.n_words)
        return EncodedImage(
            ids.astype(np.int32), words_S, found.centres_S2, found.patch_size_S, size
        )

    def fingerprint(self) -> str:
        """Return a digest of everything that decides which words an image has."""
        digest = hashlib.blake2b(
            json.dumps(self.settings(), sort_keys=True).encode(), digest_size=16
        )
        digest.update(self.codebook.centres_KD.tobytes())
        if self.both_sides:
            digest.update(b"both sides")
        return digest.hexdigest()

    def settings(self) -> dict[str, Any]:
        """Return all settings as plain values; with the codebook they make the encoder.

        Not whether it sees both sides: that is asked for when images are encoded.
        """
        return {
            "format": FORMAT,
            "decoding": asdict(self.description.decoding),
            "sift": asdict(self.description.sift),
            "keep_constant": self.description.keep_constant,
            "grids": [list(grid) for grid in self.regions.grids],
        }

    @classmethod
    def from_settings(cls, settings: Any, codebook: Codebook, name: str) -> "ImageEncoder":
        """Return the encoder that `settings` described; anything else raises `StorageError`.

        Parameters
        ----------
        name : of the file they were read from, for the error.
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
                description=Description(
                    decoding=DecodeConfig(**settings["decoding"]),
                    sift=DenseSIFTConfig(**settings["sift"]),
                    keep_constant=settings["keep_constant"],
                ),
                codebook=codebook,
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
    """Return how often every word occurs in every document, (documents, words)."""
    parts = [np.unique(words, return_counts=True) for words in documents]
    ends = np.cumsum([0, *(len(words) for words, _ in parts)])
    words = np.concatenate([np.empty(0, np.int32), *(words for words, _ in parts)])
    counts = np.concatenate([np.empty(0, np.int64), *(counts for _, counts in parts)])
    return sparse.csr_array((counts, words, ends), shape=(len(documents), n_features))


def damp_counts(counts: sparse.csr_array, scale: float | None) -> sparse.csr_array:
    """Return round(scale · √n) for every count n; None leaves the counts as they are."""
    if scale is None or counts.shape[0] == 0:
        return counts
    damped = np.round(scale * np.sqrt(counts.data))
    indices, indptr = counts.indices.copy(), counts.indptr.copy()
    result = sparse.csr_array((damped, indices, indptr), shape=counts.shape)
    result.eliminate_zeros()
    return result


def _name_of(source: Any) -> str:
    return str(source) if isinstance(source, str) or hasattr(source, "__fspath__") else "the image"
