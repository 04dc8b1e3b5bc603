"""Dense SIFT in plain torch, on any device: many images of one size at once, in bounded memory."""

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
    UnitsAndNorms,
    share_out,
    side_windows,
    sizes_with_room,
)

if TYPE_CHECKING:
    from supdocnade.images.dense_sift import DenseSIFTConfig


# The planes of orientations of many images at once, in torch.
#
# Grey levels are whole numbers, so every gradient has a number, and what it gives to which
# orientation is looked up in a table. On a GPU that is one pass over the planes, where the
# arctangent and its neighbours would take a dozen; and the planes are those of the CPU, to the last
# bit.

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


# The sums of bins over planes, as matrix products that skip most of the zeros.
#
# All sums of a plane are A_y · plane · A_xᵀ, with one row of A for every bin along a side. A bin
# weighs few pixels (seven of 300, at patches of 16): rows of A are nearly all zeros, and those of
# neighbouring bins have their other entries close together. So the products are made for some bins
# at a time, with the pixels that any of them weighs: a quarter of the operations, at a step of 8.

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


MEMORY = 2**29
"""Bytes that descriptors and what they are made of may take at a time."""

_BYTES_PER_PIXEL = 46
"""Grey levels and differences of two bytes each, gradients of eight, eight planes of floats."""

_EPS = torch.finfo(torch.float32).eps


class DescribedPatches(NamedTuple):
    """Some patches, of one size, of some of the images."""

    patch_size: int
    images: slice
    patches: slice
    """Their places among all patches of an image: sizes in turn, each row by row."""
    values_BSD: Tensor
    """(images, patches, 128, or 384 of colours), as `Descriptors.values_SD`."""
    contrast_BS: Tensor
    """(images, patches)."""


class _Size(NamedTuple):
    """The patches of one size."""

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
) -> list[UnitsAndNorms]:
    """Describe the patches of every size, row by row."""
    plain = replace(config, patch_size=tuple(sizes), root=False, contrast_floor=0.0)
    parts: dict[int, list[DescribedPatches]] = {size: [] for size in sizes}
    for part in describe_many(torch.from_numpy(channel)[None], plain):
        parts[part.patch_size].append(part)
    return [
        UnitsAndNorms(
            torch.cat([part.values_BSD[0] for part in some]).numpy(),
            torch.cat([part.contrast_BS[0] for part in some]).numpy()
            * np.float32((size // N_BINS) ** 2),
        )
        for size, some in parts.items()
    ]


def describe_many(
    pixels: Tensor, config: "DenseSIFTConfig", *, memory: int = MEMORY
) -> Iterator[DescribedPatches]:
    """Yield the descriptors of all patches of images, a part at a time.

    Parameters
    ----------
    pixels : (images, height, width) grey levels or (images, height, width, 3) colours, uint8; there
        must be room for a patch.
    memory : bytes that a part and what it is made of may take, if one row of blocks takes no more.
    """
    pixels_BCYX = pixels[:, None] if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2)
    n_images, n_channels, height, width = pixels_BCYX.shape
    sizes = _sizes(height, width, config, pixels.device)
    n_blocks = max(len(size.rows) for size in sizes)
    bins = max(size.n_rows * (width + 2 * N_BINS * size.n_columns) for size in sizes) * N_BINS
    each = n_channels * (_BYTES_PER_PIXEL * height * width + 4 * N_ORIENTATIONS * bins)
    for images in _slices(n_images, max(memory // each, 1)):
        for blocks in _slices(n_blocks, max(n_blocks * memory // each, 1)):
            chosen = [size._replace(rows=size.rows[blocks]) for size in sizes if size.rows[blocks]]
            for size, patches, sums in _sums(pixels_BCYX[images], chosen):
                described = _descriptors(sums, size.patch_size, config)
                yield DescribedPatches(size.patch_size, images, patches, *described)


def _sizes(height: int, width: int, config: "DenseSIFTConfig", device: torch.device) -> list[_Size]:
    sizes, first_patch = [], 0
    for patch_size in sizes_with_room((height, width), config.patch_sizes):
        rows, columns = (
            side_blocks(length, patch_size, config.step, config.window, device)
            for length in (height, width)
        )
        sizes.append(_Size(patch_size, rows, columns, first_patch))
        first_patch += sizes[-1].n_rows * sizes[-1].n_columns
    return sizes


def _slices(count: int, most: int) -> list[slice]:
    """Cut a range into as few parts as possible, of about equal length."""
    n_parts = -(-count // most)
    edges = [count * number // n_parts for number in range(n_parts + 1)]
    return [slice(*ends) for ends in itertools.pairwise(edges)]


def _sums(pixels_BCYX: Tensor, sizes: Sequence[_Size]) -> Iterator[tuple[_Size, slice, Tensor]]:
    """Yield the sums of the bins of every size, (images, channels, O, bins along y, along x).

    Sizes share the planes of the pixels that they weigh.
    """
    n_images, n_channels, height, _ = pixels_BCYX.shape
    first = min(size.rows[0].first_pixel for size in sizes)
    last = max(block.last_pixel for size in sizes for block in size.rows)
    # A row more on either side: gradients take the neighbours of a pixel.
    above, below = max(first - 1, 0), min(last + 1, height)
    planes_NOYX = orientation_planes(pixels_BCYX[:, :, above:below].flatten(0, 1))
    planes = planes_NOYX.flatten(0, 1)
    for size in sizes:
        with full_float32(planes.device):
            sums = sum_bins(planes, size.rows, size.columns, above)
        before = size.rows[0].first_bin // N_BINS * size.n_columns
        count = sums.shape[1] // N_BINS * size.n_columns
        start = size.first_patch + before
        shape = (n_images, n_channels, N_ORIENTATIONS, *sums.shape[1:])
        yield size, slice(start, start + count), sums.view(shape)


def _descriptors(sums: Tensor, patch_size: int, config: "DenseSIFTConfig") -> tuple[Tensor, Tensor]:
    """Return the descriptors and the contrast of patches, from the sums of their bins."""
    n_images, n_channels, _, n_rows, n_columns = sums.shape
    split = sums.view(n_images, n_channels, N_ORIENTATIONS, n_rows // N_BINS, N_BINS,
                      n_columns // N_BINS, N_BINS)  # fmt: skip
    # (image, channel, orientation, patch row, bin row, patch column, bin column)
    # -> (image, patch, channel, bins and orientations)
    values_BSCD = split.permute(0, 3, 5, 1, 4, 6, 2).reshape(n_images, -1, n_channels, SIZE)
    norm_BSC1 = torch.linalg.vector_norm(values_BSCD, dim=3, keepdim=True)
    contrast_BS1 = norm_BSC1.square().mean(dim=2).sqrt_().div_((patch_size // N_BINS) ** 2)
    # To scale to a unit, cut, and scale again is to cut at a share of the length, and scale once.
    torch.minimum(values_BSCD, CLAMP * norm_BSC1, out=values_BSCD)
    length_BSC1 = torch.linalg.vector_norm(values_BSCD, dim=3, keepdim=True)
    scale_BSC1 = length_BSC1.clamp_min_(_EPS).mul_(math.sqrt(n_channels)).reciprocal_()
    fading_BS1 = torch.ones_like(contrast_BS1)
    if config.contrast_floor > 0:
        fading_BS1 = (contrast_BS1 / config.contrast_floor).clamp_max_(1)
    if config.root:
        values_BSD = values_BSCD.mul_(scale_BSC1).flatten(2)
        total_BS1 = values_BSD.sum(dim=2, keepdim=True).clamp_min_(_EPS)
        # Shares of a whole have square roots of unit length.
        values_BSD.mul_(fading_BS1.square_().div_(total_BS1)).sqrt_()
    else:
        values_BSD = values_BSCD.mul_(scale_BSC1.mul_(fading_BS1[..., None])).flatten(2)
    return values_BSD, contrast_BS1[..., 0]
