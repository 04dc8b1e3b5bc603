"""Small copies of photographs in one file, read where they are asked for."""

import hashlib
import os
import weakref
from collections.abc import Iterable
from pathlib import Path

from supdocnade.errors import StorageError

_BLOCK = 2**20


class PictureFile:
    """A file that stays open: whoever replaces it does not disturb those who read it."""

    def __init__(self, path: Path):
        try:
            self._file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
        weakref.finalize(self, os.close, self._file)

    def read(self, start: int, length: int) -> bytes:
        """Return a part of the file; threads may ask at the same time."""
        return os.pread(self._file, length, start)

    def digest(self) -> tuple[str, int]:
        """Return a digest of all of it, and its length."""
        digest, length = hashlib.blake2b(digest_size=16), 0
        while block := self.read(length, _BLOCK):
            digest.update(block)
            length += len(block)
        return digest.hexdigest(), length


def write_pictures(path: Path, pictures: Iterable[bytes]) -> str:
    """Write pictures one after the other; return a digest."""
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "wb") as file:
        for picture in pictures:
            file.write(picture)
            digest.update(picture)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()
