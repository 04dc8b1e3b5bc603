"""Work on many images at once, on all cores, with the results in the order of the images.

Each image is read by one thread from beginning to end, so its result does not depend on the number
of workers. Workers are threads, because decoding, SIFT and the search for words release the
interpreter lock; `joblib.parallel_config` can make them processes.
"""

import os
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.errors import InvalidArgument, UnreadableImage, image_errors
from supdocnade.folders.keywords import find_keywords_in_file
from supdocnade.folders.metadata import distinct_tags
from supdocnade.images.source import PackedImage, source_name
from supdocnade.runs import RunOptions
from supdocnade.visual_words.cache import ImageWords, WordCache, read_with_key
from supdocnade.visual_words.encoder import ImageEncoder, count_words

Result = TypeVar("Result")

READING = "reading photographs"
"""Stage reported to `RunOptions.progress` by default."""

CHUNK, CHUNKS_AHEAD = 4, 16
"""Images per task of a worker, and tasks per worker that may run ahead of the consumer."""

SMALL_SIDE = 64
"""Longest side in pixels below which a file gets a warning: little of a photograph can be seen."""


class SkippedImage(NamedTuple):
    """An image that could not be read."""

    number: int
    """Position among the images given."""
    name: str
    reason: str
    """One sentence, which names the image."""


class EncodedImages(NamedTuple):
    """Counts of the words of many images, and the features of the images."""

    counts: sparse.csr_array
    """(images, words); rows of images that were skipped are empty."""
    read: NDArray[np.bool_]
    """(images,) false for images that were skipped."""
    skipped: tuple[SkippedImage, ...]
    keys: tuple[str | None, ...] = ()
    """Digests of the contents of the images; None for those that were skipped."""
    global_features: NDArray[np.float32] | None = None
    """(images, features) of whole images, each row divided by its root mean square, if a network
    describes them; rows of images that were skipped are zero."""


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
    """Return the name of an image in messages: that of its source, or its number."""
    source = images[number]
    is_source = isinstance(source, str | os.PathLike | PackedImage)
    return source_name(source) if is_source else f"image {number}"


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
    options : `on_error="skip"` yields a `SkippedImage` for an image that cannot be read, and for
        one whose function fails for any reason, too little memory included.
    stage : reported to `options.progress`.
    numbers : numbers of the images to use; None: all.
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
            with image_errors(name):
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
    keywords: bool = False,
) -> Iterator[ImageWords | SkippedImage]:
    """Yield the words of each image, or a `SkippedImage`.

    Parameters
    ----------
    options : `cache` stores the words of images by content, so that a killed run resumes and a
        renamed image is not encoded again. `device` is where a network runs.
    stage, numbers : as for `map_images`.
    keywords : whether to return the keywords in the file of an image, too.
    """
    cache = None
    if options.cache is not None:
        cache = WordCache(
            options.cache, encoder.fingerprint(), encoder.n_features, encoder.n_image_features
        )
    encode = partial(_encode_image, encoder, cache, keywords, options.device)
    yield from map_images(encode, images, options, stage=stage, numbers=numbers)


def encode_all(
    encoder: ImageEncoder, images: Sequence[Any], options: RunOptions = RunOptions()
) -> EncodedImages:
    """Return the counts of the words of images, and the images that could not be read."""
    skipped, words = [], []
    n_image_features = encoder.n_image_features
    nothing = np.zeros(n_image_features, np.float32) if n_image_features else None
    for found in encode_images(encoder, images, options):
        if isinstance(found, SkippedImage):
            skipped.append(found)
            words.append(ImageWords(np.empty(0, np.int32), nothing))
        else:
            words.append(found)
    read = np.ones(len(images), np.bool_)
    read[[each.number for each in skipped]] = False
    counts = count_words([each.ids for each in words], encoder.n_features)
    features_BF = None
    if n_image_features:
        features_BF = np.array([each.features_F for each in words], np.float32)
        features_BF = features_BF.reshape(-1, n_image_features)
    keys = tuple(each.key for each in words)
    return EncodedImages(counts, read, tuple(skipped), keys, features_BF)


def _encode_image(
    encoder: ImageEncoder,
    cache: WordCache | None,
    keywords: bool,
    device: str,
    source: Any,
    name: str,
    number: int,
) -> ImageWords:
    """Return the words of an image, from the cache if they are there."""
    content, key = read_with_key(source)
    found = _find_keywords(source, content, name) if keywords else ()
    words = None if cache is None else cache.get(key)
    if words is None:
        encoded = encoder.encode(content, name, device)
        height, width = encoded.size
        if isinstance(content, bytes) and max(height, width) < SMALL_SIDE:
            warnings.warn(
                f"{name} has only {width} × {height} pixels; expect more errors.", stacklevel=2
            )
        words = encoded.words._replace(key=key)
        if cache is not None:
            cache.put(words)
    return words._replace(keywords=found)


def _find_keywords(source: Any, content: Any, name: str) -> tuple[str, ...]:
    """Return the keywords in the file of an image.

    Those in shards are not read, as when a shard is listed: it has tags of its own.
    """
    if isinstance(source, PackedImage) or not isinstance(content, bytes):
        return ()
    return distinct_tags(find_keywords_in_file(content, name))
