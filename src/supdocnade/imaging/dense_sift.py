"""Dense SIFT: descriptors of patches on a regular grid, as two matrix products.

The gradient of the image is shared out over eight planes, one an orientation. A descriptor is the
weighted sum of each plane around the centres of 4 × 4 bins; weights are a triangle over the bin
times, with a Gaussian window, a bell over the patch. Both are products of a function of y and a
function of x, so all sums of an image are A_y · plane · A_xᵀ, with matrices that depend on the size
of the image alone and are kept. The definition follows VLFeat's `vl_dsift`, which is the test's
oracle.
"""

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.shapes import check_choice, check_count

N_BINS, N_ORIENTATIONS = 4, 8
WINDOW_SIZE = 2.0
"""Standard deviation of the Gaussian window, in bins."""

CLAMP = 0.2
"""No entry of a unit descriptor exceeds this before it is scaled to a unit again."""

SIZE = N_BINS * N_BINS * N_ORIENTATIONS


@dataclass(frozen=True, kw_only=True)
class DenseSIFTConfig:
    """Which patches are described, and how."""

    step: int = 8
    """Pixels from one patch to the next."""
    patch_size: int = 16
    """Pixels along a side of a patch: four bins, so a multiple of four."""
    window: str = "gaussian"
    """"gaussian": patches weigh their middle more; "flat": only each bin as a whole is weighted."""

    def __post_init__(self) -> None:
        check_count("step", self.step, least=1)
        check_count("patch_size", self.patch_size, least=N_BINS)
        check_choice("window", self.window, ("gaussian", "flat"))
        if self.patch_size % N_BINS:
            raise InvalidArgument(f"patch_size must be a multiple of 4, got {self.patch_size}.")

    @property
    def bin_size(self) -> int:
        """Pixels along a side of a bin."""
        return self.patch_size // N_BINS

    def starts(self, length: int) -> NDArray[np.int64]:
        """Return where the first bin of every patch has its centre, along a side of an image."""
        room = length - 1 - (N_BINS - 1) * self.bin_size
        return np.arange(0, room + 1, self.step)


class Descriptors(NamedTuple):
    """The patches of one image."""

    values_SD: NDArray[np.float32]
    """(patches, 128), of unit length, or zero where the patch is of one colour."""
    centres_S2: NDArray[np.float32]
    """(patches, 2): y and x in pixels."""
    norm_S: NDArray[np.float32]
    """(patches,) length before it was made a unit: how much contrast a patch has."""


def dense_sift(grey: NDArray[np.uint8], config: DenseSIFTConfig | None = None) -> Descriptors:
    """Describe the patches of an image, row by row.

    The last bits follow torch's number of threads: whoever wants the same bits always, or describes
    images in several processes, sets it to one.

    Parameters
    ----------
    grey : (height, width) grey levels.
    """
    config = config or DenseSIFTConfig()
    if grey.ndim != 2:
        raise InvalidArgument(f"grey must have shape (height, width), got {grey.shape}.")
    height, width = grey.shape
    rows, columns = config.starts(height), config.starts(width)
    if not len(rows) or not len(columns):
        least = (N_BINS - 1) * config.bin_size + 1
        raise UnreadableImage(
            f"an image must have at least {least} × {least} pixels for patches of "
            f"{config.patch_size}, got {height} × {width}."
        )
    planes_OYX = _orientation_planes(torch.from_numpy(grey.astype(np.float32)))
    A_y, A_x = _weights(height, config), _weights(width, config)
    half_OYC = planes_OYX @ A_x.T  # (orientations, height, patches · bins)
    sums_ORC = A_y @ half_OYC
    # (orientation, patch row, bin row, patch column, bin column) -> (patch, bin row, column, o)
    split = sums_ORC.view(N_ORIENTATIONS, len(rows), N_BINS, len(columns), N_BINS)
    values_SD = split.permute(1, 3, 2, 4, 0).reshape(-1, SIZE)
    norm_S = torch.linalg.vector_norm(values_SD, dim=1)
    middle = 0.5 * (N_BINS - 1) * config.bin_size
    centres_S2 = np.stack(np.meshgrid(rows + middle, columns + middle, indexing="ij"), axis=-1)
    return Descriptors(
        _unit(_unit(values_SD).clamp_(max=CLAMP)).numpy(),
        centres_S2.reshape(-1, 2).astype(np.float32),
        norm_S.numpy(),
    )


def _unit(values_SD: Tensor) -> Tensor:
    """Scale rows to unit length; rows of zero stay."""
    norm_S1 = torch.linalg.vector_norm(values_SD, dim=1, keepdim=True)
    units_SD: Tensor = values_SD / norm_S1.clamp_min(torch.finfo(torch.float32).eps)
    return units_SD


def _orientation_planes(grey_YX: Tensor) -> Tensor:
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
def _weights(length: int, config: DenseSIFTConfig) -> Tensor:
    """Return the weights of all bins of all patches along a side, (patches · bins, length).

    Beyond the border the image continues as its last row or column.
    """
    bin_size = config.bin_size
    offsets = np.arange(-bin_size + 1, bin_size)
    triangle = 1 - abs(offsets) / bin_size
    starts = config.starts(length)
    weights = np.zeros((len(starts), N_BINS, length), np.float32)
    for number in range(N_BINS):
        # Where the bin's centre lies from the middle of the patch.
        delta = bin_size * (number - 0.5 * (N_BINS - 1))
        if config.window == "gaussian":
            kernel = triangle * np.exp(-0.5 * ((offsets + delta) / (bin_size * WINDOW_SIZE)) ** 2)
        else:
            kernel = triangle * _mean_of_window(delta, bin_size)
        for patch, start in enumerate(starts):
            places = np.clip(start + number * bin_size + offsets, 0, length - 1)
            np.add.at(weights[patch, number], places, kernel.astype(np.float32))
    return torch.from_numpy(weights.reshape(-1, length))


def _mean_of_window(delta: float, bin_size: int) -> float:
    """Return the mean of the Gaussian window over a bin, which flat windows are weighted by."""
    offsets = np.arange(-bin_size + 1, bin_size)
    bell = np.exp(-0.5 * ((offsets + delta) / (bin_size * WINDOW_SIZE)) ** 2)
    return float(bell.mean())
