"""Many images at once: over all cores, in their own sequence, with what could not be read.

Every image is read by one thread from beginning to end, so its words do not depend on how many
workers there are. Workers are threads, since decoding, SIFT and the search for words all release
the interpreter lock; under `joblib.parallel_config` they are whatever it says, processes or other
machines. With a GPU the workers decode, and all else is done there (`on_device`).
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.progress import no_progress
from supdocnade.run_options import RunOptions
from supdocnade.visual_words.cache import WordCache, look_up
from supdocnade.visual_words.encoder import ImageEncoder

if TYPE_CHECKING:
    import torch

    from supdocnade.visual_words.gpu import Decoded

Result = TypeVar("Result")

READING = "reading photographs"
"""Stage reported to `RunOptions.progress` unless a caller names another."""

WORTH_A_GPU = 256
"""Images that a core encodes in about a second: less than a GPU takes to get going."""

CHUNK, CHUNKS_AHEAD = 4, 16
"""Images that a worker is given at a time, and how often before their results are handed on: what
was read and not yet used is bounded, however many images there are."""


class SkippedImage(NamedTuple):
    """An image that could not be read."""

    number: int
    """Its place among the images given."""
    name: str
    reason: str
    """One sentence, which names the image."""


def check_images(images: Any) -> list[Any]:
    """Return images as a list, or raise `InvalidArgument`."""
    if isinstance(images, str | bytes | os.PathLike):
        raise InvalidArgument(
            f"X must be a list of images, got one, {str(images)[:80]!r}; put it into a list."
        )
    # An array is many images, unless it has the shape of one: grey, or with colours in the end.
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
    """Return what an image is called in messages: its path, or its place."""
    source = images[number]
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return f"image {number}"


def over_images(
    function: Callable[[Any, str, int], Result],
    images: Sequence[Any],
    options: RunOptions = RunOptions(),
    *,
    stage: str = READING,
    numbers: Sequence[int] | None = None,
    images_ahead: Callable[[int], int] | None = None,
) -> Generator[Result | SkippedImage, None, None]:
    """Apply a function to every image and yield the results in their sequence.

    Parameters
    ----------
    function : takes an image, its name and its number.
    options : `on_error="skip"` yields a `SkippedImage` for an image that cannot be read.
    stage : reported to `options.progress`.
    numbers : which images; None: all.
    images_ahead : called, with the number of workers, for how many images may be begun before the
        results of all of them are used; None: so many that results of a few kilobytes are few.
    """
    chosen = range(len(images)) if numbers is None else numbers
    done = start = 0
    with Parallel(n_jobs=options.n_jobs, prefer="threads", return_as="generator") as workers:
        n_workers = effective_n_jobs(options.n_jobs)
        window = CHUNK * CHUNKS_AHEAD * n_workers
        while start < len(chosen):
            window = window if images_ahead is None else images_ahead(n_workers)
            chunk = min(CHUNK, -(-window // n_workers))
            part = chosen[start : start + window]
            start += window
            tasks = (
                delayed(_work)(
                    function,
                    [(images[n], image_name(images, n), n) for n in part[i : i + chunk]],
                    options.on_error == "skip",
                )
                for i in range(0, len(part), chunk)
            )
            finished = workers(tasks)
            try:
                for results in finished:
                    for result in results:
                        done += 1
                        options.progress(stage, done, len(chosen))
                        yield result
            finally:
                # Whoever stops reading waits for the few images that have been begun.
                deque(finished, maxlen=0)


def _work(
    function: Callable[[Any, str, int], Result], items: list[tuple[Any, str, int]], skip: bool
) -> list[Result | SkippedImage]:
    results: list[Result | SkippedImage] = []
    for source, name, number in items:
        try:
            results.append(function(source, name, number))
        except UnreadableImage as error:
            if not skip:
                raise
            results.append(SkippedImage(number, name, str(error)))
    return results


def encode_images(
    encoder: ImageEncoder,
    images: Sequence[Any],
    options: RunOptions = RunOptions(),
    *,
    stage: str = READING,
    numbers: Sequence[int] | None = None,
) -> Iterator[NDArray[np.int32] | SkippedImage]:
    """Yield the words of every image, or what was wrong with it.

    Parameters
    ----------
    options : `cache` stores the words of images by content, so that a killed run resumes and a
        renamed image is not encoded again. `device="auto"` takes a GPU if there is one and enough
        images; it finds the words of the CPU, except for patches at equal distance to two words.
    stage, numbers : as for `over_images`.
    """
    kept = None
    if options.cache is not None:
        kept = WordCache(options.cache, encoder.fingerprint(), encoder.n_features)
    total = len(images) if numbers is None else len(numbers)
    device = None
    if options.device != "cpu" and not (options.device == "auto" and total < WORTH_A_GPU):
        from supdocnade.devices import choose_device  # Imports torch.

        device = choose_device(options.device)
    if device is None or device.type == "cpu":
        yield from over_images(
            _EncodeOne(encoder, kept), images, options, stage=stage, numbers=numbers
        )
    else:
        yield from encode_in_batches(
            encoder, images, device, options, stage=stage, numbers=numbers, cache=kept
        )


def encode_in_batches(
    encoder: ImageEncoder,
    images: Sequence[Any],
    device: "torch.device",
    options: RunOptions = RunOptions(),
    *,
    stage: str = READING,
    numbers: Sequence[int] | None = None,
    cache: WordCache | None = None,
) -> Iterator[NDArray[np.int32] | SkippedImage]:
    """Do what `encode_images` does: decode by workers, and the rest in batches on a device."""
    from supdocnade.visual_words.gpu import BatchEncoder, Pace, in_batches

    total = len(images) if numbers is None else len(numbers)
    pace = Pace()
    decoded = over_images(
        _DecodeOne(encoder, cache),
        images,
        replace(options, progress=no_progress),
        numbers=numbers,
        images_ahead=pace.images_ahead,
    )
    with closing(decoded):
        words: Iterator[NDArray[np.int32] | SkippedImage] = in_batches(
            decoded, BatchEncoder(encoder, device), cache, pace
        )
        for done, each in enumerate(words, start=1):
            options.progress(stage, done, total)
            yield each


class _EncodeOne:
    """Encodes an image, or finds its words; a class, so that it travels to other processes."""

    def __init__(self, encoder: ImageEncoder, cache: WordCache | None):
        self.encoder, self.cache = encoder, cache

    def __call__(self, source: Any, name: str, number: int) -> NDArray[np.int32]:
        known = look_up(self.cache, source, name)
        if known.words is not None:
            return known.words
        words = self.encoder.encode(known.source, name).ids
        if self.cache is not None and known.key is not None:
            self.cache.put(known.key, words)
        return words


class _DecodeOne:
    """Decodes an image, or finds its words; a class, so that it travels to other processes."""

    def __init__(self, encoder: ImageEncoder, cache: WordCache | None):
        self.description, self.cache = encoder.description, cache

    def __call__(self, source: Any, name: str, number: int) -> "Decoded | NDArray[np.int32]":
        from supdocnade.visual_words.gpu import Decoded

        known = look_up(self.cache, source, name)
        if known.words is not None:
            return known.words
        return Decoded(self.description.read(known.source, name), known.key)
