"""Reading of many images on all cores, with the results in the order of the images.

Each image is read by one thread from beginning to end, so its result does not depend on the number
of workers. Workers are threads, because decoding, SIFT and the search for words release the
interpreter lock; `joblib.parallel_config` can make them processes.
"""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from supdocnade.errors import InvalidArgument, SupDocNADEError, UnreadableImage
from supdocnade.images.decode import read_image_file
from supdocnade.images.decoder import decode_apart
from supdocnade.images.source import is_source, source_name
from supdocnade.runs import RunOptions

Result = TypeVar("Result")

READING = "reading photographs"
"""Stage reported to `RunOptions.progress` by default."""

CHUNK, CHUNKS_AHEAD = 4, 16
"""Images per task of a worker, and tasks per worker that may run ahead of the consumer."""


class SkippedImage(NamedTuple):
    """An image that could not be read."""

    number: int
    """Position among the images given."""
    name: str
    reason: str
    """One sentence, which names the image."""


def content_key(source: Any) -> str | None:
    """Return a digest of the bytes of a file or of the pixels of an image; None for other types."""
    digest = hashlib.blake2b(digest_size=20)
    if isinstance(source, bytes | bytearray | memoryview):
        digest.update(source)
    elif isinstance(source, np.ndarray):
        digest.update(repr((source.shape, source.dtype.str)).encode())
        digest.update(np.ascontiguousarray(source).data)
    elif hasattr(source, "mode") and hasattr(source, "tobytes"):  # A PIL image.
        digest.update(repr((source.mode, source.size)).encode())
        digest.update(source.tobytes())
    else:
        return None
    return digest.hexdigest()


def read_with_key(source: Any) -> tuple[Any, str | None]:
    """Return the contents of a file, or an image of another kind as it is, and its key."""
    if is_source(source):
        source = read_image_file(source)
    return source, content_key(source)


def check_images(images: Any) -> list[Any]:
    """Return images as a list; raise `InvalidArgument` if they are not a sequence of images."""
    if isinstance(images, str | bytes | os.PathLike):
        raise InvalidArgument(
            f"X must be a list of images, got one, {str(images)[:80]!r}; put it into a list."
        )
    # An array holds many images, unless it has the shape of one: grey, or with colours last.
    is_one = isinstance(images, np.ndarray) and (
        images.ndim in (0, 2) or (images.ndim == 3 and images.shape[2] in (3, 4))
    )
    if is_one and images.dtype != object:
        raise InvalidArgument(
            f"X must be a list of images, got an array of shape {images.shape}; "
            "put one image into a list."
        )
    try:
        return list(images)
    except TypeError as error:
        raise InvalidArgument(
            f"X must be a list of images, got {type(images).__name__}."
        ) from error


def image_name(images: Sequence[Any], number: int) -> str:
    """Return the name of an image in messages: the name of its source, or its number."""
    return source_name(images[number]) if is_source(images[number]) else f"image {number}"


def map_images(
    function: Callable[[Any, str, int], Result],
    images: Sequence[Any],
    options: RunOptions = RunOptions(),
    *,
    stage: str = READING,
    numbers: Sequence[int] | None = None,
) -> Generator[Result | SkippedImage, None, None]:
    """Apply a function to each image and yield the results in the order of the images.

    Parameters
    ----------
    function : called with an image, its name and its number; it must be picklable if workers are
        processes.
    options : `on_error="skip"` yields a `SkippedImage` for an image that cannot be read, or for
        which the function fails for any reason, even for lack of memory.
    stage : reported to `options.progress`.
    numbers : numbers of the images to use. By default, all.
    """
    chosen = range(len(images)) if numbers is None else numbers
    done = 0
    with closing(_map_chunks(function, images, chosen, options)) as chunks:
        for results in chunks:
            for result in results:
                done += 1
                options.progress(stage, done, len(chosen))
                yield result


def _map_chunks(
    function: Callable[[Any, str, int], Result],
    images: Sequence[Any],
    chosen: Sequence[int],
    options: RunOptions,
) -> Generator[list[Result | SkippedImage], None, None]:
    """Do the work of `map_images`: yield the results of some images at a time."""
    map_chunk = partial(_map_chunk, function, skip=options.on_error == "skip")
    is_stopped = False

    def split(part: Sequence[int]) -> Iterator[list[tuple[Any, str, int]]]:
        for start in range(0, len(part), CHUNK):
            if is_stopped:
                return
            numbers = part[start : start + CHUNK]
            yield [(images[n], image_name(images, n), n) for n in numbers]

    with Parallel(n_jobs=options.n_jobs, prefer="threads", return_as="generator") as workers:
        window = CHUNK * CHUNKS_AHEAD * effective_n_jobs(options.n_jobs)
        for start in range(0, len(chosen), window):
            part = chosen[start : start + window]
            finished = workers(delayed(map_chunk)(items) for items in split(part))
            try:
                # `yield from` would close it, and joblib would warn.
                for results in finished:  # noqa: UP028
                    yield results
            except BaseException:
                is_stopped = True
                raise
            finally:
                # A consumer that stops early waits for the few images that were started.
                deque(finished, maxlen=0)


def _map_chunk(
    function: Callable[[Any, str, int], Result], items: list[tuple[Any, str, int]], skip: bool
) -> list[Result | SkippedImage]:
    results: list[Result | SkippedImage] = []
    for source, name, number in items:
        try:
            # A photograph that ends its decoder is skipped; otherwise it would end this process.
            with image_errors(name), decode_apart() if skip else nullcontext():
                results.append(function(source, name, number))
        except UnreadableImage as error:
            if not skip:
                raise
            results.append(SkippedImage(number, name, str(error)))
    return results


@contextmanager
def image_errors(name: str) -> Iterator[None]:
    """Turn whatever fails while an image is read and described into an `UnreadableImage`.

    Errors of this package stay as they are: those about an image name it, the others are not about
    one image.
    """
    try:
        yield
    except (SupDocNADEError, Warning):  # Warnings, if they are to be errors.
        raise
    except MemoryError as error:
        raise UnreadableImage(f"{name} needs more memory than there is.") from error
    except Exception as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise UnreadableImage(f"{name} cannot be described: {reason}.") from error
