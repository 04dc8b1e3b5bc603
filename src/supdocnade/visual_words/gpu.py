"""Encoding of decoded images in batches on a GPU.

Images of one size are described, and their patches compared with all words, together. Work on the
GPU is only queued: while it runs, the next images are decoded.
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
from supdocnade.images.dense_sift import DenseSIFTConfig, patch_places
from supdocnade.images.dense_sift_torch import describe_many
from supdocnade.images.regions import Regions
from supdocnade.visual_words.cache import ImageWords, WordCache
from supdocnade.visual_words.codebook import Codebook
from supdocnade.visual_words.describer import SIFTDescriber
from supdocnade.visual_words.encoder import ImageEncoder

Words = NDArray[np.int32]

Other = TypeVar("Other")

MAX_BATCH_IMAGES, MAX_BATCH_BYTES = 256, 2**26
"""Images of a batch, and bytes of their pixels, unless it is one image. The first batch has one
image, so that the first result comes soon, and each further batch twice as many."""

PREFETCH_BYTES, PREFETCH_IMAGES = 2**28, 64
"""Pixels that are decoded ahead of the batches, in bytes, and images per worker."""


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
    """Encodes many images at once on a device.

    Parameters
    ----------
    encoder : encoder whose words are found.
    device : a GPU; the CPU serves for tests.
    """

    def __init__(self, encoder: ImageEncoder, device: torch.device):
        assert isinstance(encoder.describer, SIFTDescriber)
        self.encoder, self.device, self._describer = encoder, device, encoder.describer
        self._codebooks = [DeviceCodebook(encoder.codebook, device)]
        if encoder.mirror:
            self._codebooks.append(DeviceCodebook(encoder.mirrored_codebook, device))
        self._on_gpu = device.type == "cuda"
        # Pixels are copied while the GPU works on those copied before.
        self._copy_stream = torch.cuda.Stream(device) if self._on_gpu else None  # type: ignore[no-untyped-call]

    def start(
        self,
        images: Sequence[NDArray[np.uint8]] | Tensor,
        color_ids: Sequence[Words | None] | None = None,
    ) -> "PendingWords":
        """Queue the encoding of images.

        Parameters
        ----------
        images : (height, width) or (height, width, 3) each, large enough for a patch; or a tensor
            with images of one size, best in pinned memory.
        color_ids : of each image, `ImageEncoder.color_ids`; they follow the other words.
        """
        parts: list[tuple[Sequence[int], Tensor]] = []
        if isinstance(images, Tensor):
            parts.append((range(len(images)), self._encode_stack(images)))
        else:
            places_of_shape: dict[tuple[int, ...], list[int]] = {}
            for place, image in enumerate(images):
                places_of_shape.setdefault(image.shape, []).append(place)
            for shape, places in places_of_shape.items():
                pixels = torch.empty(
                    (len(places), *shape), dtype=torch.uint8, pin_memory=self._on_gpu
                )
                np.stack([images[place] for place in places], out=pixels.numpy())
                parts.append((places, self._encode_stack(pixels)))
        done = None
        if self._on_gpu:
            done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            done.record(torch.cuda.current_stream(self.device))
        return PendingWords(color_ids or [None] * len(images), parts, done)

    def encode(self, pixels: Tensor) -> Tensor:
        """Return the words of images of one size, (images, patches · grids), int32.

        Words of patches of one colour are negative unless the encoder keeps them.

        Parameters
        ----------
        pixels : (images, height, width) or (images, height, width, 3) uint8, on the device.
        """
        describer = self._describer
        n_images, height, width = pixels.shape[:3]
        first_SG = _first_columns(
            (height, width),
            describer.sift,
            self.encoder.regions,
            self.encoder.n_words,
            self.encoder.mirror,
            self.device,
        )
        words_BS = torch.empty((n_images, len(first_SG)), dtype=torch.int64, device=self.device)
        # The words of the mirrored patches follow those of all patches.
        parts_BS = words_BS.chunk(len(self._codebooks), dim=1)
        for described in describe_many(pixels, describer.sift):
            for codebook, part_BS in zip(self._codebooks, parts_BS, strict=True):
                words = codebook.assign(described.values_BSD.flatten(0, 1))
                words = words.view(described.contrast_BS.shape)
                if not describer.keep_constant:
                    words.masked_fill_(described.contrast_BS == 0, -self.encoder.n_features)
                part_BS[described.images, described.patches] = words
        return (words_BS[:, :, None] + first_SG).to(torch.int32).flatten(1)

    def _encode_stack(self, pixels: Tensor) -> Tensor:
        """Return the words of images of one size in host memory, complete after the event."""
        if self._copy_stream is None:
            return self.encode(pixels)
        computing = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self._copy_stream):
            copied = pixels.to(self.device, non_blocking=True)
        computing.wait_stream(self._copy_stream)
        copied.record_stream(computing)  # Its memory is reused only after the work on it.
        words = self.encode(copied)
        host = torch.empty(words.shape, dtype=words.dtype, pin_memory=True)
        return host.copy_(words, non_blocking=True)


@functools.lru_cache(maxsize=64)  # Eight bytes per patch and grid.
def _first_columns(
    size: tuple[int, int],
    sift: DenseSIFTConfig,
    regions: Regions,
    n_words: int,
    mirror: bool,
    device: torch.device,
) -> Tensor:
    """Return the first column of the region of each patch in each grid, (patches, grids)."""
    centres_S2, _ = patch_places(size, sift)
    first_SG = regions.cells(centres_S2, size, mirror=mirror) * n_words
    return torch.from_numpy(first_SG).to(device)


class PendingWords:
    """Words of a batch that is being encoded.

    Parameters
    ----------
    color_ids : of each image, as for `BatchEncoder.start`.
    parts : places of the images of each size, and their words.
    done : event after which the words are complete; None: they are.
    """

    def __init__(
        self,
        color_ids: Sequence[Words | None],
        parts: list[tuple[Sequence[int], Tensor]],
        done: torch.cuda.Event | None,
    ):
        self._color_ids, self._parts, self._done = color_ids, parts, done

    def wait(self) -> list[Words]:
        """Return the words of all images in their order once they are complete."""
        if self._done is not None:
            self._done.synchronize()
        words: list[Words] = [np.empty(0, np.int32)] * len(self._color_ids)
        for places, found in self._parts:
            for place, row in zip(places, found.numpy(), strict=True):
                kept, color_ids = row >= 0, self._color_ids[place]
                words[place] = row[kept]  # A copy: pinned memory is scarce.
                if color_ids is not None:
                    words[place] = np.concatenate([words[place], color_ids[kept]])
        return words


class DecodedImage(NamedTuple):
    """An image to be encoded."""

    pixels: NDArray[np.uint8]
    key: str | None
    """Digest of its contents."""
    color_ids: Words | None = None
    """Columns of the words for its colours."""
    keywords: tuple[str, ...] = ()
    """Keywords in its file, if they were asked for."""


class PrefetchWindow:
    """Number of images that may be decoded ahead, bounded by the largest image so far."""

    def __init__(self) -> None:
        self._largest = 0

    def observe(self, pixels: NDArray[np.uint8]) -> None:
        """Record the size of an image."""
        self._largest = max(self._largest, pixels.nbytes)

    def size(self, n_workers: int) -> int:
        """Return how many images may be started; one per worker before any was observed."""
        n_images = PREFETCH_BYTES // self._largest if self._largest else 0
        return min(max(n_images, n_workers), PREFETCH_IMAGES * n_workers)


def encode_batches(
    images: Iterable[DecodedImage | Other],
    encoder: BatchEncoder,
    cache: WordCache | None,
    window: PrefetchWindow,
) -> Iterator[ImageWords | Other]:
    """Yield the words of decoded images in their order, and everything else unchanged.

    If an image cannot be read, the results before it are yielded before the error is raised.

    Parameters
    ----------
    cache : stores the words.
    window : observes each decoded image.
    """
    pending: deque[tuple[list[DecodedImage | Other], PendingWords]] = deque()
    batch: list[DecodedImage | Other] = []
    max_images, n_bytes = 1, 0
    failure: UnreadableImage | None = None
    try:
        for each in images:
            batch.append(each)
            if isinstance(each, DecodedImage):
                window.observe(each.pixels)
                n_bytes += each.pixels.nbytes
            if len(batch) >= max_images or n_bytes >= MAX_BATCH_BYTES:
                pending.append((batch, _start_batch(batch, encoder)))
                batch, max_images, n_bytes = [], min(2 * max_images, MAX_BATCH_IMAGES), 0
                if len(pending) > 1:  # The previous batch was encoded in the meantime.
                    yield from _finish_batch(*pending.popleft(), cache)
    except UnreadableImage as error:
        failure = error
    pending.append((batch, _start_batch(batch, encoder)))
    while pending:
        yield from _finish_batch(*pending.popleft(), cache)
    if failure is not None:
        raise failure


def _start_batch(batch: Sequence[DecodedImage | Other], encoder: BatchEncoder) -> PendingWords:
    images = [each for each in batch if isinstance(each, DecodedImage)]
    return encoder.start([each.pixels for each in images], [each.color_ids for each in images])


def _finish_batch(
    batch: Sequence[DecodedImage | Other], pending: PendingWords, cache: WordCache | None
) -> Iterator[ImageWords | Other]:
    words = iter(pending.wait())
    for each in batch:
        if not isinstance(each, DecodedImage):
            yield each
            continue
        found = ImageWords(next(words), key=each.key, keywords=each.keywords)
        if cache is not None:
            cache.put(found)
        yield found
