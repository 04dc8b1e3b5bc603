"""Shards of a corpus on disk: files of token ids, offsets and records.

Arrays are one-dimensional .npy files, which any program reads. The manifest has their sizes and
checksums (`manifest`).
"""

import hashlib
import json
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import rises_to
from supdocnade.corpus.counts import BLOCK_TOKENS, split_blocks
from supdocnade.corpus.manifest import CHECKSUM_BYTES, PARTS, ShardEntry, checksum
from supdocnade.errors import StorageError, UnwritableFile

DTYPES = {"ids": "<i4", "offsets": "<i8", "counts": "<f8"}

MAGIC = b"\x93NUMPY\x01\x00"
"""Start of a .npy file of version 1; the next two bytes give the length of the header."""

MAX_READ = 2**24
"""Bytes that are read at a time on systems without `preadv`."""

MAX_OPEN_FILES = 4096
"""Files that a corpus keeps open; fewer if the process may have fewer than four times as many."""

Records = dict[str, list[Any]]
"""Names, labels and tags of the documents of a shard, and keys if they were given; None where
unknown."""


class OpenFile:
    """A file of values, open until nothing refers to it; several threads may read from it.

    It is not mapped into memory: one that was truncated since then is an error.
    """

    def __init__(self, path: str, start: int):
        self.path, self.start = path, start
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
        position, rest = self.start + first * target.itemsize, target.view(np.uint8)
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
    """A shard as the manifest describes it; its files are read on demand."""

    folder: Path
    number: int
    entry: ShardEntry
    _places: dict[str, tuple[str, int]] = field(default_factory=dict, init=False)
    """Paths of files whose headers have been checked, and where their values begin."""

    def path(self, part: str) -> Path:
        """Return the path of one of the files."""
        return shard_path(self.folder, self.number, part)

    def _size(self, part: str) -> int:
        return self.entry.documents + 1 if part == "offsets" else self.entry.tokens

    def check(self) -> None:
        """Raise `StorageError` unless all files exist, with the right type and size."""
        for part in DTYPES:
            if part != "counts" or self.entry.counts is not None:
                with open_file(self.path(part)) as file:
                    _check_header(file, self.path(part), part, self._size(part))
        with open_file(self.path("records")):
            pass

    def open(self, part: str) -> "OpenFile":
        """Open one of the files for reading, after a check of its header at the first time."""
        if part not in self._places:
            path = self.path(part)
            with open_file(path) as file:
                self._places[part] = str(path), _check_header(file, path, part, self._size(part))
        return OpenFile(*self._places[part])

    def read(self, part: str, first: int, last: int) -> NDArray[Any]:
        """Return some values of a file."""
        values = np.empty(last - first, DTYPES[part])
        self.open(part).read_into(values, first)
        return values

    def offsets(self) -> NDArray[np.int64]:
        """Return where documents begin and where the last one ends, (documents + 1,)."""
        path = self.path("offsets")
        content = self._content("offsets")
        start = _check_header(BytesIO(content), path, "offsets", self._size("offsets"))
        offsets = np.frombuffer(content, DTYPES["offsets"], offset=start).astype(np.int64)
        if not rises_to(self.entry.tokens, offsets):
            raise StorageError(
                f"{path} is damaged: offsets must rise from 0 to {self.entry.tokens}."
            )
        return offsets

    def records(self) -> Records:
        """Return names, labels and tags of the documents, and keys if they were given."""
        content = self._content("records")
        try:
            records: Records = json.loads(content)
            if records.keys() - {"keys"} != {"names", "labels", "tags"}:
                raise ValueError(f"it has the entries {sorted(records)}")
            check_records(records, self.entry.documents)
            # One string for all documents with a label or tag.
            records["labels"] = [each and sys.intern(each) for each in records["labels"]]
            records["tags"] = [each and [*map(sys.intern, each)] for each in records["tags"]]
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise StorageError(f"{self.path('records')} is damaged: {error}.") from error
        return records

    def verify(self, n_words: int) -> None:
        """Raise `StorageError` unless every byte is as written and the contents are consistent."""
        self.check()
        for part in PARTS:
            expected = getattr(self.entry, part)
            if expected is not None:
                with open_file(self.path(part)) as file:
                    found = hashlib.file_digest(file, _new_digest).hexdigest()
                _check_digest(self.path(part), found, expected)
        self.records()
        offsets = self.offsets()
        for rows in split_blocks(np.diff(offsets), BLOCK_TOKENS):
            first, last = int(offsets[rows[0]]), int(offsets[rows[-1] + 1])
            ids_N, starts = self.read("ids", first, last), offsets[rows[0] : rows[-1] + 1] - first
            check_ids(self.path("ids"), ids_N, n_words)
            bounds = run_bounds(ids_N, starts)
            if (np.diff(ids_N[bounds]) < 0)[~np.isin(bounds[1:], starts)].any():
                raise StorageError(
                    f"{self.path('ids')} is damaged: ids must rise within a document."
                )
            if self.entry.counts is not None:
                self._verify_counts(self.read("counts", first, last), bounds)

    def _verify_counts(self, counts_N: NDArray[np.float64], bounds: NDArray[np.int64]) -> None:
        path = self.path("counts")
        check_counts(path, counts_N)
        repeats = np.diff(np.append(bounds, len(counts_N)))
        counts = counts_N[bounds]
        if (np.ceil(counts) != repeats).any() or (np.repeat(counts, repeats) != counts_N).any():
            raise StorageError(f"{path} is damaged: a count x must have ceil(x) tokens.")

    def _content(self, part: str) -> bytes:
        """Read a whole file, whose size is O(documents), and compare it with its checksum."""
        with open_file(self.path(part)) as file:
            content = file.read()
        _check_digest(self.path(part), checksum(content), getattr(self.entry, part))
        return content


def shard_path(folder: Path, number: int, part: str) -> Path:
    """Return the path of a file of a shard."""
    return folder / f"shard-{number:05d}{'.json' if part == 'records' else f'.{part}.npy'}"


def write_shard(
    folder: Path,
    number: int,
    ids_N: NDArray[np.int32],
    offsets_B1: NDArray[np.int64],
    counts_N: NDArray[np.float64] | None,
    records: Records,
) -> Shard:
    """Write the files of a new shard, replacing those of an interrupted append; return it.

    Parameters
    ----------
    ids_N : sorted within every document.
    counts_N : the count that each token is a part of; None if all counts are whole.
    """
    remove_shard(folder, number)
    content = json.dumps(records).encode()
    checksums: dict[str, Any] = {"counts": None}
    checksums["records"] = _write(shard_path(folder, number, "records"), [content])
    for part, array in (("ids", ids_N), ("offsets", offsets_B1), ("counts", counts_N)):
        if array is not None:
            data = np.ascontiguousarray(array, DTYPES[part])
            header = BytesIO()
            np.lib.format.write_array_header_1_0(
                header, np.lib.format.header_data_from_array_1_0(data)
            )
            path = shard_path(folder, number, part)
            checksums[part] = _write(path, [header.getvalue(), data.data])
    entry = ShardEntry(documents=len(offsets_B1) - 1, tokens=len(ids_N), **checksums)
    return Shard(folder, number, entry)


def remove_shard(folder: Path, number: int) -> None:
    """Remove all files of a shard that exist."""
    for part in PARTS:
        with suppress(OSError):
            shard_path(folder, number, part).unlink()


def _write(path: Path, pieces: Sequence[bytes | memoryview]) -> str:
    """Write a file and flush it to the disk; return its checksum."""
    digest = _new_digest()
    try:
        with open(path, "wb") as file:
            for piece in pieces:
                file.write(piece)
                digest.update(piece)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UnwritableFile(f"{path} cannot be written: {error.strerror}.") from error
    return digest.hexdigest()


def _new_digest() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=CHECKSUM_BYTES)


def open_file(path: Path) -> BufferedReader:
    """Open a regular file, or raise `StorageError`; opening a pipe would block."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise StorageError(f"{path} is not a regular file.")
        return open(path, "rb")
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error


def _check_header(file: IO[bytes], path: Path, part: str, size: int) -> int:
    """Return where the data of a .npy file begin, after a check of its header and its size."""
    start = file.read(len(MAGIC) + 2)
    length = int.from_bytes(start[len(MAGIC) :], "little")
    header = file.read(length)
    # Compared as text: nothing in a header is evaluated.
    expected = f"{{'descr':'{DTYPES[part]}','fortran_order':False,'shape':({size},),}}"
    if not start.startswith(MAGIC) or b"".join(header.split()) != expected.encode():
        raise StorageError(f"{path} is damaged: it must be a .npy array of {size} {DTYPES[part]}.")
    data_start = len(start) + length
    expected_bytes = data_start + size * np.dtype(DTYPES[part]).itemsize
    n_bytes = file.seek(0, os.SEEK_END)
    if n_bytes != expected_bytes:
        raise StorageError(f"{path} is damaged: it has {n_bytes} bytes, expected {expected_bytes}.")
    return data_start


def _check_digest(path: Path, found: str, expected: str) -> None:
    if found != expected:
        raise StorageError(f"{path} is damaged: its contents are not those that were written.")


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


def check_records(records: Records, n_documents: int) -> None:
    """Raise `ValueError` unless every document has one record of the right type."""
    for name, values in records.items():
        if not isinstance(values, list) or len(values) != n_documents:
            count = len(values) if isinstance(values, list) else repr(values)
            raise ValueError(f"{name} must be a list of {n_documents}, got {count}")
        for number, value in enumerate(values):
            if value is None:
                continue
            if name != "tags" and not isinstance(value, str):
                raise ValueError(f"{name} must be str or None, got {value!r} for document {number}")
            if name == "tags" and not (
                isinstance(value, list) and all(isinstance(tag, str) for tag in value)
            ):
                raise ValueError(
                    f"tags must be lists of str or None, got {value!r} for document {number}"
                )
