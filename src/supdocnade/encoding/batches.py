"""Decoded images gathered into batches, and the words of batches handed on in their sequence."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from supdocnade.encoding.cache import WordCache
from supdocnade.encoding.on_device import BatchEncoder, Begun
from supdocnade.errors import UnreadableImage

Words = NDArray[np.int32]
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
