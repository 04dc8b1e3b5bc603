"""Dense SIFT: descriptors of patches on a regular grid.

The gradient of the image is shared out over eight planes, one an orientation. A descriptor is the
weighted sum of each plane around the centres of 4 × 4 bins, scaled to unit length, cut at 0.2 and
scaled again. The definition follows VLFeat's `vl_dsift`, which is the tests' oracle.

Two implementations behind one contract: `cpu` (Numba, one thread, without the interpreter lock) and
`vectorized` (plain torch: matrix products), whose `describe_many` serves many images at once on a
GPU.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_choice, check_count, check_range
from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.images.sift_bins import (
    N_BINS,
    UnitsAndNorms,
    least_side,
    patch_centres,
    sizes_with_room,
)

BACKENDS = ("cpu", "vectorized")


@dataclass(frozen=True, kw_only=True)
class DenseSIFTConfig:
    """Which patches are described, and how."""

    step: int = 8
    """Pixels from one patch to the next."""
    patch_size: int | tuple[int, ...] = 16
    """Pixels along a side of a patch: four bins, so a multiple of four; or several sizes, each
    with a grid of its own."""
    window: str = "gaussian"
    """"gaussian": patches weigh their middle more; "flat": only each bin as a whole is weighted."""
    root: bool = False
    """Whether descriptors become square roots of shares (root-SIFT), still of unit length."""
    contrast_floor: float = 0.0
    """Patches of less contrast have shorter descriptors, by contrast / floor."""

    def __post_init__(self) -> None:
        check_count("step", self.step, least=1)
        if isinstance(self.patch_size, Sequence):
            sizes = tuple(check_count("patch_size", each, least=N_BINS) for each in self.patch_size)
            object.__setattr__(self, "patch_size", sizes)
            if not sizes or len(set(sizes)) != len(sizes):
                raise InvalidArgument(f"patch_size must be different sizes, got {sizes}.")
        else:
            check_count("patch_size", self.patch_size, least=N_BINS)
        if any(size % N_BINS for size in self.patch_sizes):
            raise InvalidArgument(f"patch_size must be a multiple of 4, got {self.patch_size}.")
        check_choice("window", self.window, ("gaussian", "flat"))
        check_range("contrast_floor", self.contrast_floor, least=0)

    @property
    def patch_sizes(self) -> tuple[int, ...]:
        """All sizes of patches."""
        return self.patch_size if isinstance(self.patch_size, tuple) else (self.patch_size,)

    @property
    def least_side(self) -> int:
        """Pixels that both sides of an image must have, so that there is a patch."""
        return least_side(min(self.patch_sizes))


Describe = Callable[[NDArray[np.uint8], DenseSIFTConfig, list[int]], list[UnitsAndNorms]]
"""From a channel, settings and sizes of patches to the descriptors of every size."""


class Descriptors(NamedTuple):
    """The patches of one image."""

    values_SD: NDArray[np.float32]
    """(patches, 128, or 384 of colours): zero where a patch is of one colour, otherwise of unit
    length unless there is little contrast."""
    centres_S2: NDArray[np.float32]
    """(patches, 2): y and x in pixels."""
    contrast_S: NDArray[np.float32]
    """(patches,) how strong the gradient is: the length of the sums over the area of a bin."""
    patch_size_S: NDArray[np.int32]
    """(patches,) pixels along a side."""

    def take(self, chosen: NDArray[Any]) -> "Descriptors":
        """Return some of the patches, by their numbers or by a mask."""
        return Descriptors(
            self.values_SD[chosen],
            self.centres_S2[chosen],
            self.contrast_S[chosen],
            self.patch_size_S[chosen],
        )


def dense_sift(
    image: NDArray[np.uint8], config: DenseSIFTConfig | None = None, *, backend: str = "cpu"
) -> Descriptors:
    """Describe the patches of an image, row by row; of several sizes, the first size first.

    Sizes that the image has no room for are left out. Of colours every channel is described by
    itself; together the three have unit length.

    Parameters
    ----------
    image : (height, width) grey levels, or (height, width, 3) colours.
    backend : "cpu", or "vectorized", whose last bits follow torch's number of threads.
    """
    config = config or DenseSIFTConfig()
    check_choice("backend", backend, BACKENDS)
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or image.shape[2:] not in ((), (3,)):
        raise InvalidArgument(
            "image must have shape (height, width) or (height, width, 3) and uint8, "
            f"got {image.shape} of {image.dtype}."
        )
    height, width = image.shape[:2]
    check_room((height, width), config)
    sizes = sizes_with_room((height, width), config.patch_sizes)
    channels = [image] if image.ndim == 2 else [image[..., channel] for channel in range(3)]
    describe = _implementation(backend)
    by_channel = [describe(np.ascontiguousarray(each), config, sizes) for each in channels]
    parts = [
        _finish(tuple(described[number] for described in by_channel), (height, width), size, config)
        for number, size in enumerate(sizes)
    ]
    if len(parts) == 1:
        return parts[0]
    return Descriptors(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def check_room(shape: tuple[int, int], config: DenseSIFTConfig) -> None:
    """Raise `UnreadableImage` unless an image has room for a patch."""
    least = config.least_side
    if min(shape) < least:
        raise UnreadableImage(
            f"an image must have at least {least} × {least} pixels for patches of "
            f"{min(config.patch_sizes)}, got {shape[0]} × {shape[1]}."
        )


def _implementation(backend: str) -> Describe:
    if backend == "cpu":
        from supdocnade.images import dense_sift_cpu as cpu

        return cpu.describe
    from supdocnade.images import dense_sift_torch as vectorized

    return vectorized.describe


def _finish(
    channels: tuple[UnitsAndNorms, ...],
    shape: tuple[int, int],
    size: int,
    config: DenseSIFTConfig,
) -> Descriptors:
    """Put the channels together, and do what the settings ask for beyond plain SIFT."""
    values_SD = channels[0].units_SD
    norm_S = channels[0].norm_S
    if len(channels) > 1:
        share = np.float32(1 / math.sqrt(len(channels)))
        values_SD = share * np.hstack([each.units_SD for each in channels])
        norm_S = share * np.linalg.norm([each.norm_S for each in channels], axis=0)
    contrast_S = norm_S / np.float32((size // N_BINS) ** 2)
    if config.root:
        # Shares of a whole have square roots of unit length.
        total_S1 = values_SD.sum(axis=1, keepdims=True)
        values_SD = np.sqrt(values_SD / np.where(total_S1 > 0, total_S1, 1))
    if config.contrast_floor > 0:
        weak = contrast_S < config.contrast_floor
        values_SD[weak] *= (contrast_S[weak] / np.float32(config.contrast_floor))[:, None]
    centres_S2 = patch_centres(shape, size, config.step)
    sizes_S = np.full(len(norm_S), size, np.int32)
    return Descriptors(values_SD, centres_S2, contrast_S, sizes_S)
