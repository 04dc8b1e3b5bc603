"""A corpus on disk: shards of tokens in one folder, appended one at a time.

`docs/decisions/0009-corpora-on-disk.md` describes the files and says why.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from supdocnade.checks import check_count
from supdocnade.corpus.disk_files import (
    MAX_WORDS,
    NAME,
    Manifest,
    Records,
    Shard,
    ShardContent,
    check_counts,
    check_ids,
    check_records,
    checksum,
    read_manifest,
    remove_shard,
    run_bounds,
    write_manifest,
    write_shard,
)
from supdocnade.corpus.tokens import canonical_counts, in_blocks, repeats_of
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.partial_folder import LOCK, lock_folder

# What users append to a corpus, checked and in the form in which it is stored.


def shard_content(documents: Any, n_words: int, records: Mapping[str, Any]) -> ShardContent:
    """Return what a shard is to hold.

    Parameters
    ----------
    documents : a matrix of counts, or a list of arrays of word ids.
    n_words : width of the vocabulary.
    records : names, labels and tags; None where none are known.
    """
    if isinstance(documents, list | tuple):
        ids_N, offsets_B1 = _from_ids(documents, n_words)
        counts_N = None
    else:
        ids_N, offsets_B1, counts_N = _from_matrix(documents, n_words)
    n_documents = len(offsets_B1) - 1
    if n_documents == 0:
        raise InvalidArgument("documents must be at least one, got none.")
    lists: dict[str, Any] = {
        name: [None] * n_documents if given is None else _plain(name, given)
        for name, given in records.items()
    }
    kept = Records(**lists)
    try:
        check_records(kept, n_documents)
    except ValueError as error:
        raise InvalidArgument(f"{error}.") from error
    return ShardContent(ids_N, offsets_B1, counts_N, kept)


def _plain(name: str, given: Any) -> list[Any]:
    """Return a list of what JSON knows, of any sequence that can be one."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidArgument(f"{name} must be a list, got {given!r}.")
    values = [str(value) if isinstance(value, str) else value for value in given]
    if name != "tags":
        return values
    # Whatever else stands there is refused with its place.
    kinds = (tuple, np.ndarray)
    return [list(value) if isinstance(value, kinds) else value for value in values]


def _from_matrix(
    given: Any, n_words: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float64] | None]:
    matrix = canonical_counts("documents", given)
    if matrix.shape[1] != n_words:
        raise InvalidArgument(f"documents must have {n_words} columns, got {matrix.shape[1]}.")
    repeats, share = repeats_of("documents", matrix.data)
    ends = np.concatenate([[0], np.cumsum(repeats)])
    ids_N = np.repeat(matrix.indices.astype(np.int32), repeats)
    counts_N = None if share is None else np.repeat(matrix.data, repeats)
    return ids_N, ends[matrix.indptr], counts_N


def _from_ids(
    documents: Sequence[Any], n_words: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    parts = [np.empty(0, np.int32)]
    for number, ids in enumerate(documents):
        if not isinstance(ids, np.ndarray) or ids.ndim != 1:
            what = f"{ids.ndim} dimensions" if isinstance(ids, np.ndarray) else type(ids).__name__
            raise InvalidArgument(
                f"documents in a list must be arrays of word ids, got {what} for number {number}."
            )
        if ids.size and ids.dtype.kind not in "iu":
            raise InvalidArgument(
                f"documents in a list must be integers, got {ids.dtype} for number {number}."
            )
        if ids.size and not (ids.min() >= 0 and ids.max() < n_words):
            raise InvalidArgument(
                f"documents must have word ids in 0 .. {n_words - 1}, "
                f"got {ids.min()} .. {ids.max()} for number {number}."
            )
        parts.append(np.sort(ids).astype(np.int32))
    return np.concatenate(parts), np.cumsum([0, *map(len, parts[1:])])


OPEN_SHARDS = 32
"""Shards whose files are kept open; each takes a file handle or two."""

BLOCK = 2**18
"""Tokens of a block of counts, by default."""


class _Places(NamedTuple):
    """Where the documents of a corpus are."""

    length_B: NDArray[np.int64]
    start_B: NDArray[np.int64]
    """First token of a document within its shard."""
    first_S: NDArray[np.int64]
    """First document of every shard."""


class Corpus:
    """Documents in a folder, which need not fit into memory.

    Made by `Corpus.create` and `Corpus.open`. Estimators take it wherever they take a matrix of
    counts; what they read of it at a time is bounded.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> corpus = Corpus.create(folder.name, n_words=3)
    >>> corpus.append(np.array([[2, 0, 1], [0, 0, 1]]), labels=["sea", None])
    >>> corpus.append([np.array([2, 0, 2])])
    >>> corpus.shape, corpus.n_tokens, corpus.labels
    ((3, 3), 7, ['sea', None, None])
    >>> Corpus.open(folder.name).counts([2, 0]).toarray().tolist()
    [[1.0, 0.0, 2.0], [2.0, 0.0, 1.0]]
    >>> folder.cleanup()
    """

    def __init__(self, folder: Path, manifest: Manifest):
        self.folder = folder
        self._manifest = manifest
        self.shards = tuple(Shard(folder, n, entry) for n, entry in enumerate(manifest.shards))
        self._maps = lru_cache(OPEN_SHARDS)(_map_shard)

    @classmethod
    def create(cls, folder: str | Path, *, n_words: int, encoder: str | None = None) -> "Corpus":
        """Make an empty corpus.

        Parameters
        ----------
        folder : where; it must be empty, or not there yet.
        n_words : width of the vocabulary.
        encoder : fingerprint of what makes the words, which `open` compares.
        """
        path = Path(folder)
        if check_count("n_words", n_words, least=1) > MAX_WORDS:
            raise InvalidArgument(f"n_words must be at most {MAX_WORDS}, got {n_words}.")
        if encoder is not None and not isinstance(encoder, str):
            raise InvalidArgument(f"encoder must be a str or None, got {encoder!r}.")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {error.strerror}.") from error
        if (path / NAME).exists():
            raise StorageError(f"{path} holds a corpus already; open it, or use another folder.")
        # A creation that was killed may have left the other two.
        found = {entry.name for entry in path.iterdir()} - {LOCK, f".{NAME}.partial"}
        if found:
            raise StorageError(f"{path} must be empty for a new corpus, it holds {min(found)!r}.")
        manifest = Manifest(int(n_words), encoder)
        with lock_folder(path):
            if (path / NAME).exists():
                raise StorageError(f"{path} was made a corpus by another process.")
            write_manifest(path, manifest)
        return cls(path, manifest)

    @classmethod
    def open(
        cls, folder: str | Path, *, encoder: str | None = None, verify: bool = False
    ) -> "Corpus":
        """Return a corpus that is there; a damaged or foreign one raises `StorageError`.

        The manifest, and types and sizes of all files are checked. Where documents begin and what
        they are called is compared with its checksum when it is read; ids are looked at when they
        are read, and compared with their checksums by `verify`.

        Parameters
        ----------
        folder : of the corpus.
        encoder : the fingerprint that it must have been made with; None: any.
        verify : read everything and compare it with the checksums.
        """
        path = Path(folder)
        manifest = read_manifest(path)
        if encoder is not None and encoder != manifest.encoder:
            raise StorageError(
                f"{path} was made with encoder {manifest.encoder!r}, but encoder is {encoder!r}."
            )
        corpus = cls(path, manifest)
        for shard in corpus.shards:
            shard.check()
        if verify:
            corpus.verify()
        return corpus

    def verify(self) -> None:
        """Read everything; raise `StorageError` unless it is what was written, and makes sense."""
        for shard in self.shards:
            shard.verify(self.n_words)

    def append(
        self,
        documents: Any,
        *,
        names: Sequence[str | None] | None = None,
        labels: Sequence[str | None] | None = None,
        tags: Sequence[Sequence[str] | None] | None = None,
    ) -> None:
        """Add documents as one more shard: all of them, or none if it fails or is killed.

        Parameters
        ----------
        documents : (documents, words) sparse or dense counts, finite and not negative; or a list
            of arrays of word ids, one array for every document, in any order.
        names : what the documents are called; None where not known.
        labels : their classes; None where not known.
        tags : their annotations; None where not known.
        """
        content = shard_content(
            documents, self.n_words, {"names": names, "labels": labels, "tags": tags}
        )
        number = len(self.shards)
        with lock_folder(self.folder):
            if read_manifest(self.folder) != self._manifest:
                raise StorageError(
                    f"{self.folder} has changed since it was opened; open it again to append."
                )
            try:
                shard = write_shard(self.folder, number, content)
                manifest = Manifest(
                    self.n_words, self.encoder, (*self._manifest.shards, shard.entry)
                )
                write_manifest(self.folder, manifest)
            except BaseException:
                # Unless the manifest was written just before, nobody knows of the shard.
                with suppress(StorageError):
                    if len(read_manifest(self.folder).shards) == number:
                        remove_shard(self.folder, number)
                raise
        self._manifest, self.shards = manifest, (*self.shards, shard)
        for cached in ("_places", "_records"):
            self.__dict__.pop(cached, None)

    def __len__(self) -> int:
        """The number of documents."""
        return sum(shard.entry.documents for shard in self.shards)

    def __repr__(self) -> str:
        return f"Corpus({str(self.folder)!r}: {len(self)} documents over {self.n_words} words)"

    def __reduce__(self) -> tuple[Any, ...]:
        # Other processes map the files themselves.
        return Corpus, (self.folder, self._manifest)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix of counts: documents, words."""
        return len(self), self.n_words

    @property
    def n_words(self) -> int:
        """Width of the vocabulary."""
        return self._manifest.n_words

    @property
    def n_tokens(self) -> int:
        """The number of tokens of all documents."""
        return sum(shard.entry.tokens for shard in self.shards)

    @property
    def encoder(self) -> str | None:
        """The fingerprint of what made the words, if it was given."""
        return self._manifest.encoder

    @property
    def fractional(self) -> bool:
        """Whether any count is not a whole number."""
        return any(shard.entry.counts is not None for shard in self.shards)

    @property
    def names(self) -> list[str | None]:
        """What the documents are called; None where not known."""
        return [name for records in self._records for name in records.names]

    @property
    def labels(self) -> list[str | None]:
        """The classes of the documents; None where not known."""
        return [label for records in self._records for label in records.labels]

    @property
    def tags(self) -> list[list[str] | None]:
        """The annotations of the documents; None where not known."""
        return [tags for records in self._records for tags in records.tags]

    @property
    def length_B(self) -> NDArray[np.int64]:
        """The number of tokens of every document."""
        return self._places.length_B

    def fingerprint(self) -> str:
        """Return a digest of the shards' checksums in their order, and of the width."""
        return checksum(repr((self.n_words, self._manifest.shards)).encode())

    def counts(self, rows: ArrayLike | slice | None = None) -> sparse.csr_array:
        """Return counts of documents as a matrix, (documents chosen, words).

        Parameters
        ----------
        rows : which documents: numbers, a mask or a slice; None: all of them.
        """
        numbers = np.arange(len(self))
        if rows is not None:
            try:
                chosen = rows if isinstance(rows, slice) else np.asarray(rows)
                if not isinstance(chosen, slice) and chosen.size == 0:
                    chosen = slice(0)
                numbers = np.atleast_1d(numbers[chosen])
            except IndexError as error:
                raise InvalidArgument(
                    f"rows must be numbers of {len(self)} documents, a mask or a slice: {error}."
                ) from error
        return self._matrix(numbers)

    def blocks(self, n_tokens: int = BLOCK) -> Iterator[sparse.csr_array]:
        """Return an iterator over the counts of all documents, some documents at a time.

        Parameters
        ----------
        n_tokens : how many tokens the documents of a block may have; a longer one comes alone.
        """
        rows = in_blocks(self.length_B, check_count("n_tokens", n_tokens, least=1))
        return (self._matrix(each) for each in rows)

    def _matrix(self, rows_B: NDArray[np.int64]) -> sparse.csr_array:
        ids_N, counts_N = self.read_tokens(rows_B)
        length_B = self.length_B[rows_B]
        ends_B = np.cumsum(length_B)
        bounds = run_bounds(ids_N, ends_B - length_B)
        data = np.diff(np.append(bounds, len(ids_N))).astype(np.float64)
        if counts_N is not None:
            data = np.where(counts_N[bounds] > 0, counts_N[bounds], data)
        indptr = np.searchsorted(bounds, np.concatenate([[0], ends_B]))
        matrix = sparse.csr_array((data, ids_N[bounds], indptr), shape=(len(rows_B), self.n_words))
        if not matrix.has_sorted_indices:
            raise StorageError(
                f"{self.folder} is damaged: ids must rise within a document; verify() says where."
            )
        return matrix

    def read_tokens(
        self, rows_B: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64] | None]:
        """Return the tokens of documents, one document after the other.

        Returns
        -------
        Their ids, sorted within a document; and the count that each is a part of, 0 where it is
        whole, or None if all counts of the corpus are whole.
        """
        length_B, start_B, first_S = self._places
        length_B, start_B = length_B[rows_B], start_B[rows_B]
        shard_B = np.searchsorted(first_S, rows_B, "right") - 1
        ends_B = np.cumsum(length_B)
        ids_N = np.empty(int(length_B.sum()), np.int32)
        counts_N = np.zeros(len(ids_N)) if self.fractional else None
        # Documents that stand side by side are read at once; shard by shard, each opened once.
        cuts = np.flatnonzero((np.diff(rows_B) != 1) | (np.diff(shard_B) != 0)) + 1
        runs = list(zip([0, *cuts], [*cuts, len(rows_B)], strict=True)) if len(rows_B) else []
        for first, last in sorted(runs, key=lambda run: rows_B[run[0]]):
            shard = self.shards[shard_B[first]]
            ids, counts = self._maps(shard)
            into = slice(ends_B[first] - length_B[first], ends_B[last - 1])
            place = slice(start_B[first], start_B[last - 1] + length_B[last - 1])
            ids_N[into] = ids[place]
            check_ids(shard.path("ids"), ids_N[into], self.n_words)
            if counts_N is not None and counts is not None:
                counts_N[into] = counts[place]
                check_counts(shard.path("counts"), counts_N[into])
        return ids_N, counts_N

    @cached_property
    def _places(self) -> _Places:
        offsets = [shard.offsets() for shard in self.shards]
        none = np.empty(0, np.int64)
        sizes = [shard.entry.documents for shard in self.shards]
        return _Places(
            np.concatenate([none, *(np.diff(each) for each in offsets)]),
            np.concatenate([none, *(each[:-1] for each in offsets)]),
            np.cumsum([0, *sizes])[:-1],
        )

    @cached_property
    def _records(self) -> list[Records]:
        return [shard.records() for shard in self.shards]


def _map_shard(shard: Shard) -> tuple[NDArray[np.int32], NDArray[np.float64] | None]:
    return shard.map("ids"), None if shard.entry.counts is None else shard.map("counts")
