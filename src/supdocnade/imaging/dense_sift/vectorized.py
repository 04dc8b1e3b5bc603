"""Dense SIFT in plain torch, on any device: many images of one size at once, in bounded memory."""

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
from supdocnade.imaging.dense_sift.bins import (
    CLAMP,
    N_BINS,
    N_ORIENTATIONS,
    SIZE,
    UnitsAndNorms,
    sizes_with_room,
)
from supdocnade.imaging.dense_sift.blocks import Block, side_blocks, sum_bins
from supdocnade.imaging.dense_sift.planes import orientation_planes

if TYPE_CHECKING:
    from supdocnade.imaging.dense_sift import DenseSIFTConfig

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
