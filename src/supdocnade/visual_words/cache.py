"""Words of images kept on disk, found again by the contents of the image."""

import hashlib
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import UnwritableFile
from supdocnade.images.decode import read_image_file

_DIGEST = 16


def content_key(source: Any) -> str | None:
    """Return a digest of an image: of a file's bytes, or of the pixels; None for anything else."""
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


class WordCache:
    """A folder with one small file an image and encoder.

    A file starts with a digest of what follows: one that was cut off, by a kill or a full disk,
    counts as missing.

    Parameters
    ----------
    folder : made when it is not there.
    fingerprint : of the encoder, so that another one has words of its own.
    n_features : number of different words, which decides their type on disk.
    """

    def __init__(self, folder: str | Path, fingerprint: str, n_features: int):
        self.folder = Path(folder) / fingerprint
        self._type = np.dtype("<u2" if n_features <= 2**16 else "<i4")
        self._n_features = n_features
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnwritableFile(f"{folder} cannot be a cache: {error.strerror}.") from error

    def get(self, key: str) -> NDArray[np.int32] | None:
        """Return the words of an image, or None if they are not known."""
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        body = content[_DIGEST:]
        if len(body) % self._type.itemsize or content[:_DIGEST] != _digest(body):
            return None
        words = np.frombuffer(body, self._type).astype(np.int32)
        if words.size and not (words.min() >= 0 and words.max() < self._n_features):
            return None
        return words

    def put(self, key: str, words: NDArray[np.int32]) -> None:
        """Keep the words of an image; another process may do the same at the same time."""
        body = words.astype(self._type).tobytes()
        path = self._path(key)
        temporary = path.with_name(f".{key}.{os.getpid()}.{threading.get_ident()}")
        try:
            path.parent.mkdir(exist_ok=True)
            temporary.write_bytes(_digest(body) + body)
            os.replace(temporary, path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise UnwritableFile(f"{path} cannot be written: {error.strerror}.") from error

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key


class Known(NamedTuple):
    """What a cache knows of an image."""

    source: Any
    """The image, or the contents of its file."""
    key: str | None = None
    words: NDArray[np.int32] | None = None


def look_up(cache: WordCache | None, source: Any, name: str) -> Known:
    """Return what a cache, if there is one, knows of an image.

    Parameters
    ----------
    name : what to call the image in an error.
    """
    if cache is None:
        return Known(source)
    if isinstance(source, str | os.PathLike):
        source = read_image_file(source, name)
    key = content_key(source)
    return Known(source, key, None if key is None else cache.get(key))


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST).digest()
