"""Descriptors of the patches of an image: the features from which visual words are made.

Today there is one kind of feature, dense SIFT. Another kind, such as the activations of a
pretrained network, gets a class here with the same methods and a key of its own in
`ImageEncoder.settings`; codebook, regions, cache and estimators do not depend on the kind.
"""

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import UnreadableImage
from supdocnade.images.decode import DecodeConfig, decode, decode_with_color
from supdocnade.images.dense_sift import DenseSIFTConfig, Descriptors, dense_sift
from supdocnade.images.sift_bins import SIZE, mirrored_order


@dataclass(frozen=True, kw_only=True)
class PatchDescriber:
    """Decodes images and describes their patches by dense SIFT."""

    decoding: DecodeConfig
    sift: DenseSIFTConfig
    keep_constant: bool = True
    """True if patches of one colour become words."""

    def read(self, source: Any, name: str = "") -> NDArray[np.uint8]:
        """Return the pixels of an image; raise `UnreadableImage` if no patch fits into it."""
        pixels = decode(source, self.decoding, name=name)
        self._check_size(pixels, source, name)
        return pixels

    def read_with_color(
        self, source: Any, name: str = ""
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the pixels of an image, and the same image in colour, (height, width, 3)."""
        pixels, colors = decode_with_color(source, self.decoding, name=name)
        self._check_size(pixels, source, name)
        return pixels, colors

    def describe(self, pixels: NDArray[np.uint8]) -> Descriptors:
        """Return the descriptors of the patches of an image that `read` returned."""
        found = dense_sift(pixels, self.sift)
        if not self.keep_constant:
            has_texture = np.any(found.values_SD != 0, axis=1)
            if not has_texture.all():
                found = found.take(has_texture)
        return found

    def mirror(self, values_ND: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the descriptors of the mirror images of patches."""
        return values_ND[:, mirrored_order(values_ND.shape[1] // SIZE)]

    def _check_size(self, pixels: NDArray[np.uint8], source: Any, name: str) -> None:
        least, patch = self.sift.least_side, min(self.sift.patch_sizes)
        if min(pixels.shape[:2]) >= least:
            return
        # The size before resizing is needed only for this message: the image is decoded again.
        height, width = decode(source, replace(self.decoding, max_side=None), name=name).shape[:2]
        if not name:
            name = os.fspath(source) if isinstance(source, str | os.PathLike) else "the image"
        longest = self.decoding.max_side
        can_be_cropped = self.decoding.upscale or min(height, width) >= least
        if longest is not None and can_be_cropped:
            raise UnreadableImage(
                f"{name} is too long and narrow: its {width} × {height} pixels become "
                f"{pixels.shape[1]} × {pixels.shape[0]}, since the longest side becomes {longest}, "
                f"and patches of {patch} need at least {least} × {least}; crop its longest side to "
                f"{min(height, width) * longest // least}."
            )
        raise UnreadableImage(
            f"{name} is too small: it has {width} × {height} pixels, and patches of {patch} need "
            f"at least {least} × {least}."
        )
