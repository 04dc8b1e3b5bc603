"""Descriptors of the patches of an image: the features from which visual words are made.

There are three kinds of features: dense SIFT, the activations of a pretrained network, and the
results of a function of the user. Another kind gets a class here with the same methods, whose
fields are in a file; codebook, regions, cache and estimators do not depend on the kind.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.images.decode import DecodeConfig, decode, image_size, resized_size
from supdocnade.images.dense_sift import DenseSIFTConfig, Descriptors, dense_sift, mirrored_order
from supdocnade.images.source import is_source, source_name
from supdocnade.schema import array, stored
from supdocnade.threads import one_blas_thread

if TYPE_CHECKING:
    from supdocnade.images.feature_network import FeatureNetwork

Floats = NDArray[np.float32]

N_COMPONENTS = 128
"""Principal components of the features of patches."""

MAX_PATCHES = 2**20
"""Largest number of patches of an image, whose descriptors take half a gigabyte."""

MAX_NETWORK_SIDE = 512
"""Longest side of an image that is given to a network, which resizes it to its own input size."""

PatchFunction = Callable[[NDArray[np.uint8]], tuple[ArrayLike, ArrayLike, ArrayLike]]
"""Function from the pixels of an image, (height, width, 3), to the descriptors of its patches,
(patches, D), their centres, (patches, 2): y and x in pixels, and their sides in pixels, (patches,)
or one number."""


@dataclass(frozen=True, kw_only=True)
class SIFTDescriber:
    """Decodes images and describes their patches by dense SIFT."""

    decoding: DecodeConfig
    sift: DenseSIFTConfig

    def read(self, source: Any, name: str = "") -> NDArray[np.uint8]:
        """Return the pixels of an image; raise `UnreadableImage` if no patch fits into it."""
        pixels = decode(source, self.decoding, name=name)
        name = name or (source_name(source) if is_source(source) else "the image")
        height, width = pixels.shape
        self._check_size(width, height, name)
        n_patches = self.sift.count_patches(height, width)
        if n_patches > MAX_PATCHES:
            raise UnreadableImage(f"{name} has {n_patches} patches; the limit is {MAX_PATCHES}.")
        return pixels

    def describe(self, pixels: NDArray[np.uint8], device: str = "cpu") -> Descriptors:
        """Return the descriptors of the patches of an image that `read` returned, on the CPU."""
        return dense_sift(pixels, self.sift)

    def mirror(self, values_ND: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the descriptors of the mirror images of patches."""
        return values_ND[:, mirrored_order()]

    def check_size(self, source: Any, name: str = "") -> None:
        """Raise `UnreadableImage` if no patch fits into an image that can be decoded.

        Only the header of a file is read.

        Parameters
        ----------
        source : bytes of a file, an array or a PIL image.
        name : name of the image in errors.
        """
        if isinstance(source, bytes | bytearray | memoryview):
            width, height = image_size(bytes(source), name)
        elif isinstance(source, np.ndarray):
            height, width = source.shape[:2]
        else:
            width, height = source.size
        self._check_size(*resized_size(width, height, self.decoding), name)

    def _check_size(self, width: int, height: int, name: str) -> None:
        """Raise `UnreadableImage` if no patch fits into a resized image."""
        least = self.sift.least_side
        if min(width, height) < least:
            resized = "" if self.decoding.max_side is None else " after resizing"
            raise UnreadableImage(
                f"{name} is too small or too narrow: patches of {min(self.sift.patch_sizes)} need "
                f"at least {least} × {least} pixels, got {width} × {height}{resized}."
            )


@dataclass(frozen=True, eq=False)
class Projection:
    """Statistics of the features of a sample of images: of their patches, and as a whole."""

    mean_D: Floats = array("D", np.float32)
    components_DP: Floats = array("DP", np.float32)
    """(channels, components)."""
    image_mean_F: Floats = array("F", np.float32)
    map_scale_M: Floats = array("M", np.float32, above=0)
    """Factors of the features of images, one for each map. All maps then have the same total
    variance: a map with few channels would hardly count otherwise."""
    map_width: tuple[int, ...] = stored(axis="M", least=1)
    """Channels of every map."""

    def __post_init__(self) -> None:
        check_shape("image_mean_F", self.image_mean_F.shape, (sum(self.map_width),))

    @cached_property
    def image_scale_F(self) -> Floats:
        """Factors of the features of images, (F,)."""
        return np.repeat(self.map_scale_M, self.map_width)


@dataclass(frozen=True, eq=False, kw_only=True)
class _ColorDescriber:
    """Reads images in colour."""

    decoding: DecodeConfig

    def read(self, source: Any, name: str = "") -> NDArray[np.uint8]:
        """Return the pixels of an image in colour."""
        return decode(source, self.decoding, name=name)


@dataclass(frozen=True, eq=False, kw_only=True)
class FunctionDescriber(_ColorDescriber):
    """Describes the patches of images by a function of the user."""

    function: PatchFunction

    def describe(self, pixels: NDArray[np.uint8], device: str = "cpu") -> Descriptors:
        """Return the descriptors of the patches of an image."""
        values, centres, sides = self.function(pixels)
        values_SD = np.ascontiguousarray(values, np.float32)
        centres_S2 = np.ascontiguousarray(centres, np.float32)
        if values_SD.ndim != 2 or centres_S2.shape != (len(values_SD), 2):
            raise InvalidArgument(
                "features must return descriptors (patches, D) and centres (patches, 2), got "
                f"{values_SD.shape} and {centres_S2.shape}."
            )
        if not (np.isfinite(values_SD).all() and np.isfinite(centres_S2).all()):
            raise InvalidArgument("features must return finite numbers, got NaN or infinity.")
        side_S = np.broadcast_to(np.asarray(sides, np.int32), len(values_SD)).copy()
        return Descriptors(values_SD, centres_S2, np.linalg.norm(values_SD, axis=1), side_S)


@dataclass(frozen=True, eq=False, kw_only=True)
class NetworkDescriber(_ColorDescriber):
    """Describes the patches of images, and the images, by a pretrained network.

    Patches are those of the first map of the network. Their features are divided by their length
    and projected to principal components. An image is described by all maps: the mean of a map is
    divided by its root mean square, centred and scaled, and has the precision of float16.
    """

    name: str
    """Name of the network."""
    fingerprint: str
    """Fingerprint of the network."""
    projection: Projection | None = None
    """None before `fit`: features are then not projected."""

    @classmethod
    def find(cls, name: str) -> "NetworkDescriber":
        """Return the describer of a network that is installed."""
        from supdocnade.images.network_library import find_network

        decoding = DecodeConfig(max_side=MAX_NETWORK_SIDE, upscale=False, color=True)
        return cls(name=name, fingerprint=find_network(name).fingerprint(), decoding=decoding)

    @cached_property
    def network(self) -> "FeatureNetwork":
        """The network; `InvalidArgument` if it is not installed, or another one has its name."""
        from supdocnade.images.network_library import find_network

        network = find_network(self.name, fingerprint=self.fingerprint)
        if self.projection is not None:
            check_shape("mean_D", self.projection.mean_D.shape, network.shapes[0][2:])
        return network

    def describe(self, pixels: NDArray[np.uint8], device: str = "cpu") -> Descriptors:
        """Return the descriptors of the patches of an image, and its features as a whole."""
        maps = self.network.describe(pixels, device=device)
        patches_SD = maps[0].patches_PD
        centres_S2, patch_size_S = _place_patches(maps[0].grid, pixels)
        norm_S = np.linalg.norm(patches_SD, axis=1)
        patches_SD = patches_SD / np.maximum(norm_S, np.finfo(np.float32).tiny)[:, None]
        image_F = np.concatenate([each.image_D / _root_mean_square(each.image_D) for each in maps])
        if self.projection is not None:
            image_F = (image_F - self.projection.image_mean_F) * self.projection.image_scale_F
        return Descriptors(
            self.project(patches_SD),
            centres_S2,
            norm_S,
            patch_size_S,
            # Their precision in files, so that stored features are those of a new photograph.
            image_F.astype(np.float16).astype(np.float32),
        )

    def divide_features(
        self, pixels: NDArray[np.uint8], device: str = "cpu"
    ) -> list[Descriptors] | None:
        """Return features of the patches of every map, whose means are the features of the image.

        They are None if the network describes the image by a token of its own.
        """
        if self.network.description.class_tokens:
            return None
        assert self.projection is not None
        found, first = [], 0
        for grid, patches_SD, image_D in self.network.describe(pixels, device=device):
            columns = slice(first, first := first + len(image_D))
            parts_SD = patches_SD / _root_mean_square(image_D)
            parts_SD -= self.projection.image_mean_F[columns]
            parts_SD *= self.projection.image_scale_F[columns]
            centres_S2, patch_size_S = _place_patches(grid, pixels)
            norm_S = np.linalg.norm(patches_SD, axis=1)
            found.append(Descriptors(parts_SD, centres_S2, norm_S, patch_size_S))
        return found

    def project(self, patches_SD: Floats) -> Floats:
        """Return the principal components of features, or the features before `fit`."""
        if self.projection is None:
            return patches_SD
        with one_blas_thread():
            projected: Floats = np.matmul(
                patches_SD - self.projection.mean_D, self.projection.components_DP
            )
        return projected

    def fit(self, patches_ND: Floats, image_BF: Floats) -> "NetworkDescriber":
        """Return a describer with the statistics of a sample of features.

        Parameters
        ----------
        patches_ND : features of patches, of unit length.
        image_BF : features of images.
        """
        n_components = min(N_COMPONENTS, patches_ND.shape[1], len(patches_ND))
        mean_D = patches_ND.mean(axis=0, dtype=np.float64).astype(np.float32)
        with one_blas_thread():
            centred_ND = patches_ND - mean_D
            _, vectors_DD = np.linalg.eigh((centred_ND.T @ centred_ND).astype(np.float64))
        components_DP = vectors_DD[:, ::-1][:, :n_components]
        # The sign of a component is arbitrary: its largest entry is made positive.
        largest_P = components_DP[abs(components_DP).argmax(axis=0), np.arange(n_components)]
        components_DP = (components_DP * np.sign(largest_P)).astype(np.float32)
        image_mean_F = image_BF.mean(axis=0, dtype=np.float64)
        widths = tuple(channels for _, _, channels in self.network.shapes)
        variance_F = image_BF.var(axis=0, dtype=np.float64)
        total_M = np.add.reduceat(variance_F, np.cumsum((0, *widths[:-1])))
        varies = (total_M > 0) & (total_M[0] > 0)  # All images of a sample may be equal in a map.
        scale_M = np.sqrt(np.divide(total_M[0], total_M, out=np.ones_like(total_M), where=varies))
        statistics = (image_mean_F.astype(np.float32), scale_M.astype(np.float32), widths)
        return replace(self, projection=Projection(mean_D, components_DP, *statistics))


def _place_patches(
    grid: tuple[int, int], pixels: NDArray[np.uint8]
) -> tuple[Floats, NDArray[np.int32]]:
    """Return the centres, (patches, 2), and sides, (patches,), of a grid of patches."""
    (rows, columns), (height, width) = grid, pixels.shape[:2]
    y, x = np.mgrid[:rows, :columns].reshape(2, -1)
    centres_S2 = np.stack([(y + 0.5) * height / rows, (x + 0.5) * width / columns], axis=1)
    side = max(-(-height // rows), -(-width // columns))
    # The first patches of an image with fewer rows than patches begin before it.
    centres_S2 = np.maximum(centres_S2 - 0.5, 0).astype(np.float32)
    return centres_S2, np.full(len(y), side, np.int32)


def _root_mean_square(features_F: Floats) -> np.float32:
    """Return the root mean square of features, at least the smallest positive number."""
    scale = np.sqrt(np.square(features_F, dtype=np.float64).mean())
    return np.float32(max(scale, np.finfo(np.float32).tiny))


Describer = SIFTDescriber | NetworkDescriber | FunctionDescriber
