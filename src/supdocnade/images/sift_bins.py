"""Geometry of dense SIFT: positions of patches and bins, and the weights of pixels in bins.

The weight of a pixel is a triangle over the bin times a Gaussian over the patch. Both are products
of a function of y and a function of x, so one table of weights per side of the image is enough.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

N_BINS, N_ORIENTATIONS = 4, 8
SIZE = N_BINS * N_BINS * N_ORIENTATIONS

WINDOW_SIZE = 2.0
"""Standard deviation of the Gaussian window, in bins."""

CLAMP = 0.2
"""Value at which the entries of a unit descriptor are clipped before it is normalised again."""


class SideWindows(NamedTuple):
    """Pixels and weights of each bin along a side, without zeros."""

    first_P: NDArray[np.int64]
    """(patches · bins,) first pixel."""
    count_P: NDArray[np.int64]
    """(patches · bins,) number of consecutive pixels."""
    weight_PJ: Floats
    """(patches · bins, largest number of pixels) weights, padded with zeros."""


def least_side(patch_size: int) -> int:
    """Return the smallest side of an image into which a patch fits."""
    return (N_BINS - 1) * (patch_size // N_BINS) + 1


def sizes_with_room(shape: tuple[int, int], patch_sizes: Sequence[int]) -> list[int]:
    """Return the patch sizes that fit into an image."""
    return [size for size in patch_sizes if min(shape) >= least_side(size)]


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
    """Return the order of the entries of a descriptor in that of the mirrored patch.

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


def split_gradients(
    slopes_y: NDArray[Any], slopes_x: NDArray[Any]
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Split the length of gradients between their two nearest orientations.

    Returns
    -------
    (..., 2) parts of the lower and the upper orientation; (...) the lower orientation.
    """
    length = np.hypot(slopes_y, slopes_x)
    turn = np.arctan2(slopes_y, slopes_x) * (N_ORIENTATIONS / (2 * math.pi))
    turn = np.where(turn < 0, turn + N_ORIENTATIONS, turn)
    lower = np.floor(turn)
    upper = length * (turn - lower)
    parts = np.stack([length - upper, upper], axis=-1)
    return parts.astype(np.float32), (lower % N_ORIENTATIONS).astype(np.uint8)
