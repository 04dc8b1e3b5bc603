"""Dense SIFT: descriptors of patches on a regular grid.

The gradient of the image is split over eight planes, one per orientation. A descriptor is the
weighted sum of each plane around the centres of 4 × 4 bins, scaled to unit length, clipped at 0.2
and scaled again. The definition follows VLFeat's `vl_dsift`; the tests compare the two.

The weight of a pixel in a bin is a triangle over the bin times a Gaussian over the patch. Both are
products of a function of y and a function of x, so a table of weights per side is enough.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_count, check_range
from supdocnade.errors import InvalidArgument

Floats = NDArray[np.float32]

N_BINS, N_ORIENTATIONS = 4, 8
SIZE = N_BINS * N_BINS * N_ORIENTATIONS

WINDOW_SIZE = 2.0
"""Standard deviation of the Gaussian window, in bins."""

CLAMP = 0.2
"""Value at which the entries of a unit descriptor are clipped before it is normalised again."""


def least_side(patch_size: int) -> int:
    """Return the smallest side of an image into which a patch fits."""
    return (N_BINS - 1) * (patch_size // N_BINS) + 1


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

    def count_patches(self, height: int, width: int) -> int:
        """Return the number of patches of an image."""
        least = map(least_side, self.patch_sizes)
        starts = [
            [max(side - each + self.step, 0) // self.step for side in (height, width)]
            for each in least
        ]
        return sum(rows * columns for rows, columns in starts)


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


class SideWindows(NamedTuple):
    """Pixels and weights of each bin along a side, without zeros."""

    first_P: NDArray[np.int64]
    """(patches · bins,) first pixel."""
    count_P: NDArray[np.int64]
    """(patches · bins,) number of consecutive pixels."""
    weight_PJ: Floats
    """(patches · bins, largest number of pixels) weights, padded with zeros."""


def dense_sift(image: NDArray[np.uint8], config: DenseSIFTConfig | None = None) -> Descriptors:
    """Describe the patches of an image row by row, one patch size after the other.

    Sizes that do not fit into the image are skipped; one must fit, see `DenseSIFTConfig`.

    Parameters
    ----------
    image : (height, width) grey levels.
    """
    config = config or DenseSIFTConfig()
    if image.dtype != np.uint8 or image.ndim != 2:
        raise InvalidArgument(
            f"image must have shape (height, width) and uint8, got {image.shape} of {image.dtype}."
        )
    height, width = image.shape
    sizes = [size for size in config.patch_sizes if min(height, width) >= least_side(size)]
    parts = []
    described = _describe(np.ascontiguousarray(image), sizes, config.step)
    for size, (values_SD, norm_S) in zip(sizes, described, strict=True):
        contrast_S = norm_S / np.float32((size // N_BINS) ** 2)
        if config.contrast_floor > 0:
            weak = contrast_S < config.contrast_floor
            values_SD[weak] *= (contrast_S[weak] / np.float32(config.contrast_floor))[:, None]
        centres_S2 = patch_centres((height, width), size, config.step)
        sizes_S = np.full(len(norm_S), size, np.int32)
        parts.append((values_SD, centres_S2, contrast_S, sizes_S))
    return Descriptors(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _describe(
    grey: NDArray[np.uint8], sizes: Sequence[int], step: int
) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Describe the patches of each size, row by row.

    Returns
    -------
    For each size descriptors of unit length or zero, (patches, 128), and their length before,
    (patches,).
    """
    # Here, since Numba takes long to import and commands import the settings.
    from supdocnade.images.dense_sift_kernels import sum_along_columns, sum_along_rows

    height, width = grey.shape
    columns = _join_windows(width, tuple(sizes), step)
    # The gradient is computed once for the bins of all sizes.
    half_YPO = np.empty((height, len(columns.first_P), N_ORIENTATIONS), np.float32)
    sum_along_rows(grey, *gradient_table(), *columns, half_YPO)
    described, before = [], 0
    for size in sizes:
        rows = side_windows(height, size, step)
        n_rows = len(rows.first_P) // N_BINS
        n_columns = len(side_windows(width, size, step).first_P) // N_BINS
        units_SD = np.empty((n_rows * n_columns, SIZE), np.float32)
        norm_S = np.empty(n_rows * n_columns, np.float32)
        sum_along_columns(half_YPO, *rows, before, np.float32(CLAMP), units_SD, norm_S)
        described.append((units_SD, norm_S))
        before += n_columns * N_BINS
    return described


@functools.lru_cache(maxsize=64)
def _join_windows(length: int, sizes: tuple[int, ...], step: int) -> SideWindows:
    """Return the windows of all sizes, one size after the other."""
    parts = [side_windows(length, size, step) for size in sizes]
    most = max(each.weight_PJ.shape[1] for each in parts)
    padded = [np.pad(w, ((0, 0), (0, most - w.shape[1]))) for w in (p.weight_PJ for p in parts)]
    return SideWindows(
        np.concatenate([each.first_P for each in parts]),
        np.concatenate([each.count_P for each in parts]),
        np.concatenate(padded),
    )


@functools.cache
def gradient_table() -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Return the length of every possible gradient, split between its two nearest orientations.

    Differences of grey levels are integers between -255 and 255.

    Returns
    -------
    (511, 511, 2) parts of the lower and the upper orientation, and (511, 511) the lower
    orientation; the axes are the differences along y and x.
    """
    differences = np.arange(-255, 256) / 2  # Neighbours are two pixels apart.
    slopes_y, slopes_x = np.meshgrid(differences, differences, indexing="ij")
    length = np.hypot(slopes_y, slopes_x)
    turn = np.arctan2(slopes_y, slopes_x) * (N_ORIENTATIONS / (2 * math.pi))
    turn = np.where(turn < 0, turn + N_ORIENTATIONS, turn)
    lower = np.floor(turn)
    upper = length * (turn - lower)
    parts = np.stack([length - upper, upper], axis=-1)
    return parts.astype(np.float32), (lower % N_ORIENTATIONS).astype(np.uint8)


def patch_starts(length: int, patch_size: int, step: int) -> NDArray[np.int64]:
    """Return the centre of the first bin of each patch along a side of an image."""
    return np.arange(0, length - least_side(patch_size) + 1, step)


@functools.lru_cache(maxsize=8)  # 8 bytes per patch.
def patch_centres(shape: tuple[int, int], patch_size: int, step: int) -> Floats:
    """Return y and x of the centres of all patches, row by row, (patches, 2), read-only."""
    middle = 0.5 * (least_side(patch_size) - 1)
    sides = [patch_starts(length, patch_size, step) + middle for length in shape]
    centres = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1)
    flat = centres.reshape(-1, 2).astype(np.float32)
    flat.flags.writeable = False
    return flat


def mirrored_order() -> NDArray[np.int64]:
    """Return the order of the entries of a descriptor in the descriptor of the mirrored patch.

    Left and right bins change places, and a gradient to the right becomes one to the left. Entries
    are ordered by bin, row by row, and by orientation within a bin.
    """
    numbers = np.arange(SIZE).reshape(N_BINS, N_BINS, N_ORIENTATIONS)
    # Orientation 0 points to the right: an angle of o eighths becomes half a turn minus o eighths.
    orientations = (N_ORIENTATIONS // 2 - np.arange(N_ORIENTATIONS)) % N_ORIENTATIONS
    return numbers[:, ::-1][..., orientations].reshape(-1)


def side_weights(length: int, patch_size: int, step: int) -> Floats:
    """Return the weights of all bins of all patches along a side, (patches · bins, length).

    Beyond the border the last row or column is repeated.
    """
    bin_size = patch_size // N_BINS
    offsets = np.arange(-bin_size + 1, bin_size)
    triangle = 1 - abs(offsets) / bin_size
    starts = patch_starts(length, patch_size, step)
    weights = np.zeros((len(starts), N_BINS, length), np.float32)
    for number in range(N_BINS):
        # Offset of the bin's centre from the middle of the patch.
        delta = bin_size * (number - 0.5 * (N_BINS - 1))
        gaussian = np.exp(-0.5 * ((offsets + delta) / (bin_size * WINDOW_SIZE)) ** 2)
        for patch, start in enumerate(starts):
            places = np.clip(start + number * bin_size + offsets, 0, length - 1)
            np.add.at(weights[patch, number], places, (triangle * gaussian).astype(np.float32))
    return weights.reshape(-1, length)


@functools.lru_cache(maxsize=64)  # About 4 KB each, at a step of 8 and 256 pixels.
def side_windows(length: int, patch_size: int, step: int) -> SideWindows:
    """Return the weights of `side_weights` without zeros."""
    weights = side_weights(length, patch_size, step)
    first_P = (weights > 0).argmax(axis=1)
    count_P = (weights > 0).sum(axis=1)  # A triangle has no gaps.
    columns = first_P[:, None] + np.arange(count_P.max())
    weight_PJ = np.take_along_axis(weights, np.minimum(columns, length - 1), axis=1)
    weight_PJ[np.arange(weight_PJ.shape[1]) >= count_P[:, None]] = 0
    return SideWindows(first_P, count_P, np.ascontiguousarray(weight_PJ))
