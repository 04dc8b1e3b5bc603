"""Sources of images: each has a name and a way to get its bytes.

A source is the path of a file, the address of a file on another file system (`s3://bucket/a.jpg`),
which fsspec opens, or a `PackedImage` in a tar file. Sources can be pickled, so that a worker in
another process can read the image.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from supdocnade.errors import StorageError, install_command
from supdocnade.text import MAX_FILE_BYTES, open_file, read_file

BLOCK_SIZE = 1 << 16
"""Least number of bytes to read when a part of a file on another file system is needed."""


@dataclass(frozen=True, slots=True)
class PackedImage:
    """An image in a tar file: a range of its bytes."""

    container: str
    """Path or address of the file."""
    member: str
    """Name within the file."""
    start: int
    """Position of the first byte."""
    size: int

    @property
    def name(self) -> str:
        """The name in predictions and errors, `photos.tar/coast/1.jpg`."""
        return f"{self.container}/{self.member}"


Source = str | os.PathLike[str] | PackedImage


def is_source(image: Any) -> bool:
    """Return whether an image is given by its source, and not by its contents."""
    return isinstance(image, str | os.PathLike | PackedImage)


def source_name(source: Source) -> str:
    """Return the name of an image: a path, an address, or the name of a packed image."""
    return source.name if isinstance(source, PackedImage) else os.fspath(source)


def is_remote(address: str | os.PathLike[str]) -> bool:
    """Return whether an address is one that fsspec opens, such as `s3://bucket/photos`.

    >>> is_remote("s3://bucket/photos"), is_remote("photos/coast")
    (True, False)
    """
    return "://" in os.fspath(address)


def is_absolute(address: str) -> bool:
    """Return whether a name does not depend on a folder."""
    return is_remote(address) or os.path.isabs(address)


def is_local_file(source: Source) -> bool:
    """Return whether a source is the path of a file of its own on this machine."""
    return not isinstance(source, PackedImage) and not is_remote(source)


def join_address(folder: str, name: str) -> str:
    """Return the path or address of a file below a folder, unless its name is absolute.

    >>> join_address("s3://bucket/photos/", "a.jpg"), join_address(".", "a.jpg")
    ('s3://bucket/photos/a.jpg', 'a.jpg')
    """
    if is_absolute(name):
        return name
    return f"{folder.rstrip('/')}/{name}" if is_remote(folder) else str(Path(folder, name))


def join_addresses(folder: str, names: Iterable[str]) -> list[str]:
    """Return the paths or addresses of many files below a folder."""
    start = join_address(folder, "x")[:-1]
    separator = "/" if is_remote(folder) else os.sep
    return [start + name.replace("/", separator) for name in names]


def normalize_address(address: str | os.PathLike[str]) -> str:
    """Return a path without needless parts, or an address without a slash at its end.

    >>> normalize_address("./photos/"), normalize_address("s3://bucket/")
    ('photos', 's3://bucket')
    """
    if not os.fspath(address):  # It would be the working directory.
        raise StorageError("a place of photographs must have a name, got an empty one.")
    return os.fspath(address).rstrip("/") if is_remote(address) else str(Path(address))


def absolute_address(address: str | os.PathLike[str]) -> str:
    """Return an absolute path; an address of another file system is one already."""
    return os.fspath(address) if is_remote(address) else os.path.abspath(address)


def read_source(source: Source) -> bytes:
    """Return the bytes of an image; raise `StorageError` if they cannot be read."""
    if not isinstance(source, PackedImage):
        return read_address(source)
    content = read_address(source.container, source.start, source.size)
    if len(content) != source.size:
        raise StorageError(
            f"{source.name} must have {source.size} bytes, got {len(content)}: "
            f"{source.container} is truncated."
        )
    return content


def read_address(
    address: str | os.PathLike[str], start: int = 0, size: int = -1, *, most: int = MAX_FILE_BYTES
) -> bytes:
    """Return the bytes of a file, or `size` of them from `start`; at most `most`.

    `StorageError` is raised if the file cannot be read.
    """
    if not is_remote(address):
        return read_file(address, start, size, most=most)
    parts, left = [], most + 1 if size < 0 else min(size, most + 1)
    with open_address(address) as file, storage_errors(address):
        if start:
            file.seek(start)
        while left and (part := file.read(left)):  # A stream gives what it has.
            parts.append(part)
            left -= len(part)
    content = b"".join(parts)
    if len(content) > most:
        raise StorageError(f"{address} is too large; the limit is {most} bytes.")
    return content


@contextmanager
def open_address(address: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for reading; on another file system only the parts that are read are fetched.

    `StorageError` is raised if the file cannot be opened.
    """
    path, system = address, None
    if is_remote(address):
        system, path = open_file_system(os.fspath(address))
    if system is None or system.protocol == ("file", "local"):  # It may be a pipe or a device.
        opened: AbstractContextManager[IO[bytes]] = open_file(path)
    else:
        with storage_errors(address):
            opened = system.open(path, "rb", block_size=BLOCK_SIZE)
    with opened as file:
        yield file


def open_file_system(address: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path on it."""
    try:
        import fsspec
    except ImportError as error:
        raise StorageError(f"{address} needs an extra: {install_command('remote')}.") from error
    with storage_errors(address):
        system, path = fsspec.core.url_to_fs(address)
    return system, path


@contextmanager
def storage_errors(address: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of a file system into a `StorageError` that names the file.

    File systems of fsspec raise errors of many types.
    """
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error).strip().rstrip(".")
        if isinstance(error, FileNotFoundError):
            reason = os.strerror(2)
        reason = reason or type(error).__name__
        raise StorageError(f"{os.fspath(address)} cannot be read: {reason}.") from error


def stamp_sources(sources: Iterable[Source]) -> list[tuple[int, int]]:
    """Return two numbers for each source that change with its file: size and modification time.

    They are (0, 0) for a file that cannot be found, so that reading it raises the error. Instead of
    the time, a file on another file system has a digest of what is known about it.
    """
    stamp = cache(_stamp_file)  # The tar file of many photographs is asked for once.
    files = (each.container if isinstance(each, PackedImage) else each for each in sources)
    return [stamp(os.fspath(file)) for file in files]


def _stamp_file(address: str) -> tuple[int, int]:
    try:
        if not is_remote(address):
            status = os.stat(address)
            return status.st_size, status.st_mtime_ns
        system, path = open_file_system(address)
        with storage_errors(address):
            about = system.info(path)
    except (OSError, StorageError):
        return (0, 0)
    described = repr(sorted((key, str(value)) for key, value in about.items()))
    digest = hashlib.blake2b(described.encode(), digest_size=7).digest()
    return int(about.get("size") or 0), int.from_bytes(digest, "big")
