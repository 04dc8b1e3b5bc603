"""Dense SIFT in torch, on any device: many images of one size at once, in bounded memory.

Planes of orientations: grey levels are integers, so each gradient has a number, and a table gives
its parts per orientation. On a GPU that is one pass over the planes instead of a dozen for the
arctangent, and the planes have the bits of the CPU.

Sums of bins: all sums of a plane are A_y · plane · A_xᵀ, with one row of A per bin along a side. A
bin covers few pixels (seven of 300, at patches of 16), so rows of A are nearly all zeros, and the
other entries of neighbouring bins are close together. The products are computed for a block of bins
at a time, with the pixels that any of them covers: a quarter of the operations, at a step of 8.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.devices import full_float32
from supdocnade.images.sift_bins import (
    CLAMP,
    N_BINS,
    N_ORIENTATIONS,
    SIZE,
    ChannelDescriptors,
    side_windows,
    sizes_with_room,
    split_gradients,
)

if TYPE_CHECKING:
    from supdocnade.images.dense_sift import DenseSIFTConfig


MAX_DIFFERENCE = 2 * 255
"""Largest difference of a pixel's neighbours, or on the border twice that of the pixel and its only
neighbour."""

N_DIFFERENCES = 2 * MAX_DIFFERENCE + 1
NO_GRADIENT = MAX_DIFFERENCE * N_DIFFERENCES + MAX_DIFFERENCE

ALIGNED = 4
"""Rows are padded to a multiple of so many pixels without a gradient, so that matrix products can
read sixteen bytes at a time."""


def orientation_planes(pixels_NYX: Tensor) -> Tensor:
    """Return the length of the gradient, split between its two nearest orientations.

    Parameters
    ----------
    pixels_NYX : (images or channels, height, width) uint8.

    Returns
    -------
    (N, O, height, width padded to a multiple of `ALIGNED`) float32.
    """
    numbers_NYX = _gradient_numbers(pixels_NYX)
    n, height, width = numbers_NYX.shape
    table = _table(pixels_NYX.device).expand(n, -1, -1)
    numbers = numbers_NYX.view(n, 1, -1).expand(-1, N_ORIENTATIONS, -1)
    return torch.gather(table, 2, numbers).view(n, N_ORIENTATIONS, height, width)


def _gradient_numbers(pixels_NYX: Tensor) -> Tensor:
    """Return the column of the table for the gradient of each pixel."""
    n, height, width = pixels_NYX.shape
    levels_NYX = pixels_NYX.to(torch.int16)
    numbers_NYX = torch.empty(
        (n, height, -(-width // ALIGNED) * ALIGNED), dtype=torch.int64, device=pixels_NYX.device
    )
    inside = numbers_NYX[..., :width]
    # A tensor with axes, so that the sum has its type in one pass.
    origin = torch.full((1, 1, 1), NO_GRADIENT, dtype=torch.int64, device=pixels_NYX.device)
    torch.add(origin, _double_slopes(levels_NYX, 1), alpha=N_DIFFERENCES, out=inside)
    inside.add_(_double_slopes(levels_NYX, 2))
    numbers_NYX[..., width:] = NO_GRADIENT
    return numbers_NYX


def _double_slopes(levels_NYX: Tensor, axis: int) -> Tensor:
    """Return the differences of neighbours, on the border twice that to the only neighbour."""
    length = levels_NYX.shape[axis]
    doubled = torch.empty_like(levels_NYX)

    def subtract(after: int, before: int, out: int, count: int) -> Tensor:
        return torch.sub(
            levels_NYX.narrow(axis, after, count),
            levels_NYX.narrow(axis, before, count),
            out=doubled.narrow(axis, out, count),
        )

    subtract(2, 0, 1, length - 2)
    subtract(1, 0, 0, 1).mul_(2)
    subtract(length - 1, length - 2, length - 1, 1).mul_(2)
    return doubled


@functools.lru_cache(maxsize=2)
def _table(device: torch.device) -> Tensor:
    """Return the parts of every gradient per orientation, (O, gradients): 33 MB."""
    differences = (
        np.arange(-MAX_DIFFERENCE, MAX_DIFFERENCE + 1) / 2
    )  # Neighbours are two pixels apart.
    parts, lower = split_gradients(*np.meshgrid(differences, differences, indexing="ij"))
    parts, lower = parts.reshape(-1, 2), lower.reshape(-1).astype(np.int64)
    table_OG = np.zeros((N_ORIENTATIONS, len(lower)), np.float32)
    table_OG[lower, np.arange(len(lower))] = parts[:, 0]
    table_OG[(lower + 1) % N_ORIENTATIONS, np.arange(len(lower))] = parts[:, 1]
    return torch.from_numpy(table_OG).to(device)


PATCHES = 8
"""Patches along a side per block: 32 bins, the least that a GPU multiplies efficiently."""


class Block(NamedTuple):
    """Neighbouring bins along a side."""

    first_bin: int
    first_pixel: int
    weight_PJ: Tensor
    """(bins, pixels) float32."""

    @property
    def last_bin(self) -> int:
        """First bin after the block."""
        return self.first_bin + self.weight_PJ.shape[0]

    @property
    def last_pixel(self) -> int:
        """First pixel after those that the bins cover."""
        return self.first_pixel + self.weight_PJ.shape[1]


@functools.lru_cache(maxsize=256)  # About 50 KB each, at a step of 8 and 300 pixels.
def side_blocks(
    length: int, patch_size: int, step: int, window: str, device: torch.device
) -> tuple[Block, ...]:
    """Return the weights of `side_weights` in blocks."""
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
    rows : consecutive blocks along y.
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


MEMORY = 2**29
"""Maximum memory of the descriptors computed at a time and of their intermediate results."""

_BYTES_PER_PIXEL = 46
"""Grey levels and differences of two bytes, gradients of eight, and eight planes of floats."""

_EPS = torch.finfo(torch.float32).eps


class DescribedPatches(NamedTuple):
    """Descriptors of consecutive patches of one size in consecutive images."""

    patch_size: int
    images: slice
    patches: slice
    """Places among all patches of an image: size after size, row by row."""
    values_BSD: Tensor
    """(images, patches, 128, or 384 in colour), as `Descriptors.values_SD`."""
    contrast_BS: Tensor
    """(images, patches)."""


class _PatchGrid(NamedTuple):
    """Grid of the patches of one size."""

    patch_size: int
    rows: tuple[Block, ...]
    columns: tuple[Block, ...]
    first_patch: int

    @property
    def n_rows(self) -> int:
        return self.rows[-1].last_bin // N_BINS

    @property
    def n_columns(self) -> int:
        return self.columns[-1].last_bin // N_BINS


def describe(
    channel: NDArray[np.uint8], config: "DenseSIFTConfig", sizes: list[int]
) -> list[ChannelDescriptors]:
    """Describe the patches of each size, row by row."""
    plain = replace(config, patch_size=tuple(sizes), root=False, contrast_floor=0.0)
    parts: dict[int, list[DescribedPatches]] = {size: [] for size in sizes}
    for part in describe_many(torch.from_numpy(channel)[None], plain):
        parts[part.patch_size].append(part)
    return [
        ChannelDescriptors(
            torch.cat([part.values_BSD[0] for part in some]).numpy(),
            torch.cat([part.contrast_BS[0] for part in some]).numpy()
            * np.float32((size // N_BINS) ** 2),
        )
        for size, some in parts.items()
    ]


def describe_many(
    pixels: Tensor, config: "DenseSIFTConfig", *, memory: int = MEMORY
) -> Iterator[DescribedPatches]:
    """Yield the descriptors of all patches of images, in parts.

    Parameters
    ----------
    pixels : (images, height, width) grey levels or (images, height, width, 3) colours, uint8, large
        enough for a patch.
    memory : maximum number of bytes of a part and its intermediate results, unless one row of
        blocks needs more.
    """
    pixels_BCYX = pixels[:, None] if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2)
    n_images, n_channels, height, width = pixels_BCYX.shape
    grids = _make_grids(height, width, config, pixels.device)
    n_blocks = max(len(grid.rows) for grid in grids)
    bins = max(grid.n_rows * (width + 2 * N_BINS * grid.n_columns) for grid in grids) * N_BINS
    each = n_channels * (_BYTES_PER_PIXEL * height * width + 4 * N_ORIENTATIONS * bins)
    for images in _slices(n_images, max(memory // each, 1)):
        for blocks in _slices(n_blocks, max(n_blocks * memory // each, 1)):
            chosen = [grid._replace(rows=grid.rows[blocks]) for grid in grids if grid.rows[blocks]]
            for grid, patches, sums in _sum_bins_of_grids(pixels_BCYX[images], chosen):
                described = _make_descriptors(sums, grid.patch_size, config)
                yield DescribedPatches(grid.patch_size, images, patches, *described)


def _make_grids(
    height: int, width: int, config: "DenseSIFTConfig", device: torch.device
) -> list[_PatchGrid]:
    grids, first_patch = [], 0
    for patch_size in sizes_with_room((height, width), config.patch_sizes):
        rows, columns = (
            side_blocks(length, patch_size, config.step, config.window, device)
            for length in (height, width)
        )
        grids.append(_PatchGrid(patch_size, rows, columns, first_patch))
        first_patch += grids[-1].n_rows * grids[-1].n_columns
    return grids


def _slices(count: int, max_length: int) -> list[slice]:
    """Cut a range into the fewest parts of about equal length."""
    n_parts = -(-count // max_length)
    edges = [count * number // n_parts for number in range(n_parts + 1)]
    return [slice(*ends) for ends in itertools.pairwise(edges)]


def _sum_bins_of_grids(
    pixels_BCYX: Tensor, grids: Sequence[_PatchGrid]
) -> Iterator[tuple[_PatchGrid, slice, Tensor]]:
    """Yield the sums of the bins of each size, (images, channels, O, bins along y, along x).

    All sizes share the planes.
    """
    n_images, n_channels, height, _ = pixels_BCYX.shape
    first = min(grid.rows[0].first_pixel for grid in grids)
    last = max(block.last_pixel for grid in grids for block in grid.rows)
    # One more row on either side, for the gradients.
    above, below = max(first - 1, 0), min(last + 1, height)
    planes_NOYX = orientation_planes(pixels_BCYX[:, :, above:below].flatten(0, 1))
    planes = planes_NOYX.flatten(0, 1)
    for grid in grids:
        with full_float32(planes.device):
            sums = sum_bins(planes, grid.rows, grid.columns, above)
        before = grid.rows[0].first_bin // N_BINS * grid.n_columns
        count = sums.shape[1] // N_BINS * grid.n_columns
        start = grid.first_patch + before
        shape = (n_images, n_channels, N_ORIENTATIONS, *sums.shape[1:])
        yield grid, slice(start, start + count), sums.view(shape)


def _make_descriptors(
    sums: Tensor, patch_size: int, config: "DenseSIFTConfig"
) -> tuple[Tensor, Tensor]:
    """Return the descriptors and the contrast of patches from the sums of their bins."""
    n_images, n_channels, _, n_rows, n_columns = sums.shape
    split = sums.view(n_images, n_channels, N_ORIENTATIONS, n_rows // N_BINS, N_BINS,
                      n_columns // N_BINS, N_BINS)  # fmt: skip
    # (image, channel, orientation, patch row, bin row, patch column, bin column)
    # -> (image, patch, channel, bins and orientations)
    values_BSCD = split.permute(0, 3, 5, 1, 4, 6, 2).reshape(n_images, -1, n_channels, SIZE)
    norm_BSC1 = torch.linalg.vector_norm(values_BSCD, dim=3, keepdim=True)
    contrast_BS1 = norm_BSC1.square().mean(dim=2).sqrt_().div_((patch_size // N_BINS) ** 2)
    # Clipping at a share of the length and scaling once equals scaling, clipping and scaling again.
    torch.minimum(values_BSCD, CLAMP * norm_BSC1, out=values_BSCD)
    length_BSC1 = torch.linalg.vector_norm(values_BSCD, dim=3, keepdim=True)
    scale_BSC1 = length_BSC1.clamp_min_(_EPS).mul_(math.sqrt(n_channels)).reciprocal_()
    damping_BS1 = torch.ones_like(contrast_BS1)
    if config.contrast_floor > 0:
        damping_BS1 = (contrast_BS1 / config.contrast_floor).clamp_max_(1)
    if config.root:
        values_BSD = values_BSCD.mul_(scale_BSC1).flatten(2)
        total_BS1 = values_BSD.sum(dim=2, keepdim=True).clamp_min_(_EPS)
        # The entries add up to one, so their square roots have unit length.
        values_BSD.mul_(damping_BS1.square_().div_(total_BS1)).sqrt_()
    else:
        values_BSD = values_BSCD.mul_(scale_BSC1.mul_(damping_BS1[..., None])).flatten(2)
    return values_BSD, contrast_BS1[..., 0]
