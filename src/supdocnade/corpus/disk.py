"""A corpus on disk: shards of tokens in one folder, appended one at a time.

Token ids are read in part, so they are a plain file of little-endian numbers. Everything else that
is known of the documents of a shard is in its record, which is written last: a shard exists if its
record does. `docs/decisions/0009-many-photographs.md` has the reasons for this form.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import check_count
from supdocnade.corpus.tokens import BLOCK_TOKENS, MemoryTokens, canonical_counts, split_blocks
from supdocnade.errors import InvalidArgument, StorageError, UnwritableFile
from supdocnade.schema import array, digest, from_file, load, load_arrays, rises_to, save, stored
from supdocnade.storage import LOCK, lock_folder, temporary_target, write_atomically
from supdocnade.text import open_file

KIND, FILE = "Corpus", "corpus.safetensors"
SHARD = "CorpusShard"
MAX_VOCABULARY = 2**31 - 1
"""Word ids are int32."""
ID = np.dtype("<i4")

READ_BYTES = 2**20
"""That `Corpus.verify` reads at a time."""


@dataclass(frozen=True, kw_only=True)
class CorpusRecord:
    """The file of a corpus beside the files of its shards."""

    n_words: int = stored(least=1, most=MAX_VOCABULARY)
    encoder: str | None
    """Fingerprint of the encoder that made the words, if it was given."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardRecord:
    """What is known of the documents of a shard, and the checksum of its ids."""

    ids: str
    offsets_B1: NDArray[np.int64] = array("O", np.int64)
    """Where documents begin and where the last one ends, (documents + 1,)."""
    names: list[str | None] = stored(axis="B")
    labels: list[str | None] = stored(axis="B")
    tags: list[list[str] | None] = stored(axis="B")
    keys: list[str | None] = stored(axis="B")

    def __post_init__(self) -> None:
        n_documents = len(self.offsets_B1) - 1
        if len(self.names) != n_documents or not self.names:
            raise InvalidArgument(
                f"names must be of {n_documents} documents, got {len(self.names)}"
            )
        if not rises_to(int(self.offsets_B1[-1]), self.offsets_B1):
            raise InvalidArgument("offsets must rise from 0")


class Shard:
    """A shard of a corpus; its ids, names, labels and tags are read on demand."""

    def __init__(self, folder: Path, number: int):
        self.file, self.path = (shard_path(folder, number, part) for part in ("safetensors", "ids"))
        self.digest, record = self._read()
        self.offsets_B1, self.checksum = record.offsets_B1, record.ids
        with open_file(self.path) as file:
            self._check(file)

    def _read(self) -> tuple[str, ShardRecord]:
        arrays, description = load_arrays(self.file)
        record = from_file(SHARD, ShardRecord, arrays, description, str(self.file))
        return digest(arrays, json.dumps(description)), record

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.offsets_B1) - 1

    @property
    def n_tokens(self) -> int:
        """The number of tokens of all documents."""
        return int(self.offsets_B1[-1])

    def record(self) -> ShardRecord:
        """Return the names, labels, tags and keys of the documents."""
        found, record = self._read()
        if found != self.digest:
            raise StorageError(f"{self.file} has changed.")
        return record

    def read_into(self, target: NDArray[np.int32], first: int) -> None:
        """Fill an array with the ids from the given one on."""
        with open_file(self.path) as file:
            self._check(file)
            file.seek(first * ID.itemsize)
            n_read = file.readinto(target.view(np.uint8).data)
        if n_read < target.nbytes:
            raise StorageError(f"{self.path} is damaged: it was truncated.")

    def _check(self, file: BufferedReader) -> None:
        """Raise `StorageError` unless the file of the ids has the right size."""
        found, expected = os.fstat(file.fileno()).st_size, self.n_tokens * ID.itemsize
        if found != expected:
            raise StorageError(f"{self.path} is damaged: it has {found} bytes, not {expected}.")

    def verify(self) -> None:
        """Raise `StorageError` unless every byte is as written."""
        self.record()
        checksum = hashlib.blake2b(digest_size=16)
        with open_file(self.path) as file:
            while part := file.read(READ_BYTES):
                checksum.update(part)
        if checksum.hexdigest() != self.checksum:
            raise StorageError(
                f"{self.path} is damaged: its contents are not those that were written."
            )


def shard_path(folder: Path, number: int, part: str = "safetensors") -> Path:
    """Return the path of a file of a shard, by default of its record."""
    return folder / f"shard-{number:05d}.{part}"


def _load_shards(folder: Path) -> list[Shard]:
    """Return the shards in a folder; one that is missing raises `StorageError`."""
    n_ids = len([*folder.glob("shard-*.ids")])  # First: other processes may append meanwhile.
    names = {path.name for path in folder.glob("shard-*.safetensors")}
    for number in range(len(names)):
        if (name := shard_path(folder, number).name) not in names:
            raise StorageError(f"{folder} is damaged: it lacks {name}, one of {len(names)} shards.")
    # A kill leaves the ids of one shard without a record, never of two.
    if n_ids > len(names) + 1:
        raise StorageError(f"{folder} is damaged: it lacks records of {n_ids} shards.")
    return [Shard(folder, number) for number in range(len(names))]


def _run_bounds(ids_N: NDArray[np.int32], starts_B: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where runs of equal ids begin, given the starts of the documents."""
    is_start_N = np.zeros(len(ids_N), np.bool_)
    is_start_N[1:] = ids_N[1:] != ids_N[:-1]
    is_start_N[starts_B[starts_B < len(ids_N)]] = True
    return np.flatnonzero(is_start_N)


def is_corpus(folder: Path) -> bool:
    """Return whether a folder holds a corpus."""
    return (folder / FILE).exists()


class Corpus:
    """Documents in a folder, which need not fit into memory.

    Use `Corpus.create` or `Corpus.open`. Estimators accept it wherever they accept a count matrix,
    and read a bounded part of it at a time.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> corpus = Corpus.create(folder.name, n_words=3)
    >>> corpus.append(np.array([[2, 0, 1], [0, 0, 1]]), labels=["sea", None])
    >>> corpus.append(np.array([[1, 0, 2]]))
    >>> corpus.shape, corpus.n_tokens, corpus.labels
    ((3, 3), 7, ['sea', None, None])
    >>> Corpus.open(folder.name).counts([2, 0]).toarray().tolist()
    [[1.0, 0.0, 2.0], [2.0, 0.0, 1.0]]
    >>> folder.cleanup()
    """

    def __init__(self, folder: Path, record: CorpusRecord, shards: Sequence[Shard] = ()):
        self.folder, self._record = folder, record
        self.shards = list(shards)

    @classmethod
    def create(cls, folder: str | Path, *, n_words: int, encoder: str | None = None) -> "Corpus":
        """Create an empty corpus.

        Parameters
        ----------
        folder : must be empty or not exist.
        n_words : size of the vocabulary.
        encoder : fingerprint of the encoder that makes the words, which `open` compares.
        """
        path = Path(folder)
        if check_count("n_words", n_words, least=1) > MAX_VOCABULARY:
            raise InvalidArgument(f"n_words must be at most {MAX_VOCABULARY}, got {n_words}.")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnwritableFile(f"{path} cannot be written: {error.strerror}.") from error
        if is_corpus(path):
            raise StorageError(f"{path} holds a corpus already; open it, or use another folder.")
        # An interrupted creation may have left these two files.
        found = {temporary_target(entry.name) for entry in path.iterdir()} - {LOCK, FILE}
        if found:
            raise StorageError(f"{path} must be empty for a new corpus, got {min(found)!r} in it.")
        record = CorpusRecord(n_words=int(n_words), encoder=encoder)
        with lock_folder(path):
            if is_corpus(path):
                raise StorageError(f"{path} was made a corpus by another process.")
            save(path / FILE, KIND, record)
        return cls(path, record)

    @classmethod
    def open(cls, folder: str | Path) -> "Corpus":
        """Open an existing corpus; a damaged or foreign one raises `StorageError`.

        Records, and the sizes of all files, are checked at once. Ids are checked for their range
        and order when they are read, and compared with their checksums by `verify`.
        """
        path = Path(folder)
        if not is_corpus(path):
            raise StorageError(f"{path} is not a corpus: it has no {FILE}.")
        record = load(path / FILE, KIND, CorpusRecord)
        return cls(path, record, _load_shards(path))

    def verify(self) -> None:
        """Read everything; raise `StorageError` unless every byte is as written."""
        for shard in self.shards:
            shard.verify()

    def append(
        self,
        documents: Any,
        *,
        names: Sequence[str | None] | None = None,
        labels: Sequence[str | None] | None = None,
        tags: Sequence[Sequence[str] | None] | None = None,
        keys: Sequence[str | None] | None = None,
    ) -> None:
        """Append documents as one shard: all of them, or none if it fails or is killed.

        Parameters
        ----------
        documents : (documents, words) sparse or dense counts, whole and not negative.
        names : names of the documents, None where unknown.
        labels : their classes, None where unknown.
        tags : their annotations, None where unknown.
        keys : digests that are equal for copies of a document, None where unknown.
        """
        matrix = canonical_counts("documents", documents)
        if matrix.shape[1] != self.n_words:
            raise InvalidArgument(
                f"documents must have {self.n_words} columns, got {matrix.shape[1]}."
            )
        if not matrix.shape[0]:
            raise InvalidArgument("documents must be at least one, got none.")
        tokens = MemoryTokens.from_counts("documents", matrix)
        if tokens.weighted:
            raise InvalidArgument("documents of a corpus must have whole counts, got fractions.")
        given = {"names": names, "labels": labels, "tags": tags, "keys": keys}
        unknown = [None] * matrix.shape[0]
        records: dict[str, Any] = {
            name: unknown if values is None else values for name, values in given.items()
        }
        number, content = len(self.shards), tokens.ids_N.astype(ID, copy=False).tobytes()
        path, ids_path = (shard_path(self.folder, number, p) for p in ("safetensors", "ids"))
        checksum = hashlib.blake2b(content, digest_size=16).hexdigest()
        record = ShardRecord(ids=checksum, offsets_B1=tokens.offsets_B1, **records)
        with lock_folder(self.folder):
            if path.exists():
                raise StorageError(
                    f"{self.folder} has changed since it was opened; open it again to append."
                )
            try:
                write_atomically(ids_path, content)
                save(path, SHARD, record)
            except BaseException:
                if not path.exists():
                    with suppress(OSError):
                        ids_path.unlink()
                raise
            self.shards.append(Shard(self.folder, number))
        self.__dict__.pop("_offsets", None)

    def __len__(self) -> int:
        """Return the number of documents."""
        return sum(map(len, self.shards))

    def __repr__(self) -> str:
        return f"Corpus({str(self.folder)!r}: {len(self)} documents over {self.n_words} words)"

    def __reduce__(self) -> tuple[Any, ...]:
        return Corpus, (self.folder, self._record, tuple(self.shards))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the count matrix: documents, words."""
        return len(self), self.n_words

    @property
    def n_words(self) -> int:
        """Size of the vocabulary."""
        return self._record.n_words

    @property
    def n_tokens(self) -> int:
        """Number of tokens of all documents."""
        return sum(shard.n_tokens for shard in self.shards)

    @property
    def encoder(self) -> str | None:
        """Fingerprint of the encoder that made the words, if it was given."""
        return self._record.encoder

    @property
    def names(self) -> list[str | None]:
        """Names of the documents, None where unknown."""
        return [name for record in self.records() for name in record.names]

    @property
    def labels(self) -> list[str | None]:
        """Classes of the documents, None where unknown."""
        return [label for record in self.records() for label in record.labels]

    @property
    def tags(self) -> list[list[str] | None]:
        """Annotations of the documents, None where unknown."""
        return [tags for record in self.records() for tags in record.tags]

    @property
    def keys(self) -> list[str | None]:
        """Digests that are equal for copies of a document, None where unknown."""
        return [key for record in self.records() for key in record.keys]

    def records(self) -> Iterator[ShardRecord]:
        """Return an iterator over what is known of the documents, shard by shard."""
        return (shard.record() for shard in self.shards)

    @property
    def length_B(self) -> NDArray[np.int64]:
        """Number of tokens of every document."""
        return self._offsets[0]

    def fingerprint(self) -> str:
        """Return a digest of the vocabulary size and of the shards in their order."""
        digests = [self.n_words, *(shard.digest for shard in self.shards)]
        return hashlib.blake2b(repr(digests).encode(), digest_size=16).hexdigest()

    def counts(self, rows: Any = None) -> sparse.csr_array:
        """Return counts as a matrix, (chosen documents, words).

        Parameters
        ----------
        rows : document numbers, a mask or a slice; None takes all documents.
        """
        numbers = np.arange(len(self))
        if rows is not None:
            try:
                numbers = np.atleast_1d(numbers[rows])
            except IndexError as error:
                raise InvalidArgument(
                    f"rows must be numbers of {len(self)} documents, a mask or a slice: {error}."
                ) from error
        return self._matrix(numbers)

    def blocks(self) -> Iterator[sparse.csr_array]:
        """Return an iterator over the counts of all documents, some documents at a time."""
        return (self._matrix(rows_B) for rows_B in split_blocks(self.length_B, BLOCK_TOKENS))

    def _matrix(self, rows_B: NDArray[np.int64]) -> sparse.csr_array:
        ids_N = self.read_tokens(rows_B)
        length_B = self.length_B[rows_B]
        ends_B = np.cumsum(length_B)
        bounds = _run_bounds(ids_N, ends_B - length_B)
        data = np.diff(np.append(bounds, len(ids_N))).astype(np.float64)
        indptr = np.searchsorted(bounds, np.concatenate([[0], ends_B]))
        matrix = sparse.csr_array((data, ids_N[bounds], indptr), shape=(len(rows_B), self.n_words))
        if not matrix.has_sorted_indices:
            raise StorageError(f"{self.folder} is damaged: ids must rise within a document.")
        return matrix

    def read_tokens(self, rows_B: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the word ids of documents, one document after the other, sorted within each."""
        all_lengths, all_starts, first_S = self._offsets
        length_B, start_B = all_lengths[rows_B], all_starts[rows_B]
        shard_B = np.searchsorted(first_S, rows_B, "right") - 1
        ends_B = np.cumsum(length_B)
        ids_N = np.empty(int(length_B.sum()), np.int32)
        if not len(ids_N):
            return ids_N
        # Consecutive documents are read at once, in the order of the files.
        cuts = np.flatnonzero((np.diff(rows_B) != 1) | (np.diff(shard_B) != 0)) + 1
        first_R, last_R = np.append(0, cuts), np.append(cuts, len(rows_B)) - 1
        columns = shard_B[first_R], start_B[first_R], (ends_B - length_B)[first_R], ends_B[last_R]
        for number, source, first, last in sorted(np.stack(columns, axis=1).tolist()):
            self.shards[number].read_into(ids_N[first:last], source)
        if not (ids_N.min() >= 0 and ids_N.max() < self.n_words):
            raise StorageError(
                f"{self.folder} is damaged: ids must lie in 0 .. {self.n_words - 1}, "
                f"got {ids_N.min()} .. {ids_N.max()}."
            )
        return ids_N

    @cached_property
    def _offsets(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Length and first token of every document, and the first document of every shard."""
        offsets = [shard.offsets_B1 for shard in self.shards]
        none = np.empty(0, np.int64)
        return (
            np.concatenate([none, *(np.diff(each) for each in offsets)]),
            np.concatenate([none, *(each[:-1] for each in offsets)]),
            np.cumsum([0, *map(len, self.shards)])[:-1],
        )
