"""The sums of bins over planes, as matrix products that skip most of the zeros.

All sums of a plane are A_y · plane · A_xᵀ, with one row of A for every bin along a side. A bin
weighs few pixels (seven of 300, at patches of 16): rows of A are nearly all zeros, and those of
neighbouring bins have their other entries close together. So the products are made for some bins at
a time, with the pixels that any of them weighs: a quarter of the operations, at a step of 8.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from supdocnade.imaging.dense_sift.bins import N_BINS, side_windows
from supdocnade.imaging.dense_sift.planes import ALIGNED

PATCHES = 8
"""Along a side whose bins are one block: 32 bins, the least that a GPU multiplies well by."""


class Block(NamedTuple):
    """Neighbouring bins along a side."""

    first_bin: int
    first_pixel: int
    weight_PJ: Tensor
    """(bins, pixels) float32."""

    @property
    def last_bin(self) -> int:
        """The bin after those of the block."""
        return self.first_bin + self.weight_PJ.shape[0]

    @property
    def last_pixel(self) -> int:
        """The pixel after those that they weigh."""
        return self.first_pixel + self.weight_PJ.shape[1]


@functools.lru_cache(maxsize=256)  # Some 50 KB each, at a step of 8 and 300 pixels.
def side_blocks(
    length: int, patch_size: int, step: int, window: str, device: torch.device
) -> tuple[Block, ...]:
    """Return the weights of all bins of all patches along a side; see `bins.side_weights`."""
    windows = side_windows(length, patch_size, step, window)
    last_P = windows.first_P + windows.count_P
    blocks = []
    for start in range(0, len(last_P), N_BINS * PATCHES):
        bins = slice(start, start + N_BINS * PATCHES)
        first = int(windows.first_P[bins].min()) // ALIGNED * ALIGNED
        last = min(-(-int(last_P[bins].max()) // ALIGNED) * ALIGNED, length)
        weight_PJ = np.zeros((len(last_P[bins]), last - first), np.float32)
        for row, p in enumerate(range(start, start + len(weight_PJ))):
            place = windows.first_P[p] - first
            count = windows.count_P[p]
            weight_PJ[row, place : place + count] = windows.weight_PJ[p, :count]
        blocks.append(Block(start, first, torch.from_numpy(weight_PJ).to(device)))
    return tuple(blocks)


def sum_bins(
    planes_NYX: Tensor, rows: Sequence[Block], columns: Sequence[Block], above: int = 0
) -> Tensor:
    """Return the sums of all bins, (planes, bins along y, bins along x).

    Parameters
    ----------
    planes_NYX : all columns of the images, and their rows from `above` on.
    rows : some blocks that follow one another along y.
    columns : all blocks along x.
    """
    n_planes, _, width = planes_NYX.shape
    first = rows[0].first_bin
    n_rows, n_columns = rows[-1].last_bin - first, columns[-1].last_bin
    half_NPX = planes_NYX.new_empty(n_planes, n_rows, width)
    for block in rows:
        torch.bmm(
            block.weight_PJ.expand(n_planes, -1, -1),
            planes_NYX[:, block.first_pixel - above : block.last_pixel - above],
            out=half_NPX[:, block.first_bin - first : block.last_bin - first],
        )
    sums_MQ = planes_NYX.new_empty(n_planes * n_rows, n_columns)
    half_MX = half_NPX.view(-1, width)
    for block in columns:
        torch.mm(
            half_MX[:, block.first_pixel : block.last_pixel],
            block.weight_PJ.T,
            out=sums_MQ[:, block.first_bin : block.last_bin],
        )
    return sums_MQ.view(n_planes, n_rows, n_columns)
