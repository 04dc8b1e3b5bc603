"""Where patches and their bins lie along a side of an image, and how bins weigh pixels.

Weights are a triangle over the bin times, with a Gaussian window, a bell over the patch. Both are
products of a function of y and a function of x, so the bins of an image need one table of weights a
side.
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
"""No entry of a unit descriptor exceeds this before it is scaled to a unit again."""


class UnitsAndNorms(NamedTuple):
    """The patches of one size in one channel."""

    units_SD: Floats
    """(patches, 128) of unit length, or zero."""
    norm_S: Floats
    """(patches,) length before it was made a unit."""


class SideWindows(NamedTuple):
    """The pixels that every bin weighs along a side; there are few of them."""

    first_P: NDArray[np.int64]
    """(patches · bins,) the first pixel."""
    count_P: NDArray[np.int64]
    """(patches · bins,) how many follow one another."""
    weight_PJ: Floats
    """(patches · bins, most pixels of a bin) their weights, and zeros after them."""


def least_side(patch_size: int) -> int:
    """Return the least side of an image that has room for a patch."""
    return (N_BINS - 1) * (patch_size // N_BINS) + 1


def sizes_with_room(shape: tuple[int, int], patch_sizes: Sequence[int]) -> list[int]:
    """Return the sizes of patches that an image has room for."""
    return [size for size in patch_sizes if min(shape) >= least_side(size)]


def patch_starts(length: int, patch_size: int, step: int) -> NDArray[np.int64]:
    """Return where the first bin of every patch has its centre, along a side of an image."""
    return np.arange(0, length - least_side(patch_size) + 1, step)


@functools.lru_cache(maxsize=8)  # 8 bytes a patch.
def patch_centres(shape: tuple[int, int], patch_size: int, step: int) -> Floats:
    """Return y and x of the centres of all patches, row by row, (patches, 2); read only."""
    middle = 0.5 * (least_side(patch_size) - 1)
    sides = [patch_starts(length, patch_size, step) + middle for length in shape]
    centres = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1)
    flat = centres.reshape(-1, 2).astype(np.float32)
    flat.flags.writeable = False
    return flat


def mirrored_order(n_channels: int = 1) -> NDArray[np.int64]:
    """Return which number of a descriptor stands where in the descriptor of the mirrored patch.

    Left and right bins change places, and a gradient to the right becomes one to the left; numbers
    are bins row by row, and the orientations of each. So descriptors are mirrored without a look at
    the pixels.
    """
    numbers = np.arange(n_channels * SIZE).reshape(n_channels, N_BINS, N_BINS, N_ORIENTATIONS)
    # Orientations count from "to the right": o eighths of a turn become half a turn less o.
    orientations = (N_ORIENTATIONS // 2 - np.arange(N_ORIENTATIONS)) % N_ORIENTATIONS
    return numbers[:, :, ::-1][..., orientations].reshape(-1)


def side_weights(length: int, patch_size: int, step: int, window: str) -> Floats:
    """Return the weights of all bins of all patches along a side, (patches · bins, length).

    Beyond the border the image continues as its last row or column.
    """
    bin_size = patch_size // N_BINS
    offsets = np.arange(-bin_size + 1, bin_size)
    triangle = 1 - abs(offsets) / bin_size
    starts = patch_starts(length, patch_size, step)
    weights = np.zeros((len(starts), N_BINS, length), np.float32)
    for number in range(N_BINS):
        # Where the bin's centre lies from the middle of the patch.
        delta = bin_size * (number - 0.5 * (N_BINS - 1))
        bell = np.exp(-0.5 * ((offsets + delta) / (bin_size * WINDOW_SIZE)) ** 2)
        # A flat window weighs a bin as a whole, by the mean of the bell over it.
        kernel = triangle * (bell if window == "gaussian" else bell.mean())
        for patch, start in enumerate(starts):
            places = np.clip(start + number * bin_size + offsets, 0, length - 1)
            np.add.at(weights[patch, number], places, kernel.astype(np.float32))
    return weights.reshape(-1, length)


@functools.lru_cache(maxsize=64)  # Some 4 KB each, at a step of 8 and 256 pixels.
def side_windows(length: int, patch_size: int, step: int, window: str) -> SideWindows:
    """Return the same weights without their zeros."""
    weights = side_weights(length, patch_size, step, window)
    first_P = (weights > 0).argmax(axis=1)
    count_P = (weights > 0).sum(axis=1)  # They follow one another: a triangle has no gaps.
    columns = first_P[:, None] + np.arange(count_P.max())
    weight_PJ = np.take_along_axis(weights, np.minimum(columns, length - 1), axis=1)
    weight_PJ[np.arange(weight_PJ.shape[1]) >= count_P[:, None]] = 0
    return SideWindows(first_P, count_P, np.ascontiguousarray(weight_PJ))


# How a gradient is shared out over the orientations.


def share_out(
    slopes_y: NDArray[Any], slopes_x: NDArray[Any]
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Return what gradients give to which orientations.

    Returns
    -------
    (..., 2) a gradient's length, shared out between the lower and the upper of its two nearest
    orientations; (...) the lower of them.
    """
    length = np.hypot(slopes_y, slopes_x)
    turn = np.arctan2(slopes_y, slopes_x) * (N_ORIENTATIONS / (2 * math.pi))
    turn = np.where(turn < 0, turn + N_ORIENTATIONS, turn)
    lower = np.floor(turn)
    upper_share = length * (turn - lower)
    shares = np.stack([length - upper_share, upper_share], axis=-1)
    return shares.astype(np.float32), (lower % N_ORIENTATIONS).astype(np.uint8)
