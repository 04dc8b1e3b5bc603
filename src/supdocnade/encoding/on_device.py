"""The words of many images at once, on a GPU: pixels are sent there, and words come back.

Images of one size are described, and their patches compared with all words, together. All of it is
only asked for: while the GPU works, the next images are decoded.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.encoding.encoder import ImageEncoder
from supdocnade.imaging.dense_sift import DenseSIFTConfig
from supdocnade.imaging.dense_sift.bins import patch_centres, sizes_with_room
from supdocnade.imaging.dense_sift.vectorized import describe_many
from supdocnade.imaging.regions import Regions

Words = NDArray[np.int32]


class BatchEncoder:
    """An encoder of many images at once.

    Parameters
    ----------
    encoder : which words images have.
    device : where they are computed; the CPU serves for tests.
    """

    def __init__(self, encoder: ImageEncoder, device: torch.device):
        self.encoder, self.device = encoder, device
        self._sides = [encoder.codebook.on(device)]
        if encoder.both_sides:
            self._sides.append(encoder.mirrored_codebook.on(device))
        self._on_gpu = device.type == "cuda"
        # Pixels are sent beside the work on those sent before.
        self._sending = torch.cuda.Stream(device) if self._on_gpu else None  # type: ignore[no-untyped-call]

    def begin(self, images: Sequence[NDArray[np.uint8]]) -> "Begun":
        """Ask for the words of decoded images.

        Parameters
        ----------
        images : (height, width) or (height, width, 3) each, with room for a patch.
        """
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for place, image in enumerate(images):
            by_shape.setdefault(image.shape, []).append(place)
        parts = []
        for shape, places in by_shape.items():
            pixels = torch.empty((len(places), *shape), dtype=torch.uint8, pin_memory=self._on_gpu)
            np.stack([images[place] for place in places], out=pixels.numpy())
            parts.append((places, self._ask_for(pixels)))
        return Begun(len(images), parts, self._mark())

    def begin_stack(self, pixels: Tensor) -> "Begun":
        """Ask for the words of images of one size that are one tensor, best in pinned memory."""
        places = list(range(len(pixels)))
        return Begun(len(places), [(places, self._ask_for(pixels))], self._mark())

    def _ask_for(self, pixels: Tensor) -> Tensor:
        return self._fetch(self.ids(self._send(pixels)))

    def _send(self, pixels: Tensor) -> Tensor:
        """Return pixels on the device, not waiting for them if their memory is pinned."""
        if self._sending is None:
            return pixels
        computing = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self._sending):
            sent = pixels.to(self.device, non_blocking=True)
        computing.wait_stream(self._sending)
        sent.record_stream(computing)  # Its memory is free for others only after the work on it.
        return sent

    def ids(self, pixels: Tensor) -> Tensor:
        """Return the words of images of one size, (images, patches · grids), int32.

        Words of patches that are left out, because they are of one colour, are negative.

        Parameters
        ----------
        pixels : (images, height, width) or (images, height, width, 3) uint8, on the device.
        """
        description = self.encoder.description
        n_images, height, width = pixels.shape[:3]
        first_SG = _first_words(
            (height, width),
            description.sift,
            self.encoder.regions,
            self.encoder.codebook.n_words,
            self.encoder.both_sides,
            self.device,
        )
        words_BS = torch.empty((n_images, len(first_SG)), dtype=torch.int64, device=self.device)
        # Mirrored patches stand behind all others.
        words_of_sides = words_BS.chunk(len(self._sides), dim=1)
        for part in describe_many(pixels, description.sift):
            for centres, side_BS in zip(self._sides, words_of_sides, strict=True):
                words = centres.nearest(part.values_BSD.flatten(0, 1))
                words = words.view(part.contrast_BS.shape)
                if not description.keep_constant:
                    words.masked_fill_(part.contrast_BS == 0, -self.encoder.n_features)
                side_BS[part.images, part.patches] = words
        return (words_BS[:, :, None] + first_SG).to(torch.int32).flatten(1)

    def _fetch(self, ids: Tensor) -> Tensor:
        """Return words in ordinary memory; they are there when `Begun.words` has waited."""
        if not self._on_gpu:
            return ids
        fetched = torch.empty(ids.shape, dtype=ids.dtype, pin_memory=True)
        return fetched.copy_(ids, non_blocking=True)

    def _mark(self) -> torch.cuda.Event | None:
        """Return what can be waited for: all that was asked for so far."""
        if not self._on_gpu:
            return None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event


@functools.lru_cache(maxsize=64)  # Eight bytes a patch and grid.
def _first_words(
    size: tuple[int, int],
    sift: DenseSIFTConfig,
    regions: Regions,
    n_words: int,
    both_sides: bool,
    device: torch.device,
) -> Tensor:
    """Return the first word of the region of every patch in every grid, (patches, grids)."""
    sizes = sizes_with_room(size, sift.patch_sizes)
    centres_S2 = np.concatenate([patch_centres(size, each, sift.step) for each in sizes])
    first_SG = regions.cells(centres_S2, size, both_sides=both_sides) * n_words
    return torch.from_numpy(first_SG).to(device)


class Begun(NamedTuple):
    """Words that have been asked for."""

    n_images: int
    parts: list[tuple[list[int], Tensor]]
    """Places of images of one size, and their words."""
    done: torch.cuda.Event | None

    def words(self) -> list[Words]:
        """Wait for the words of all images, and return them in their sequence."""
        if self.done is not None:
            self.done.synchronize()
        words: list[Words] = [np.empty(0, np.int32)] * self.n_images
        for places, ids in self.parts:
            for place, row in zip(places, ids.numpy(), strict=True):
                words[place] = row[row >= 0]  # A copy: pinned memory is scarce.
        return words
