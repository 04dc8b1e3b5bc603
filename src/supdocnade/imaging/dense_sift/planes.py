"""The planes of orientations of many images at once, in torch.

Grey levels are whole numbers, so every gradient has a number, and what it gives to which
orientation is looked up in a table. On a GPU that is one pass over the planes, where the arctangent
and its neighbours would take a dozen; and the planes are those of the CPU, to the last bit.
"""

import functools

import numpy as np
import torch
from torch import Tensor

from supdocnade.imaging.dense_sift.bins import N_ORIENTATIONS
from supdocnade.imaging.dense_sift.gradients import share_out

MOST = 2 * 255
"""Of the difference of a pixel's neighbours; on the border, where there is but one, of twice that
to the pixel itself."""

N_DIFFERENCES = 2 * MOST + 1
NO_GRADIENT = MOST * N_DIFFERENCES + MOST

ALIGNED = 4
"""Rows are continued to a multiple of so many floats, by pixels without a gradient: products of
matrices then read sixteen bytes at a time."""


def orientation_planes(pixels_NYX: Tensor) -> Tensor:
    """Return the gradient's length, shared out between its two nearest orientations.

    Parameters
    ----------
    pixels_NYX : (images or channels, height, width) uint8.

    Returns
    -------
    (N, O, height, width up to a multiple of `ALIGNED`) float32.
    """
    numbers_NYX = _gradient_numbers(pixels_NYX)
    n, height, width = numbers_NYX.shape
    table = _table(pixels_NYX.device).expand(n, -1, -1)
    numbers = numbers_NYX.view(n, 1, -1).expand(-1, N_ORIENTATIONS, -1)
    return torch.gather(table, 2, numbers).view(n, N_ORIENTATIONS, height, width)


def _gradient_numbers(pixels_NYX: Tensor) -> Tensor:
    """Return the column of the table that the gradient of every pixel has."""
    n, height, width = pixels_NYX.shape
    levels_NYX = pixels_NYX.to(torch.int16)
    numbers_NYX = torch.empty(
        (n, height, -(-width // ALIGNED) * ALIGNED), dtype=torch.int64, device=pixels_NYX.device
    )
    inside = numbers_NYX[..., :width]
    # A tensor with axes, so that the sum has its type: one pass from two bytes to eight.
    origin = torch.full((1, 1, 1), NO_GRADIENT, dtype=torch.int64, device=pixels_NYX.device)
    torch.add(origin, _twice_the_slopes(levels_NYX, 1), alpha=N_DIFFERENCES, out=inside)
    inside.add_(_twice_the_slopes(levels_NYX, 2))
    numbers_NYX[..., width:] = NO_GRADIENT
    return numbers_NYX


def _twice_the_slopes(levels_NYX: Tensor, axis: int) -> Tensor:
    """Return the differences of neighbours, and on the border twice those to the only one."""
    length = levels_NYX.shape[axis]
    twice = torch.empty_like(levels_NYX)

    def subtract(after: int, before: int, out: int, count: int) -> Tensor:
        return torch.sub(
            levels_NYX.narrow(axis, after, count),
            levels_NYX.narrow(axis, before, count),
            out=twice.narrow(axis, out, count),
        )

    subtract(2, 0, 1, length - 2)
    subtract(1, 0, 0, 1).mul_(2)
    subtract(length - 1, length - 2, length - 1, 1).mul_(2)
    return twice


@functools.lru_cache(maxsize=2)
def _table(device: torch.device) -> Tensor:
    """Return what every gradient gives to every orientation, (O, gradients): 33 MB."""
    differences = np.arange(-MOST, MOST + 1) / 2  # Of neighbours two pixels apart.
    shares, lower = share_out(*np.meshgrid(differences, differences, indexing="ij"))
    shares, lower = shares.reshape(-1, 2), lower.reshape(-1).astype(np.int64)
    table_OG = np.zeros((N_ORIENTATIONS, len(lower)), np.float32)
    table_OG[lower, np.arange(len(lower))] = shares[:, 0]
    table_OG[(lower + 1) % N_ORIENTATIONS, np.arange(len(lower))] = shares[:, 1]
    return torch.from_numpy(table_OG).to(device)
