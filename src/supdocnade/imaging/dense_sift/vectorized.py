"""Dense SIFT as two matrix products: all sums of a plane are A_y · plane · A_xᵀ."""

import functools
import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.imaging.dense_sift.bins import (
    CLAMP,
    N_BINS,
    N_ORIENTATIONS,
    SIZE,
    UnitsAndNorms,
    side_weights,
)

if TYPE_CHECKING:
    from supdocnade.imaging.dense_sift import DenseSIFTConfig


def describe(
    channel: NDArray[np.uint8], config: "DenseSIFTConfig", sizes: list[int]
) -> list[UnitsAndNorms]:
    """Describe the patches of every size, row by row."""
    planes_OYX = orientation_planes(torch.from_numpy(channel.astype(np.float32)))
    height, width = channel.shape
    described = []
    for size in sizes:
        A_y = _weights(height, size, config.step, config.window)
        A_x = _weights(width, size, config.step, config.window)
        half_OYC = planes_OYX @ A_x.T  # (orientations, height, patches · bins)
        sums_ORC = A_y @ half_OYC
        # (orientation, patch row, bin row, patch column, bin column) -> (patch, bins, orientation)
        split = sums_ORC.view(N_ORIENTATIONS, len(A_y) // N_BINS, N_BINS, -1, N_BINS)
        values_SD = split.permute(1, 3, 2, 4, 0).reshape(-1, SIZE)
        norm_S = torch.linalg.vector_norm(values_SD, dim=1)
        units_SD = _unit(_unit(values_SD).clamp_(max=CLAMP))
        described.append(UnitsAndNorms(units_SD.numpy(), norm_S.numpy()))
    return described


def _unit(values_SD: Tensor) -> Tensor:
    """Scale rows to unit length; rows of zero stay."""
    norm_S1 = torch.linalg.vector_norm(values_SD, dim=1, keepdim=True)
    units_SD: Tensor = values_SD / norm_S1.clamp_min(torch.finfo(torch.float32).eps)
    return units_SD


def orientation_planes(grey_YX: Tensor) -> Tensor:
    """Return the gradient's length, shared out between its two nearest orientations, (O, Y, X)."""
    slopes_y, slopes_x = torch.gradient(grey_YX)
    length = torch.hypot(slopes_y, slopes_x)
    turn = torch.atan2(slopes_y, slopes_x).mul_(N_ORIENTATIONS / (2 * math.pi))
    turn = torch.where(turn < 0, turn + N_ORIENTATIONS, turn)
    lower = turn.floor()
    upper_share = length * (turn - lower)
    lower = lower.long() % N_ORIENTATIONS
    planes_OYX = grey_YX.new_zeros(N_ORIENTATIONS, *grey_YX.shape)
    planes_OYX.scatter_add_(0, lower[None], (length - upper_share)[None])
    planes_OYX.scatter_add_(0, ((lower + 1) % N_ORIENTATIONS)[None], upper_share[None])
    return planes_OYX


@functools.lru_cache(maxsize=8)  # At a step of 8, two bytes times the squared length each.
def _weights(length: int, patch_size: int, step: int, window: str) -> Tensor:
    return torch.from_numpy(side_weights(length, patch_size, step, window))
