"""Visual words of many images, and their cache on disk, keyed by the contents of images."""

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.errors import UnwritableFile
from supdocnade.folders.keywords import find_keywords_in_file
from supdocnade.folders.metadata import distinct_tags
from supdocnade.images.reading import READING, SkippedImage, map_images, read_with_key
from supdocnade.images.source import PackedImage
from supdocnade.runs import RunOptions
from supdocnade.storage import write_atomically
from supdocnade.visual_words.encoder import ImageEncoder, ImageWords, count_words

SMALL_SIDE = 64
"""Longest side in pixels below which a file gets a warning: little of a photograph can be seen."""

_DIGEST_BYTES = 16


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


class WordCache:
    """A folder with one small file per image and encoder.

    A file starts with a digest of the rest, so that one truncated by a kill or a full disk counts
    as missing.

    Parameters
    ----------
    folder : created if it is missing.
    fingerprint : fingerprint of the encoder.
    n_features : number of columns of the encoder; it decides the type of the words on disk.
    n_image_features : number of features of a whole image.
    """

    def __init__(
        self,
        folder: str | Path,
        fingerprint: str,
        n_features: int,
        n_image_features: int = 0,
    ):
        self.folder = Path(folder) / fingerprint
        self._type = np.dtype("<u2" if n_features <= 2**16 else "<i4")
        self._n_features, self._n_image_features = n_features, n_image_features
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnwritableFile(f"{folder} cannot be a cache: {error.strerror}.") from error

    def get(self, key: str | None) -> ImageWords | None:
        """Return the words of an image, or None if they are not in the cache."""
        if key is None:
            return None
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        body = content[_DIGEST_BYTES:]
        if content[:_DIGEST_BYTES] != _digest(body):
            return None
        features_F = None
        if self._n_image_features:  # They follow the words.
            end = len(body) - 4 * self._n_image_features
            if end < 0:
                return None
            features_F = np.frombuffer(body, "<f4", offset=end)
            body = body[:end]
        if len(body) % self._type.itemsize:
            return None
        ids = np.frombuffer(body, self._type).astype(np.int32)
        if ids.size and not (ids.min() >= 0 and ids.max() < self._n_features):
            return None
        return ImageWords(ids, features_F, key)

    def put(self, words: ImageWords) -> None:
        """Store the words of an image; several processes may do so at the same time.

        An image without a key is not stored.
        """
        key = words.key
        if key is None:
            return
        body = words.ids.astype(self._type).tobytes()
        if words.features_F is not None:
            body += words.features_F.astype("<f4").tobytes()
        # A file that a power failure cut off has another digest, so nobody waits for the disk.
        write_atomically(self._path(key), _digest(body) + body, sync=False)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()


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
