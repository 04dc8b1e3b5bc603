"""Segments of an index: files of photographs that never change once they are written.

A segment has a safetensors file of names, features and predictions, which is mapped into memory,
and a file of thumbnails, concatenated JPEG files. The header of the safetensors file follows from
the sizes in the manifest of the index, so that it is compared and never interpreted.
"""

import hashlib
import json
import mmap
import os
import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import rises_to
from supdocnade.errors import StorageError, UnwritableFile
from supdocnade.storage import Arrays

Int64s = NDArray[np.int64]
Stamp = tuple[int, int]
"""Size and modification time of a file, by which changed files are found."""

DIGEST_BYTES = 16
_CODES = {"<i8": "I64", "<f4": "F32", "<i4": "I32", "|u1": "U8"}
_CHUNK = 4096
"""Rows that are copied at once."""


@dataclass(frozen=True)
class Widths:
    """Numbers of topics, classes and tags of the model of an index."""

    topics: int
    classes: int
    tags: int


@dataclass(frozen=True)
class SegmentEntry:
    """Description of a segment in the manifest."""

    name: str
    rows: int
    name_bytes: int
    word_bytes: int
    digest: str
    deleted: str | None = None
    """Name of the file that lists the rows that are no longer in the index."""
    approximate: str | None = None
    """Digest of the inverted file for an approximate search, which large segments have."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Photograph:
    """A photograph to write to a segment."""

    folder: int
    """Number of its folder."""
    name: str
    """Path below the folder, with slashes."""
    words: str
    """Words by which the name is found, each after a space."""
    stamp: Stamp
    topics_H: NDArray[np.float32]
    proba_C: NDArray[np.float32]
    presence_A: NDArray[np.float32]
    picture: bytes


def _layout(entry: SegmentEntry, widths: Widths) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return type and shape of the arrays of a segment, the largest items first."""
    n = entry.rows
    return {
        "stamps": ("<i8", (n, 2)),
        "name_ends": ("<i8", (n,)),
        "word_ends": ("<i8", (n,)),
        "picture_ends": ("<i8", (n,)),
        "topics": ("<f4", (n, widths.topics)),
        "norms": ("<f4", (n,)),  # Squared lengths of the topic features.
        "proba": ("<f4", (n, widths.classes)),
        "presence": ("<f4", (widths.tags, n)),  # One tag is read more often than one photograph.
        "folders": ("<i4", (n,)),
        "picture_digests": ("|u1", (n, DIGEST_BYTES)),
        "names": ("|u1", (entry.name_bytes,)),
        "words": ("|u1", (entry.word_bytes,)),
    }


def _header(entry: SegmentEntry, widths: Widths) -> bytes:
    """Return the header of a safetensors file."""
    fields, start = {}, 0
    for name, (dtype, shape) in _layout(entry, widths).items():
        end = start + int(np.prod(shape)) * np.dtype(dtype).itemsize
        fields[name] = {"dtype": _CODES[dtype], "shape": shape, "data_offsets": (start, end)}
        start = end
    text = json.dumps(fields).encode()
    text += b" " * (-len(text) % 8)  # The arrays are aligned.
    return len(text).to_bytes(8, "little") + text


class Segment:
    """A segment that is open for reading; it may be removed meanwhile."""

    def __init__(self, folder: Path, entry: SegmentEntry, widths: Widths):
        self.entry, self.path = entry, segment_path(folder, entry.name)
        header, layout = _header(entry, widths), _layout(entry, widths)
        try:
            with open(self.path, "rb") as file:
                if file.read(len(header)) != header:
                    raise StorageError(f"{self.path} is damaged: its header is not as expected.")
                file.seek(0)
                if hashlib.file_digest(file, _new_digest).hexdigest() != entry.digest:
                    raise StorageError(f"{self.path} is damaged, or belongs to another index.")
                self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be read: {error.strerror or error}.") from error
        self.arrays: Arrays = {}
        start = len(header)
        for name, (dtype, shape) in layout.items():
            count = int(np.prod(shape))
            array = np.frombuffer(self._mapped, dtype, count, start).reshape(shape)
            self.arrays[name], start = array, start + array.nbytes
        self._pictures = PictureFile(self.path.with_suffix(".pictures"))
        if self._pictures.length != self.arrays["picture_ends"][-1]:
            raise StorageError(f"{self._pictures.path} is damaged: its length is wrong.")
        self._check_contents()

    def _check_contents(self) -> None:
        """Raise `StorageError` if a value would be wrong wherever it is used.

        The digest does not exclude that: whoever makes an index can compute it.
        """
        sizes = {
            "name_ends": self.entry.name_bytes,
            "word_ends": self.entry.word_bytes,
            "picture_ends": self._pictures.length,
        }
        for name, size in sizes.items():
            if not rises_to(size, np.append(0, self.arrays[name])):
                raise StorageError(f"{self.path} is damaged: {name} must rise to {size}.")
        for name in ("topics", "norms", "proba", "presence"):
            array = self.arrays[name]
            if array.size and not np.isfinite([array.min(), array.max()]).all():
                raise StorageError(f"{self.path} is damaged: {name} must be finite.")

    def __len__(self) -> int:
        """The number of rows, with those that are deleted."""
        return self.entry.rows

    def name(self, row: int) -> str:
        """Return the path of a photograph below its folder."""
        start, end = _bounds(self.arrays["name_ends"], row)
        content = self.arrays["names"][start:end].tobytes()
        try:
            return content.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise StorageError(f"{self.path} is damaged: a name is no text: {error}.") from error

    def keys(self) -> Iterator[tuple[int, str, Stamp]]:
        """Yield folder, name and stamp of all rows."""
        for first in range(0, len(self), _CHUNK):
            rows = slice(first, first + _CHUNK)
            folders, stamps = self.arrays["folders"][rows], self.arrays["stamps"][rows]
            pairs = zip(folders.tolist(), stamps.tolist(), strict=True)
            for row, (folder, (size, time)) in enumerate(pairs, start=first):
                yield folder, self.name(row), (size, time)

    def picture(self, row: int) -> bytes:
        """Return the thumbnail of a photograph, a JPEG file."""
        start, end = _bounds(self.arrays["picture_ends"], row)
        content = self._pictures.read(start, end - start)
        if _digest_picture(content) != self.arrays["picture_digests"][row].tobytes():
            folder = self.path.parent
            raise StorageError(
                f"{self._pictures.path} is damaged; remove {folder} and run supdocnade index again."
            )
        return content

    def rows_with_word(self, word: str) -> Int64s:
        """Return the rows in whose path a part begins with a word."""
        wanted = re.compile(re.escape(b" " + word.encode()))
        starts = [found.start() for found in wanted.finditer(self._words)]
        return np.unique(np.searchsorted(self.arrays["word_ends"], starts, "right"))

    @cached_property
    def _words(self) -> bytes:
        return self.arrays["words"].tobytes()


class PictureFile:
    """The thumbnails of a segment; the file stays open, so that it may be removed meanwhile."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self._file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
        weakref.finalize(self, os.close, self._file)
        self.length = os.fstat(self._file).st_size

    def read(self, start: int, length: int) -> bytes:
        """Return some bytes of the file; threads may read at the same time."""
        return os.pread(self._file, length, start)


def segment_path(folder: Path, name: str) -> Path:
    """Return the path of the arrays of a segment."""
    return folder / f"segment-{name}.safetensors"


def write_block(
    folder: Path, name: str, photographs: Sequence[Photograph], widths: Widths
) -> SegmentEntry:
    """Write photographs to a new segment."""
    columns: Arrays = {
        "stamps": np.array([each.stamp for each in photographs], np.int64),
        "topics": np.stack([each.topics_H for each in photographs]),
        "proba": np.stack([each.proba_C for each in photographs]),
        "presence": np.stack([each.presence_A for each in photographs], axis=1),
        "folders": np.array([each.folder for each in photographs], np.int32),
    }
    columns["norms"] = np.square(columns["topics"]).sum(axis=1)
    names = [each.name.encode("utf-8", "surrogatepass") for each in photographs]
    words = [each.words.encode("utf-8", "surrogatepass") for each in photographs]
    pictures = [each.picture for each in photographs]
    digests = b"".join(map(_digest_picture, pictures))
    columns["picture_digests"] = np.frombuffer(digests, np.uint8).reshape(-1, DIGEST_BYTES)
    for kind, texts in (("name", names), ("word", words), ("picture", pictures)):
        columns[f"{kind}_ends"] = np.cumsum([len(text) for text in texts], dtype=np.int64)
    columns["names"] = np.frombuffer(b"".join(names), np.uint8)
    columns["words"] = np.frombuffer(b"".join(words), np.uint8)
    entry = SegmentEntry(name, len(names), len(columns["names"]), len(columns["words"]), "")
    pieces = (columns[key] for key in _layout(entry, widths))
    return _write(folder, entry, widths, pieces, pictures)


def merge_segments(
    folder: Path, name: str, parts: Sequence[tuple[Segment, Int64s]], widths: Widths
) -> SegmentEntry:
    """Write some rows of several segments to a new one, piece by piece.

    The rows to keep of every segment are in rising order.
    """
    merge = _Merge(parts)
    sizes = {kind: int(merge.lengths(f"{kind}_ends").sum()) for kind in ("name", "word")}
    n_rows = sum(len(rows) for _, rows in parts)
    entry = SegmentEntry(name, n_rows, sizes["name"], sizes["word"], "")
    pieces = (piece for key in _layout(entry, widths) for piece in merge.pieces(key))
    pictures = (segment.picture(row) for segment, rows in parts for row in rows.tolist())
    return _write(folder, entry, widths, pieces, pictures)


class _Merge:
    """Some rows of several segments, one after the other."""

    def __init__(self, parts: Sequence[tuple[Segment, Int64s]]):
        self.parts = parts

    def lengths(self, key: str) -> Int64s:
        """Return the lengths of texts or pictures, given the name of the array of their ends."""
        return np.concatenate(
            [np.diff(segment.arrays[key], prepend=0)[rows] for segment, rows in self.parts]
        )

    def pieces(self, key: str) -> Iterator[NDArray[Any]]:
        """Yield the pieces of an array."""
        if key.endswith("_ends"):
            yield np.cumsum(self.lengths(key))
        elif key == "presence":
            for tag in range(len(self.parts[0][0].arrays[key])):
                for segment, rows in self.parts:
                    yield segment.arrays[key][tag][rows]
        else:
            for segment, rows in self.parts:
                for first in range(0, len(rows), _CHUNK):
                    yield _take(segment, key, rows[first : first + _CHUNK])


def _take(segment: Segment, key: str, rows: Int64s) -> NDArray[Any]:
    if key not in ("names", "words"):
        return segment.arrays[key][rows]
    ends = segment.arrays[f"{key[:-1]}_ends"]
    texts = [segment.arrays[key][slice(*_bounds(ends, row))] for row in rows.tolist()]
    return np.concatenate(texts)


def _write(
    folder: Path,
    entry: SegmentEntry,
    widths: Widths,
    pieces: Iterable[NDArray[Any]],
    pictures: Iterable[bytes],
) -> SegmentEntry:
    """Write the files of a segment; return its entry with the digest."""
    path = segment_path(folder, entry.name)
    contents = (np.ascontiguousarray(piece).tobytes() for piece in pieces)
    digest = _write_file(path, chain([_header(entry, widths)], contents))
    _write_file(path.with_suffix(".pictures"), pictures)
    return replace(entry, digest=digest)


def _write_file(path: Path, contents: Iterable[bytes]) -> str:
    """Write a file and flush it to the disk; return its digest."""
    digest = _new_digest()
    try:
        with open(path, "wb") as file:
            for content in contents:
                file.write(content)
                digest.update(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UnwritableFile(f"{path} cannot be written: {error.strerror or error}.") from error
    return digest.hexdigest()


def _bounds(ends_N: Int64s, row: int) -> tuple[int, int]:
    return int(ends_N[row - 1]) if row else 0, int(ends_N[row])


def digest_file(path: Path) -> str | None:
    """Return the digest of a file; None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, _new_digest).hexdigest()
    except OSError:
        return None


def _new_digest() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=DIGEST_BYTES)


def _digest_picture(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
