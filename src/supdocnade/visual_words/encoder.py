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

from supdocnade.checks import check_count, check_flag, check_shape
from supdocnade.errors import InvalidArgument, SupDocNADEError, UnreadableImage
from supdocnade.images.decode import DecodeConfig
from supdocnade.images.dense_sift import DenseSIFTConfig
from supdocnade.images.feature_network import is_network_name
from supdocnade.images.regions import Regions
from supdocnade.storage import Arrays
from supdocnade.visual_words.cache import ImageWords
from supdocnade.visual_words.codebook import Codebook
from supdocnade.visual_words.describer import (
    Describer,
    NetworkDescriber,
    Projection,
    SIFTDescriber,
)

FORMAT = 1
"""Format of `ImageEncoder.settings`; it changes when the same settings come to mean other words."""


class EncodedImage(NamedTuple):
    """The words of one image, patch by patch."""

    ids: NDArray[np.int32]
    """(patches · words per patch · grids,) columns of the count matrix, one per visual word and
    region."""
    words_SM: NDArray[np.int32]
    """(patches, words per patch) visual words, -1 where a patch has fewer than others. The patches
    of the mirror image follow those of the image if the encoder has `mirror`, and the patches of
    SIFT words follow those of a network."""
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
        patch_N = np.nonzero(self.words_SM >= 0)[0]
        return np.repeat(patch_N, len(self.ids) // max(len(patch_N), 1))

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
    n_nearest: int = 1
    """Each patch has so many of the nearest visual words."""
    mirror: bool = False
    """True if an image also has the words of the same patches mirrored, in the same columns; only
    with SIFT alone."""
    sift_encoder: "ImageEncoder | None" = None
    """Encoder of SIFT words beside those of a network or function, numbered after them, with the
    same regions."""

    @property
    def n_words(self) -> int:
        """Number of visual words, those of SIFT beside others included."""
        sift = self.sift_encoder
        return self.codebook.n_words + (0 if sift is None else sift.n_words)

    def count_learned(self) -> dict[str, int]:
        """Return `n_words` and `n_sift_words` of `BagOfVisualWords` with the numbers of words here.

        Images with few patches give fewer words than were asked for.
        """
        sift = self.sift_encoder
        return {
            "n_words": self.codebook.n_words,
            "n_sift_words": 0 if sift is None else sift.n_words,
        }

    @property
    def n_features(self) -> int:
        """Number of columns: visual words times regions."""
        return self.n_words * self.regions.n_regions

    @property
    def n_image_features(self) -> int:
        """Number of features of a whole image; 0 unless a network describes images."""
        if not isinstance(self.describer, NetworkDescriber) or self.describer.projection is None:
            return 0
        return len(self.describer.projection.mean_D)

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
        encoded = EncodedImage(
            self.regions.words(words_SM, cells_SG, self.n_words).astype(np.int32),
            words_SM,
            centres_S2,
            patch_size_S,
            size,
            found.image_F,
        )
        return encoded if self.sift_encoder is None else self._add_sift_words(encoded, pixels)

    def _add_sift_words(self, encoded: EncodedImage, pixels: NDArray[np.uint8]) -> EncodedImage:
        """Return an image with its SIFT words; none if it is too narrow for a patch."""
        assert self.sift_encoder is not None
        try:
            sift = self.sift_encoder.encode(pixels)
        except UnreadableImage:
            return encoded
        cell_N, word_N = np.divmod(sift.ids, self.sift_encoder.n_words)
        ids_N = (cell_N * self.n_words + self.codebook.n_words + word_N).astype(np.int32)
        words_SM = np.full((len(sift.words_SM), encoded.words_SM.shape[1]), -1, np.int32)
        words_SM[:, :1] = self.codebook.n_words + sift.words_SM
        scale_2 = np.divide(encoded.size, sift.size)  # SIFT may resize the image.
        centres_S2 = ((sift.centres_S2 + 0.5) * scale_2 - 0.5).astype(np.float32)
        patch_size_S = np.round(sift.patch_size_S * scale_2.max()).astype(np.int32)
        return encoded._replace(
            ids=np.concatenate([encoded.ids, ids_N]),
            words_SM=np.concatenate([encoded.words_SM, words_SM]),
            centres_S2=np.concatenate([encoded.centres_S2, centres_S2]),
            patch_size_S=np.concatenate([encoded.patch_size_S, patch_size_S]),
        )

    def fingerprint(self) -> str:
        """Return a digest of everything on which the words of an image depend."""
        digest = hashlib.blake2b(
            json.dumps(self.settings(), sort_keys=True).encode(), digest_size=16
        )
        for name, array in self.arrays().items():
            digest.update(name.encode())
            digest.update(array.tobytes())
        return digest.hexdigest()

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values; together with the arrays they define the encoder."""
        kind: dict[str, Any]
        if isinstance(self.describer, SIFTDescriber):
            kind = _sift_settings(self.describer)
        elif isinstance(self.describer, NetworkDescriber):
            kind = {
                "network": self.describer.name,
                "fingerprint": self.describer.fingerprint,
            }
        else:
            kind = {"function": repr(self.describer.function)}
        if self.sift_encoder is not None:
            assert isinstance(self.sift_encoder.describer, SIFTDescriber)
            kind["sift_words"] = _sift_settings(self.sift_encoder.describer)
        return {
            "format": FORMAT,
            "decoding": asdict(self.describer.decoding),
            **kind,
            "grids": [list(grid) for grid in self.regions.grids],
            "n_nearest": self.n_nearest,
            "mirror": self.mirror,
        }

    def arrays(self) -> Arrays:
        """Return the arrays of the encoder by their names in files."""
        arrays: Arrays = {"centres": self.codebook.centres_KD}
        if self.sift_encoder is not None:
            arrays["sift_centres"] = self.sift_encoder.codebook.centres_KD
        if isinstance(self.describer, NetworkDescriber) and self.describer.projection is not None:
            arrays |= self.describer.projection._asdict()
        return arrays

    @classmethod
    def from_settings(cls, settings: Any, arrays: Arrays) -> "ImageEncoder":
        """Return the encoder with these settings; raise `InvalidArgument` if they are not valid.

        Parameters
        ----------
        settings : the value of `settings`, read from a file.
        arrays : those of `arrays`, and any others.
        """
        try:
            if settings["format"] != FORMAT:
                raise InvalidArgument(f"format must be {FORMAT}, got {settings['format']!r}")
            regions = Regions.of([tuple(grid) for grid in settings["grids"]])
            mirror = check_flag("mirror", settings["mirror"])
            sift_encoder = None
            if "sift_words" in settings:
                sift_encoder = cls(
                    describer=_read_sift(settings["sift_words"]),
                    codebook=Codebook(arrays["sift_centres"]),
                    regions=regions,
                )
            return cls(
                describer=_read_describer(settings, arrays),
                codebook=Codebook(arrays["centres"]),
                regions=regions,
                n_nearest=check_count("n_nearest", settings["n_nearest"], least=1),
                mirror=mirror,
                sift_encoder=sift_encoder,
            )
        except (KeyError, TypeError, AttributeError, SupDocNADEError) as error:
            raise InvalidArgument(f"its encoder has odd settings: {error}") from error


def _sift_settings(describer: SIFTDescriber) -> dict[str, Any]:
    """Return the settings of SIFT words as plain values."""
    return {"decoding": asdict(describer.decoding), "sift": asdict(describer.sift)}


def _read_sift(settings: Any) -> SIFTDescriber:
    return SIFTDescriber(
        decoding=DecodeConfig(**settings["decoding"]), sift=DenseSIFTConfig(**settings["sift"])
    )


def _read_describer(settings: Any, arrays: Arrays) -> SIFTDescriber | NetworkDescriber:
    if "network" not in settings:
        return _read_sift(settings)
    projection = Projection(*(arrays[each] for each in Projection._fields))
    shape = (len(projection.mean_D), arrays["centres"].shape[1])
    check_shape("components_DP", projection.components_DP.shape, shape)
    if not all(np.isfinite(each).all() and each.dtype == np.float32 for each in projection):
        raise TypeError("its projection must be finite float32")
    if not all(isinstance(settings[each], str) for each in ("network", "fingerprint")):
        raise TypeError("network and fingerprint must be text")
    if not is_network_name(settings["network"]):
        raise TypeError(f"{settings['network']!r} cannot be the name of a network")
    return NetworkDescriber(
        name=settings["network"],
        fingerprint=settings["fingerprint"],
        decoding=DecodeConfig(**settings["decoding"]),
        projection=projection,
    )


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
