"""Shards of a corpus on disk: token ids, counts, and a record of everything else.

Ids and counts are read in part, so they are plain files of little-endian numbers, which
`numpy.fromfile` reads. The record is written last: a shard exists if its record does.
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

from supdocnade.checks import rises_to
from supdocnade.corpus.tokens import BLOCK_TOKENS, split_blocks
from supdocnade.errors import InvalidArgument, StorageError, UnwritableFile
from supdocnade.schema import array, from_file, save
from supdocnade.storage import digest, load_arrays

KIND = "CorpusShard"
TYPES: dict[str, Any] = {"ids": np.dtype("<i4"), "counts": np.dtype("<f8")}

MAX_READ = 2**24
"""Bytes that are read at a time on systems without `preadv`."""

MAX_OPEN_FILES = 4096
"""Files that a corpus keeps open; fewer if the process may have fewer than four times as many."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardRecord:
    """What is known of the documents of a shard, and the checksums of its files."""

    ids: str
    counts: str | None
    """None if all counts are whole."""
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
    """A shard of a corpus; its ids and counts are read on demand."""

    folder: Path
    number: int
    offsets_B1: NDArray[np.int64]
    checksums: dict[str, str]
    """Of `ids`, and of `counts` if some are fractions."""
    digest: str
    """Digest of the record."""

    @classmethod
    def load(cls, folder: Path, number: int) -> "Shard":
        """Return a shard whose record is read and whose files have the right sizes."""
        shard, _ = cls._read(folder, number)
        for part in shard.checksums:
            shard._check(part)
        return shard

    @classmethod
    def _read(cls, folder: Path, number: int) -> tuple["Shard", ShardRecord]:
        path = shard_path(folder, number)
        arrays, description = load_arrays(path)
        record = from_file(KIND, ShardRecord, arrays, description, str(path))
        checksums = {"ids": record.ids}
        if record.counts is not None:
            checksums["counts"] = record.counts
        found = digest(arrays, json.dumps(description))
        return cls(folder, number, record.offsets_B1, checksums, found), record

    def __len__(self) -> int:
        """The number of documents."""
        return len(self.offsets_B1) - 1

    @property
    def n_tokens(self) -> int:
        """The number of tokens of all documents."""
        return int(self.offsets_B1[-1])

    def path(self, part: str) -> Path:
        """Return the path of one of the files."""
        return shard_path(self.folder, self.number, part)

    def record(self) -> ShardRecord:
        """Return the names, labels, tags and keys of the documents."""
        shard, record = self._read(self.folder, self.number)
        if shard.digest != self.digest:
            raise StorageError(f"{shard_path(self.folder, self.number)} has changed.")
        return record

    def open(self, part: str) -> OpenFile:
        """Open one of the files for reading."""
        self._check(part)
        return OpenFile(str(self.path(part)))

    def _check(self, part: str) -> None:
        """Raise `StorageError` unless a regular file of the right size exists."""
        path, expected = self.path(part), self.n_tokens * TYPES[part].itemsize
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

    def read(self, part: str, first: int, last: int) -> NDArray[Any]:
        """Return some values of a file."""
        values: NDArray[Any] = np.empty(last - first, TYPES[part])
        self.open(part).read_into(values, first)
        return values

    def verify(self, n_words: int) -> None:
        """Raise `StorageError` unless every byte is as written and the contents are consistent."""
        self.record()
        for part, expected in self.checksums.items():
            self._check(part)
            with open(self.path(part), "rb") as file:
                if hashlib.file_digest(file, _new_digest).hexdigest() != expected:
                    raise StorageError(
                        f"{self.path(part)} is damaged: its contents are not those that were "
                        "written."
                    )
        offsets = self.offsets_B1
        for rows in split_blocks(np.diff(offsets), BLOCK_TOKENS):
            first, last = int(offsets[rows[0]]), int(offsets[rows[-1] + 1])
            ids_N, starts = self.read("ids", first, last), offsets[rows[0] : rows[-1] + 1] - first
            check_ids(self.path("ids"), ids_N, n_words)
            bounds = run_bounds(ids_N, starts)
            if (np.diff(ids_N[bounds]) < 0)[~np.isin(bounds[1:], starts)].any():
                raise StorageError(
                    f"{self.path('ids')} is damaged: ids must rise within a document."
                )
            if "counts" in self.checksums:
                self._verify_counts(self.read("counts", first, last), bounds)

    def _verify_counts(self, counts_N: NDArray[np.float64], bounds: NDArray[np.int64]) -> None:
        path = self.path("counts")
        check_counts(path, counts_N)
        repeats = np.diff(np.append(bounds, len(counts_N)))
        counts = counts_N[bounds]
        if (np.ceil(counts) != repeats).any() or (np.repeat(counts, repeats) != counts_N).any():
            raise StorageError(f"{path} is damaged: a count x must have ceil(x) tokens.")


def shard_path(folder: Path, number: int, part: str = "safetensors") -> Path:
    """Return the path of a file of a shard, by default of its record."""
    return folder / f"shard-{number:05d}.{part}"


def write_shard(
    folder: Path,
    number: int,
    tokens: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float64] | None],
    documents: dict[str, Any],
) -> Shard:
    """Write a new shard, replacing the files of an interrupted append; return it.

    Parameters
    ----------
    tokens : ids, sorted within every document; the offsets of documents; and the count that each
        token is a part of, None if all counts are whole.
    documents : their names, labels, tags and keys.
    """
    ids_N, offsets_B1, counts_N = tokens
    remove_shard(folder, number)
    checksums: dict[str, Any] = dict.fromkeys(TYPES)
    parts: dict[str, NDArray[Any] | None] = {"ids": ids_N, "counts": counts_N}
    for part, values in parts.items():
        if values is not None:
            content = np.ascontiguousarray(values.astype(TYPES[part], copy=False)).data
            checksums[part] = _write(shard_path(folder, number, part), content)
    record = ShardRecord(**checksums, offsets_B1=offsets_B1, **documents)
    save(shard_path(folder, number), KIND, record)
    return Shard.load(folder, number)


def remove_shard(folder: Path, number: int) -> None:
    """Remove all files of a shard that exist, the record first."""
    for part in ("safetensors", *TYPES):
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


def check_counts(path: Path, counts_N: NDArray[np.float64]) -> None:
    """Raise `StorageError` if a count is not finite or not above 0."""
    if not ((counts_N > 0) & np.isfinite(counts_N)).all():
        raise StorageError(f"{path} is damaged: counts must be finite and above 0.")


def run_bounds(ids_N: NDArray[np.int32], starts_B: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where runs of equal ids begin, given the starts of the documents."""
    is_start_N = np.zeros(len(ids_N), np.bool_)
    is_start_N[1:] = ids_N[1:] != ids_N[:-1]
    is_start_N[starts_B[starts_B < len(ids_N)]] = True
    return np.flatnonzero(is_start_N)
