"""Cache of the visual words of images on disk, keyed by the contents of the image."""

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import UnwritableFile
from supdocnade.images.decode import read_image_file
from supdocnade.images.source import PackedImage
from supdocnade.storage import write_atomically

_DIGEST_BYTES = 16


class ImageWords(NamedTuple):
    """The words of an image, its features as a whole, and its key."""

    ids: NDArray[np.int32]
    """Columns of the count matrix."""
    features_F: NDArray[np.float32] | None = None
    """(features,) of the whole image; None unless a network describes images."""
    key: str | None = None
    """Digest of its contents."""
    keywords: tuple[str, ...] = ()
    """Keywords in its file, if they were asked for."""


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
    if isinstance(source, str | os.PathLike | PackedImage):
        source = read_image_file(source)
    return source, content_key(source)


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
