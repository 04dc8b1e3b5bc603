"""The words of many images at once, on a GPU: pixels are sent there, and words come back.

Images of one size are described, and their patches compared with all words, together. All of it is
only asked for: while the GPU works, the next images are decoded.
"""

import functools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.devices import full_float32
from supdocnade.errors import UnreadableImage
from supdocnade.images.dense_sift import DenseSIFTConfig
from supdocnade.images.dense_sift_torch import describe_many
from supdocnade.images.regions import Regions
from supdocnade.images.sift_bins import patch_centres, sizes_with_room
from supdocnade.visual_words.cache import WordCache
from supdocnade.visual_words.codebook import Codebook
from supdocnade.visual_words.encoder import ImageEncoder

Words = NDArray[np.int32]


BLOCK = 2**26
"""Distances that exist at a time: 256 MiB, large enough to keep a GPU busy."""


class DeviceCodebook:
    """A codebook on the device of the descriptors."""

    def __init__(self, codebook: Codebook, device: torch.device):
        self.centres_KD = torch.from_numpy(codebook.centres_KD).to(device)
        self.half_squares_K = torch.from_numpy(codebook.half_squares_K).to(device)

    @property
    def block_rows(self) -> int:
        """Number of descriptors whose distances are computed together."""
        return max(BLOCK // len(self.centres_KD), 1)

    def assign(self, values_SD: Tensor) -> Tensor:
        """Return the nearest word of each descriptor, the first of equals, (S,) int64."""
        words_S = torch.empty(len(values_SD), dtype=torch.int64, device=values_SD.device)
        for start in range(0, len(values_SD), self.block_rows):
            rows = slice(start, start + self.block_rows)
            # |v - c|² = |v|² - 2 v · c + |c|², and |v|² is the same for all words.
            with full_float32(values_SD.device):
                scores = torch.addmm(
                    self.half_squares_K, values_SD[rows], self.centres_KD.T, alpha=-1
                )
            torch.argmin(scores, dim=1, out=words_S[rows])
        return words_S


class BatchEncoder:
    """An encoder of many images at once.

    Parameters
    ----------
    encoder : which words images have.
    device : where they are computed; the CPU serves for tests.
    """

    def __init__(self, encoder: ImageEncoder, device: torch.device):
        self.encoder, self.device = encoder, device
        self._sides = [DeviceCodebook(encoder.codebook, device)]
        if encoder.both_sides:
            self._sides.append(DeviceCodebook(encoder.mirrored_codebook, device))
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
                words = centres.assign(part.values_BSD.flatten(0, 1))
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


# Decoded images gathered into batches, and the words of batches handed on in their sequence.

Other = TypeVar("Other")

MOST_IMAGES, MOST_BYTES = 256, 2**26
"""Images of a batch, and bytes of their pixels, unless it is one image. The first batch has one
image, so that its words are seen soon, and each after it twice as many."""

BYTES_AHEAD = 2**28
"""Of pixels that are decoded ahead of the batches."""

IMAGES_AHEAD = 64
"""That a worker decodes ahead at most, however small they are."""


class Decoded(NamedTuple):
    """An image that has no words yet."""

    pixels: NDArray[np.uint8]
    key: str | None
    """A digest of its contents, where its words are to be remembered."""


class Pace:
    """How many images may be decoded ahead, by the largest one so far."""

    def __init__(self) -> None:
        self._largest = 0

    def see(self, pixels: NDArray[np.uint8]) -> None:
        """Take notice of an image."""
        self._largest = max(self._largest, pixels.nbytes)

    def images_ahead(self, n_workers: int) -> int:
        """Return how many images may be begun; one a worker as long as nothing is known."""
        most = BYTES_AHEAD // self._largest if self._largest else 0
        return min(max(most, n_workers), IMAGES_AHEAD * n_workers)


def in_batches(
    found: Iterable[Decoded | Other],
    encoder: BatchEncoder,
    cache: WordCache | None,
    pace: Pace,
) -> Iterator[Words | Other]:
    """Yield the words of decoded images in their sequence, and hand everything else on.

    If an image cannot be read, what was found before it comes first.

    Parameters
    ----------
    cache : remembers the words of images that have a digest.
    pace : takes notice of every decoded image.
    """
    begun: deque[tuple[list[Decoded | Other], Begun]] = deque()
    waiting: list[Decoded | Other] = []
    most, n_bytes = 1, 0
    failed: UnreadableImage | None = None
    try:
        for each in found:
            waiting.append(each)
            if isinstance(each, Decoded):
                pace.see(each.pixels)
                n_bytes += each.pixels.nbytes
            if len(waiting) >= most or n_bytes >= MOST_BYTES:
                begun.append((waiting, _begin(waiting, encoder)))
                waiting, most, n_bytes = [], min(2 * most, MOST_IMAGES), 0
                if len(begun) > 1:  # The batch before it had the meantime to be done.
                    yield from _finish(*begun.popleft(), cache)
    except UnreadableImage as error:
        failed = error
    begun.append((waiting, _begin(waiting, encoder)))
    while begun:
        yield from _finish(*begun.popleft(), cache)
    if failed is not None:
        raise failed


def _begin(batch: Sequence[Decoded | Other], encoder: BatchEncoder) -> Begun:
    return encoder.begin([each.pixels for each in batch if isinstance(each, Decoded)])


def _finish(
    batch: Sequence[Decoded | Other], begun: Begun, cache: WordCache | None
) -> Iterator[Words | Other]:
    words = iter(begun.words())
    for each in batch:
        if not isinstance(each, Decoded):
            yield each
            continue
        found = next(words)
        if cache is not None and each.key is not None:
            cache.put(each.key, found)
        yield found
