"""Dense SIFT: descriptors of patches on a regular grid.

The gradient of the image is split over eight planes, one per orientation. A descriptor is the
weighted sum of each plane around the centres of 4 × 4 bins, scaled to unit length, clipped at 0.2
and scaled again. The definition follows VLFeat's `vl_dsift`, with which the tests compare it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_count, check_range
from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.images.sift_bins import (
    N_BINS,
    least_side,
    patch_centres,
    sizes_with_room,
)


@dataclass(frozen=True, kw_only=True)
class DenseSIFTConfig:
    """Settings of dense SIFT."""

    step: int = 8
    """Distance between neighbouring patches in pixels."""
    patch_size: int | tuple[int, ...] = 16
    """Side of a patch in pixels, a multiple of the four bins per side; or several sizes, each with
    its own grid of patches."""
    contrast_floor: float = 0.0
    """Descriptors of patches with less contrast are scaled by contrast / floor."""

    def __post_init__(self) -> None:
        check_count("step", self.step, least=1)
        if isinstance(self.patch_size, Sequence):
            sizes = tuple(check_count("patch_size", each, least=N_BINS) for each in self.patch_size)
            object.__setattr__(self, "patch_size", sizes)
            if not sizes or len(set(sizes)) != len(sizes):
                raise InvalidArgument(f"patch_size must be different sizes, got {sizes}.")
        else:
            check_count("patch_size", self.patch_size, least=N_BINS)
        if any(size % N_BINS for size in self.patch_sizes):
            raise InvalidArgument(f"patch_size must be a multiple of 4, got {self.patch_size}.")
        check_range("contrast_floor", self.contrast_floor, least=0)

    @property
    def patch_sizes(self) -> tuple[int, ...]:
        """All patch sizes."""
        return self.patch_size if isinstance(self.patch_size, tuple) else (self.patch_size,)

    @property
    def least_side(self) -> int:
        """Smallest side of an image, in pixels, into which a patch fits."""
        return least_side(min(self.patch_sizes))


class Descriptors(NamedTuple):
    """Descriptors of the patches of one image."""

    values_SD: NDArray[np.float32]
    """(patches, 128): zero for patches of one colour, otherwise of unit length, or shorter if the
    contrast is below the floor."""
    centres_S2: NDArray[np.float32]
    """(patches, 2): y and x in pixels."""
    contrast_S: NDArray[np.float32]
    """(patches,) strength of the gradient: the length of the sums over the area of a bin."""
    patch_size_S: NDArray[np.int32]
    """(patches,) pixels along a side."""
    image_F: NDArray[np.float32] | None = None
    """Features of the whole image, which only networks have."""


def dense_sift(image: NDArray[np.uint8], config: DenseSIFTConfig | None = None) -> Descriptors:
    """Describe the patches of an image row by row, one patch size after the other.

    Sizes that do not fit into the image are skipped.

    Parameters
    ----------
    image : (height, width) grey levels.
    """
    # Here, since Numba takes long to import and commands import the settings.
    from supdocnade.images.dense_sift_kernels import describe

    config = config or DenseSIFTConfig()
    if image.dtype != np.uint8 or image.ndim != 2:
        raise InvalidArgument(
            f"image must have shape (height, width) and uint8, got {image.shape} of {image.dtype}."
        )
    height, width = image.shape
    sizes = sizes_with_room((height, width), config.patch_sizes)
    if not sizes:
        raise UnreadableImage(
            f"an image must have at least {config.least_side} × {config.least_side} pixels for "
            f"patches of {min(config.patch_sizes)}, got {height} × {width}."
        )
    parts = []
    described = describe(np.ascontiguousarray(image), sizes, config.step)
    for size, (values_SD, norm_S) in zip(sizes, described, strict=True):
        contrast_S = norm_S / np.float32((size // N_BINS) ** 2)
        if config.contrast_floor > 0:
            weak = contrast_S < config.contrast_floor
            values_SD[weak] *= (contrast_S[weak] / np.float32(config.contrast_floor))[:, None]
        centres_S2 = patch_centres((height, width), size, config.step)
        sizes_S = np.full(len(norm_S), size, np.int32)
        parts.append((values_SD, centres_S2, contrast_S, sizes_S))
    return Descriptors(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
