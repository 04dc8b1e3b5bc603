"""Shards of a corpus on disk: token ids, and a record of everything else.

Ids are read in part, so they are a plain file of little-endian numbers, which `numpy.fromfile`
reads. The record is written last: a shard exists if its record does.
"""

import hashlib
import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.corpus.tokens import BLOCK_TOKENS, split_blocks
from supdocnade.errors import InvalidArgument, StorageError, UnwritableFile
from supdocnade.schema import array, from_file, save
from supdocnade.storage import digest, load_arrays, rises_to

KIND = "CorpusShard"
ID = np.dtype("<i4")

MAX_READ = 2**24
"""Bytes that are read at a time on systems without `preadv`."""

MAX_OPEN_FILES = 4096
"""Files that a corpus keeps open, but at most a quarter of those that the process may open."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardRecord:
    """What is known of the documents of a shard, and the checksum of its ids."""

    ids: str
    offsets_B1: NDArray[np.int64] = array("O", np.int64)
    """Where documents begin and where the last one ends, (documents + 1,)."""
    names: list[str | None] = array("B")
    labels: list[str | None] = array("B")
    tags: list[list[str] | None] = array("B")
    keys: list[str | None] = array("B")

    def __post_init__(self) -> None:
        if len(self.offsets_B1) != len(self.names) + 1 or not self.names:
            raise InvalidArgument("it must have one offset more than documents")
        if not rises_to(int(self.offsets_B1[-1]), self.offsets_B1):
            raise InvalidArgument("offsets must rise from 0")


class OpenFile:
    """A file of values, open until nothing refers to it; several threads may read from it.

    It is not mapped into memory: one that was truncated since then is an error.
    """

    def __init__(self, path: str):
        self.path = path
        self._descriptor: int | None = None
        try:
            self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}.") from error

    def __del__(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def read_into(self, target: NDArray[Any], first: int) -> None:
        """Fill an array with the values from the given one on."""
        position, rest = first * target.itemsize, target.view(np.uint8)
        while rest.size:
            try:
                n_read = self._read(rest, position)
            except OSError as error:
                raise StorageError(f"{self.path} cannot be read: {error.strerror}.") from error
            if n_read == 0:
                raise StorageError(f"{self.path} is damaged: it was truncated.")
            position, rest = position + n_read, rest[n_read:]

    def _read(self, target: NDArray[np.uint8], position: int) -> int:
        assert self._descriptor is not None
        if hasattr(os, "preadv"):
            return os.preadv(self._descriptor, [target.data], position)
        os.lseek(self._descriptor, position, os.SEEK_SET)
        content = os.read(self._descriptor, min(len(target), MAX_READ))
        target[: len(content)] = np.frombuffer(content, np.uint8)
        return len(content)


def max_open_files() -> int:
    """Return the number of files that a corpus keeps open."""
    try:
        import resource
    except ImportError:  # Windows, where threads cannot share an open file either.
        return 0
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_OPEN_FILES if allowed < 0 else min(allowed // 4, MAX_OPEN_FILES)


@dataclass(frozen=True, eq=False)
class Shard:
    """A shard of a corpus; its ids are read on demand."""

    folder: Path
    number: int
    offsets_B1: NDArray[np.int64]
    checksum: str
    """Of the ids."""
    digest: str
    """Digest of the record."""

    @classmethod
    def load(cls, folder: Path, number: int) -> "Shard":
        """Return a shard whose record is read and whose ids have the right size."""
        shard, _ = cls._read(folder, number)
        shard._check()
        return shard

    @classmethod
    def _read(cls, folder: Path, number: int) -> tuple["Shard", ShardRecord]:
        path = shard_path(folder, number)
        arrays, description = load_arrays(path)
        record = from_file(KIND, ShardRecord, arrays, description, str(path))
        found = digest(arrays, json.dumps(description))
        return cls(folder, number, record.offsets_B1, record.ids, found), record

    def __len__(self) -> int:
        """The number of documents."""
        return len(self.offsets_B1) - 1

    @property
    def n_tokens(self) -> int:
        """The number of tokens of all documents."""
        return int(self.offsets_B1[-1])

    @property
    def path(self) -> Path:
        """Path of the ids."""
        return shard_path(self.folder, self.number, "ids")

    def record(self) -> ShardRecord:
        """Return the names, labels, tags and keys of the documents."""
        shard, record = self._read(self.folder, self.number)
        if shard.digest != self.digest:
            raise StorageError(f"{shard_path(self.folder, self.number)} has changed.")
        return record

    def open(self) -> OpenFile:
        """Open the ids for reading."""
        self._check()
        return OpenFile(str(self.path))

    def _check(self) -> None:
        """Raise `StorageError` unless a regular file of the right size exists."""
        path, expected = self.path, self.n_tokens * ID.itemsize
        try:
            found = os.stat(path)
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
        if not stat.S_ISREG(found.st_mode):
            raise StorageError(f"{path} is not a regular file.")
        if found.st_size != expected:
            raise StorageError(
                f"{path} is damaged: it has {found.st_size} bytes, expected {expected}."
            )

    def verify(self, n_words: int) -> None:
        """Raise `StorageError` unless every byte is as written and the contents are consistent."""
        self.record()
        self._check()
        with open(self.path, "rb") as file:
            if hashlib.file_digest(file, _new_digest).hexdigest() != self.checksum:
                raise StorageError(
                    f"{self.path} is damaged: its contents are not those that were written."
                )
        offsets, ids = self.offsets_B1, self.open()
        for rows in split_blocks(np.diff(offsets), BLOCK_TOKENS):
            first, last = int(offsets[rows[0]]), int(offsets[rows[-1] + 1])
            ids_N, starts = np.empty(last - first, ID), offsets[rows[0] : rows[-1] + 1] - first
            ids.read_into(ids_N, first)
            check_ids(self.path, ids_N, n_words)
            bounds = run_bounds(ids_N, starts)
            if (np.diff(ids_N[bounds]) < 0)[~np.isin(bounds[1:], starts)].any():
                raise StorageError(f"{self.path} is damaged: ids must rise within a document.")


def shard_path(folder: Path, number: int, part: str = "safetensors") -> Path:
    """Return the path of a file of a shard, by default of its record."""
    return folder / f"shard-{number:05d}.{part}"


def write_shard(
    folder: Path,
    number: int,
    ids_N: NDArray[np.int32],
    offsets_B1: NDArray[np.int64],
    documents: dict[str, Any],
) -> Shard:
    """Write a new shard, replacing the files of an interrupted append; return it.

    Parameters
    ----------
    ids_N : sorted within every document.
    documents : their names, labels, tags and keys.
    """
    remove_shard(folder, number)
    content = np.ascontiguousarray(ids_N.astype(ID, copy=False)).data
    checksum = _write(shard_path(folder, number, "ids"), content)
    record = ShardRecord(ids=checksum, offsets_B1=offsets_B1, **documents)
    save(shard_path(folder, number), KIND, record)
    return Shard.load(folder, number)


def remove_shard(folder: Path, number: int) -> None:
    """Remove the files of a shard that exist, the record first."""
    for part in ("safetensors", "ids"):
        with suppress(OSError):
            shard_path(folder, number, part).unlink()


def count_shards(folder: Path) -> int:
    """Return the number of shards in a folder; one that is missing raises `StorageError`."""
    names = {path.name for path in folder.glob("shard-*.safetensors")}
    for number in range(len(names)):
        if shard_path(folder, number).name not in names:
            raise StorageError(
                f"{folder} is damaged: it lacks {shard_path(folder, number).name}, one of "
                f"{len(names)} shards."
            )
    # A kill leaves the files of one shard without a record, never of two.
    later = shard_path(folder, len(names) + 1, "ids")
    if later.exists() and not shard_path(folder, len(names)).exists():
        raise StorageError(f"{folder} is damaged: {later.name} is not of {len(names)} shards.")
    return len(names)


def _write(path: Path, content: memoryview) -> str:
    """Write a file and flush it to the disk; return its checksum."""
    try:
        with open(path, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UnwritableFile(f"{path} cannot be written: {error.strerror}.") from error
    found = _new_digest()
    found.update(content)
    return found.hexdigest()


def _new_digest() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=16)


def check_ids(path: Path, ids_N: NDArray[np.int32], n_words: int) -> None:
    """Raise `StorageError` if an id is outside the vocabulary."""
    if ids_N.size and not (ids_N.min() >= 0 and ids_N.max() < n_words):
        raise StorageError(
            f"{path} is damaged: ids must lie in 0 .. {n_words - 1}, "
            f"got {ids_N.min()} .. {ids_N.max()}."
        )


def run_bounds(ids_N: NDArray[np.int32], starts_B: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where runs of equal ids begin, given the starts of the documents."""
    is_start_N = np.zeros(len(ids_N), np.bool_)
    is_start_N[1:] = ids_N[1:] != ids_N[:-1]
    is_start_N[starts_B[starts_B < len(ids_N)]] = True
    return np.flatnonzero(is_start_N)
