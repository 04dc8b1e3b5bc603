"""Dense SIFT on one thread of a CPU: no product with a weight of zero is ever made."""

import functools
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from supdocnade.imaging.dense_sift import cpu_kernels
from supdocnade.imaging.dense_sift.bins import (
    CLAMP,
    N_BINS,
    N_ORIENTATIONS,
    SIZE,
    SideWindows,
    UnitsAndNorms,
    side_windows,
)
from supdocnade.imaging.dense_sift.gradients import share_out

if TYPE_CHECKING:
    from supdocnade.imaging.dense_sift import DenseSIFTConfig


def describe(
    channel: NDArray[np.uint8], config: "DenseSIFTConfig", sizes: list[int]
) -> list[UnitsAndNorms]:
    """Describe the patches of every size, row by row."""
    height, width = channel.shape
    columns = _side_by_side(width, tuple(sizes), config.step, config.window)
    # The gradient is taken once: the bins of all sizes stand side by side.
    half_YPO = np.empty((height, len(columns.first_P), N_ORIENTATIONS), np.float32)
    cpu_kernels.sum_along_rows(channel, *_gradient_table(), *columns, half_YPO)
    described, before = [], 0
    for size in sizes:
        rows = side_windows(height, size, config.step, config.window)
        n_rows = len(rows.first_P) // N_BINS
        n_columns = len(side_windows(width, size, config.step, config.window).first_P) // N_BINS
        units_SD = np.empty((n_rows * n_columns, SIZE), np.float32)
        norm_S = np.empty(n_rows * n_columns, np.float32)
        cpu_kernels.sum_along_columns(half_YPO, *rows, before, np.float32(CLAMP), units_SD, norm_S)
        described.append(UnitsAndNorms(units_SD, norm_S))
        before += n_columns * N_BINS
    return described


@functools.lru_cache(maxsize=64)
def _side_by_side(length: int, sizes: tuple[int, ...], step: int, window: str) -> SideWindows:
    """Return the windows of all sizes one after the other."""
    parts = [side_windows(length, size, step, window) for size in sizes]
    most = max(each.weight_PJ.shape[1] for each in parts)
    padded = [np.pad(w, ((0, 0), (0, most - w.shape[1]))) for w in (p.weight_PJ for p in parts)]
    return SideWindows(
        np.concatenate([each.first_P for each in parts]),
        np.concatenate([each.count_P for each in parts]),
        np.concatenate(padded),
    )


@functools.cache
def _gradient_table() -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Return what every possible gradient gives to which orientations, as `share_out` does.

    Grey levels are whole numbers, so the differences of neighbours are, too: between -255 and 255.

    Returns
    -------
    (511, 511, 2) and (511, 511); the axes are the differences along y and x.
    """
    differences = np.arange(-255, 256) / 2  # Of neighbours two pixels apart.
    return share_out(*np.meshgrid(differences, differences, indexing="ij"))
