"""The files of one shard: token ids, where documents begin, and records of documents.

Arrays are .npy files of one dimension, which any program reads and the system can map into memory.
"""

import hashlib
import json
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.corpus.tokens import BLOCK, in_blocks
from supdocnade.errors import StorageError
from supdocnade.storage import write_atomically

# The manifest of a corpus: what its shards are, and the checksums of their files.
#
# It names no paths and no types: where a file lies and what is in it follows from the number of its
# shard, so nothing that stands in a manifest leads elsewhere.

FORMAT = 1
NAME = "manifest.json"

MAX_WORDS = 2**31 - 1
"""Ids are int32."""
MAX_TOKENS = 2**48
"""Of one shard; far more than fits on a disk, far less than overflows."""

CHECKSUM_BYTES = 16
PARTS = ("ids", "offsets", "records", "counts")
"""Files of a shard; the last is there where counts were fractions."""


@dataclass(frozen=True)
class ShardEntry:
    """What the manifest says about a shard."""

    documents: int
    tokens: int
    ids: str
    """Checksums of the files, in hexadecimal digits."""
    offsets: str
    records: str
    counts: str | None


@dataclass(frozen=True)
class Manifest:
    """What a manifest says."""

    n_words: int
    encoder: str | None
    shards: tuple[ShardEntry, ...] = ()


def checksum(content: bytes) -> str:
    """Return the checksum of a file's content."""
    return hashlib.blake2b(content, digest_size=CHECKSUM_BYTES).hexdigest()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of a folder, atomically."""
    write_atomically(folder / NAME, _encode({"format": FORMAT, **asdict(manifest)}))


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder; a damaged or foreign one raises `StorageError`."""
    path = folder / NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise StorageError(f"{folder} is no corpus: it has no {NAME}.") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        stored = json.loads(content)["corpus"]
        # Whoever changes a letter changes the checksum, or the letters that would be written.
        intact = isinstance(stored, dict) and content == _encode(stored)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StorageError(f"{path} is damaged, or no manifest of a corpus: {error}.") from error
    if not intact:
        raise StorageError(f"{path} is damaged: its contents are not those that were written.")
    if stored.get("format") != FORMAT:
        raise StorageError(
            f"{path} has format {stored.get('format')!r}, this version reads {FORMAT}."
        )
    try:
        return _build(stored)
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{path} is damaged: {error}.") from error


def _encode(stored: dict[str, Any]) -> bytes:
    text = json.dumps(stored, sort_keys=True)
    whole = {"checksum": checksum(text.encode()), "corpus": stored}
    return json.dumps(whole, sort_keys=True, indent=1).encode() + b"\n"


def _build(stored: dict[str, Any]) -> Manifest:
    """Return a manifest of which every value was checked."""
    if stored.keys() != {"format", "n_words", "encoder", "shards"}:
        raise ValueError(f"it has the entries {sorted(stored)}")
    encoder, shards = stored["encoder"], stored["shards"]
    if encoder is not None and not isinstance(encoder, str):
        raise ValueError(f"encoder must be a str or null, got {encoder!r}")
    if not isinstance(shards, list):
        raise ValueError(f"shards must be a list, got {shards!r}")
    n_words = _whole("n_words", stored["n_words"], 1, MAX_WORDS)
    return Manifest(n_words, encoder, tuple(_entry(number, e) for number, e in enumerate(shards)))


def _entry(number: int, given: Any) -> ShardEntry:
    if not isinstance(given, dict) or given.keys() != {"documents", "tokens", *PARTS}:
        raise ValueError(f"shard {number} is not described as shards are")
    for part in PARTS:
        text = given[part]
        missing = text is None and part == "counts"
        if not missing and not (isinstance(text, str) and len(text) == 2 * CHECKSUM_BYTES):
            raise ValueError(f"the checksum of shard {number}'s {part} is {text!r}")
    _whole(f"documents of shard {number}", given["documents"], 1, MAX_TOKENS)
    _whole(f"tokens of shard {number}", given["tokens"], 0, MAX_TOKENS)
    return ShardEntry(**given)


def _whole(name: str, value: object, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, got {value!r}")
    return value


TYPES = {"ids": "<i4", "offsets": "<i8", "counts": "<f8"}

MAGIC = b"\x93NUMPY\x01\x00"
"""A .npy file of version 1; after it two bytes give the length of the header."""


@dataclass(frozen=True)
class Records:
    """What is known of the documents of a shard apart from their words."""

    names: list[str | None]
    labels: list[str | None]
    tags: list[list[str] | None]


@dataclass(frozen=True)
class ShardContent:
    """What is written into a shard."""

    ids_N: NDArray[np.int32]
    """Sorted within every document."""
    offsets_B1: NDArray[np.int64]
    counts_N: NDArray[np.float64] | None
    """The count that a token is a part of; None: all counts are whole."""
    records: Records


@dataclass(frozen=True, eq=False)
class Shard:
    """A shard as the manifest describes it. Nothing is read before it is asked for."""

    folder: Path
    number: int
    entry: ShardEntry

    def path(self, part: str) -> Path:
        """Return the path of one of the files."""
        return shard_path(self.folder, self.number, part)

    def _size(self, part: str) -> int:
        return self.entry.documents + 1 if part == "offsets" else self.entry.tokens

    def check(self) -> None:
        """Raise `StorageError` unless all files are there, of the right type and size."""
        for part in TYPES:
            if part != "counts" or self.entry.counts is not None:
                with open_file(self.path(part)) as file:
                    _check_header(file, self.path(part), part, self._size(part))
        with open_file(self.path("records")):
            pass

    def map(self, part: str) -> NDArray[Any]:
        """Return an array that stays on disk until it is looked at."""
        path, size = self.path(part), self._size(part)
        with open_file(path) as file:
            start = _check_header(file, path, part, size)
            if size == 0:  # Nothing cannot be mapped.
                return np.empty(0, TYPES[part])
            try:
                mapped = np.memmap(file, TYPES[part], "r", start, (size,))
            except (OSError, ValueError) as error:
                raise StorageError(f"{path} cannot be read: {error}.") from error
        return mapped.view(np.ndarray)

    def offsets(self) -> NDArray[np.int64]:
        """Return where documents begin and the last one ends, (documents + 1,)."""
        path = self.path("offsets")
        content = self._content("offsets")
        start = _check_header(BytesIO(content), path, "offsets", self._size("offsets"))
        offsets = np.frombuffer(content, TYPES["offsets"], offset=start).astype(np.int64)
        if offsets[0] != 0 or offsets[-1] != self.entry.tokens or (np.diff(offsets) < 0).any():
            raise StorageError(
                f"{path} is damaged: offsets must rise from 0 to {self.entry.tokens}."
            )
        return offsets

    def records(self) -> Records:
        """Return what is known of the documents."""
        content = self._content("records")
        try:
            stored = json.loads(content)
            if stored.keys() != {"names", "labels", "tags"}:
                raise ValueError(f"it has the entries {sorted(stored)}")
            records = Records(**stored)
            check_records(records, self.entry.documents)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise StorageError(f"{self.path('records')} is damaged: {error}.") from error
        return records

    def verify(self, n_words: int) -> None:
        """Raise `StorageError` unless every byte is what was written, and makes sense."""
        self.check()
        for part in PARTS:
            expected = getattr(self.entry, part)
            if expected is not None:
                with open_file(self.path(part)) as file:
                    found = hashlib.file_digest(file, _new_digest).hexdigest()
                _check_digest(self.path(part), found, expected)
        self.records()
        offsets = self.offsets()
        ids = self.map("ids")
        counts = self.map("counts") if self.entry.counts is not None else None
        for rows in in_blocks(np.diff(offsets), BLOCK):
            first, last = offsets[rows[0]], offsets[rows[-1] + 1]
            ids_N, starts = ids[first:last], offsets[rows[0] : rows[-1] + 1] - first
            check_ids(self.path("ids"), ids_N, n_words)
            bounds = run_bounds(ids_N, starts)
            if (np.diff(ids_N[bounds]) < 0)[~np.isin(bounds[1:], starts)].any():
                raise StorageError(
                    f"{self.path('ids')} is damaged: ids must rise within a document."
                )
            if counts is not None:
                self._verify_counts(counts[first:last], bounds)

    def _verify_counts(self, counts_N: NDArray[np.float64], bounds: NDArray[np.int64]) -> None:
        path = self.path("counts")
        check_counts(path, counts_N)
        repeats = np.diff(np.append(bounds, len(counts_N)))
        of_run = counts_N[bounds]
        if (np.ceil(of_run) != repeats).any() or (np.repeat(of_run, repeats) != counts_N).any():
            raise StorageError(f"{path} is damaged: a count x must have ceil(x) tokens.")

    def _content(self, part: str) -> bytes:
        """Read a file of O(documents) whole, and compare it with its checksum."""
        with open_file(self.path(part)) as file:
            content = file.read()
        _check_digest(self.path(part), checksum(content), getattr(self.entry, part))
        return content


def shard_path(folder: Path, number: int, part: str) -> Path:
    """Return the path of a file of a shard."""
    return folder / f"shard-{number:05d}{'.json' if part == 'records' else f'.{part}.npy'}"


def write_shard(folder: Path, number: int, content: ShardContent) -> Shard:
    """Write the files of a new shard, whatever an unfinished one has left; return it."""
    remove_shard(folder, number)
    records = json.dumps(vars(content.records)).encode()
    arrays = {"ids": content.ids_N, "offsets": content.offsets_B1, "counts": content.counts_N}
    sums = {"records": _write(shard_path(folder, number, "records"), [records]), "counts": None}
    for part, array in arrays.items():
        if array is not None:
            given = np.ascontiguousarray(array, TYPES[part])
            header = BytesIO()
            np.lib.format.write_array_header_1_0(
                header, np.lib.format.header_data_from_array_1_0(given)
            )
            path = shard_path(folder, number, part)
            sums[part] = _write(path, [header.getvalue(), given.data])
    n_documents, n_tokens = len(content.offsets_B1) - 1, len(content.ids_N)
    return Shard(folder, number, ShardEntry(documents=n_documents, tokens=n_tokens, **sums))  # type: ignore[arg-type]


def remove_shard(folder: Path, number: int) -> None:
    """Remove what there is of a shard."""
    for part in PARTS:
        with suppress(OSError):
            shard_path(folder, number, part).unlink()


def _write(path: Path, pieces: Sequence[bytes | memoryview]) -> str:
    """Write a file through to the disk; return its checksum."""
    digest = _new_digest()
    try:
        with open(path, "wb") as file:
            for piece in pieces:
                file.write(piece)
                digest.update(piece)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from error
    return digest.hexdigest()


def _new_digest() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=CHECKSUM_BYTES)


def open_file(path: Path) -> BufferedReader:
    """Open a plain file, or raise `StorageError`; opening a pipe would wait for ever."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise StorageError(f"{path} is no plain file.")
        return open(path, "rb")
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error


def _check_header(file: IO[bytes], path: Path, part: str, size: int) -> int:
    """Return where the data of a .npy file begin, if its header and its size are as expected."""
    start = file.read(len(MAGIC) + 2)
    length = int.from_bytes(start[len(MAGIC) :], "little")
    header = file.read(length)
    # Compared as text: nothing that stands in a header is evaluated.
    wanted = f"{{'descr':'{TYPES[part]}','fortran_order':False,'shape':({size},),}}"
    if not start.startswith(MAGIC) or b"".join(header.split()) != wanted.encode():
        raise StorageError(f"{path} is damaged: it must be a .npy array of {size} {TYPES[part]}.")
    data = len(start) + length
    expected = data + size * np.dtype(TYPES[part]).itemsize
    found = file.seek(0, os.SEEK_END)
    if found != expected:
        raise StorageError(f"{path} is damaged: it has {found} bytes, expected {expected}.")
    return data


def _check_digest(path: Path, found: str, expected: str) -> None:
    if found != expected:
        raise StorageError(f"{path} is damaged: its contents are not those that were written.")


def check_ids(path: Path, ids_N: NDArray[np.int32], n_words: int) -> None:
    """Raise `StorageError` if there is an id that no word has."""
    if ids_N.size and not (ids_N.min() >= 0 and ids_N.max() < n_words):
        raise StorageError(
            f"{path} is damaged: ids must lie in 0 .. {n_words - 1}, "
            f"got {ids_N.min()} .. {ids_N.max()}."
        )


def check_counts(path: Path, counts_N: NDArray[np.float64]) -> None:
    """Raise `StorageError` if there is a count that no word has."""
    if not ((counts_N > 0) & np.isfinite(counts_N)).all():
        raise StorageError(f"{path} is damaged: counts must be finite and above 0.")


def run_bounds(ids_N: NDArray[np.int32], starts_B: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the runs of one word begin, in documents that begin at the given places."""
    begins_N = np.zeros(len(ids_N), np.bool_)
    begins_N[1:] = ids_N[1:] != ids_N[:-1]
    begins_N[starts_B[starts_B < len(ids_N)]] = True
    return np.flatnonzero(begins_N)


def check_records(records: Records, n_documents: int) -> None:
    """Raise `ValueError` unless there is one record of the right kind for every document."""
    for name, values in vars(records).items():
        if not isinstance(values, list) or len(values) != n_documents:
            count = len(values) if isinstance(values, list) else repr(values)
            raise ValueError(f"{name} must be a list of {n_documents}, got {count}")
        for number, value in enumerate(values):
            if value is None:
                continue
            if name != "tags" and not isinstance(value, str):
                raise ValueError(f"{name} must be str or None, got {value!r} of document {number}")
            if name == "tags" and not (
                isinstance(value, list) and all(isinstance(tag, str) for tag in value)
            ):
                raise ValueError(
                    f"tags must be lists of str or None, got {value!r} of document {number}"
                )
