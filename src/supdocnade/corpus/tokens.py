"""Count matrices in canonical form, and the tokens of documents, in memory or on disk.

A document is a bag. Its tokens are in the order of their ids, visual words before annotation words;
every reader draws an order of its own.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import available_memory
from supdocnade.errors import InvalidArgument
from supdocnade.schema import rises_to

if TYPE_CHECKING:
    from supdocnade.corpus.disk import Corpus

TOKEN_BYTES = 64
"""Memory that a token takes while documents are read and trained on."""

BLOCK_TOKENS = 2**17
"""Tokens that are read at a time where not all of them fit into memory."""

Rows = NDArray[np.int64]
"""Document numbers."""


def canonical_counts(name: str, counts: Any) -> sparse.csr_array:
    """Return a copy of a count matrix in canonical form: sorted, no duplicates, no zeros."""
    if sparse.issparse(counts):
        matrix = sparse.csr_array(check_indices(name, counts), dtype=np.float64, copy=True)
    else:
        try:
            dense = np.asarray(counts, np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"{name} must be a matrix of numbers: {error}.") from error
        if dense.ndim != 2:
            raise InvalidArgument(f"{name} must have two dimensions, got {dense.ndim}.")
        matrix = sparse.csr_array(dense)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not np.isfinite(matrix.data).all():
        raise InvalidArgument(f"{name} must be finite, got NaN or infinity.")
    if (matrix.data < 0).any():
        raise InvalidArgument(f"{name} must not be negative, got {matrix.data.min()}.")
    return matrix


def check_indices(name: str, matrix: Any) -> Any:
    """Return a sparse matrix whose indices lie within its shape, or raise `InvalidArgument`.

    SciPy does not check the indices of a file that `load_npz` reads, and its conversions, as our
    kernels, would read and write outside their arrays. A matrix in a rare format is returned in
    coordinate format, any other one unchanged.
    """
    if matrix.ndim != 2:
        raise InvalidArgument(f"{name} must have two dimensions, got {matrix.ndim}.")
    try:
        if matrix.format in ("csr", "csc"):
            n_lines, width = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
            n_values, axes = _check_ends(matrix.indptr, n_lines), [(matrix.indices, width)]
        else:
            matrix = matrix.tocoo()
            n_values, axes = matrix.data.size, list(zip(matrix.coords, matrix.shape, strict=True))
        for indices, size in axes:
            _check_within(indices, size)
            if len(indices) != matrix.data.size or n_values > len(indices):
                raise ValueError(f"{n_values} values have {len(indices)} indices")
    except (ValueError, IndexError, TypeError) as error:
        raise InvalidArgument(
            f"{name} must be a sparse matrix whose indices lie within its shape {matrix.shape}: "
            f"{str(error).rstrip('.')}."
        ) from error
    return matrix


def _check_ends(ends: NDArray[Any], n_lines: int) -> int:
    """Return the last end of the rows or columns of a matrix, or raise `ValueError`."""
    if ends.shape != (n_lines + 1,) or not rises_to(ends[-1], ends):
        raise ValueError(f"its index pointers must be {n_lines + 1} numbers that rise from 0")
    return int(ends[-1])


def _check_within(indices: NDArray[Any], size: int) -> None:
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        raise ValueError("indices must be a row of whole numbers")
    if indices.size and not (indices.min() >= 0 and indices.max() < size):
        raise ValueError(f"got indices {indices.min()} .. {indices.max()} on an axis of {size}")


def split_counts(
    name: str, counts: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    """Return the number of tokens of every count and the weight of each such token.

    A count x becomes ceil(x) tokens of weight x / ceil(x), so whole counts are exact. The weights
    are None if all of them are 1.

    >>> split_counts("counts", np.array([2.0, 1.5]))
    (array([2, 2]), array([1.  , 0.75], dtype=float32))
    """
    check_total(name, counts)
    repeats = np.ceil(counts).astype(np.int64)
    weight = (counts / repeats).astype(np.float32)
    return repeats, weight if (weight != 1).any() else None


def check_total(name: str, counts: NDArray[np.float64]) -> None:
    """Raise `InvalidArgument` if the tokens of counts do not fit into memory."""
    total = counts.sum()
    if TOKEN_BYTES * total > 2**26 and TOKEN_BYTES * total > (memory := available_memory()):
        raise InvalidArgument(
            f"{name} must add up to at most {memory // TOKEN_BYTES} words, which fit into memory, "
            f"got {total:.3g}."
        )


def damp_counts(counts: sparse.csr_array, scale: float) -> sparse.csr_array:
    """Return round(scale · √n) for each count n."""
    if counts.shape[0] == 0:
        return counts
    damped = np.round(scale * np.sqrt(counts.data))
    indices, indptr = counts.indices.copy(), counts.indptr.copy()
    result = sparse.csr_array((damped, indices, indptr), shape=counts.shape)
    result.eliminate_zeros()
    return result


def expand_ranges(start_B: NDArray[np.int64], length_B: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions in ranges of given starts and lengths, one range after the other.

    >>> expand_ranges(np.array([7, 2]), np.array([2, 3])).tolist()
    [7, 8, 2, 3, 4]
    """
    positions: NDArray[np.int64] = np.repeat(start_B - np.cumsum(length_B) + length_B, length_B)
    positions += np.arange(positions.size)
    return positions


def split_blocks(length_B: NDArray[np.int64], n_tokens: int) -> Iterator[Rows]:
    """Yield consecutive documents with at most this many tokens; a longer document comes alone.

    Every document counts as one token more, since an empty one takes up memory, too.

    >>> [rows.tolist() for rows in split_blocks(np.array([2, 1, 9, 0, 0]), 5)]
    [[0, 1], [2], [3, 4]]
    """
    ends = np.cumsum(length_B + 1)
    first, before = 0, 0
    while first < len(length_B):
        last = max(int(np.searchsorted(ends, before + n_tokens, "right")), first + 1)
        yield np.arange(first, last)
        first, before = last, int(ends[last - 1])


class Tokens(NamedTuple):
    """Tokens of some documents, one document after the other."""

    ids_N: NDArray[np.int32]
    """Word ids in the joint vocabulary, visual words first."""
    weight_N: NDArray[np.float32] | None
    """Fraction of a whole token, where counts were fractions; None if all are 1."""

    def reorder(self, order_N: NDArray[np.int64] | None) -> "Tokens":
        """Return the tokens in another order; None keeps theirs."""
        if order_N is None:
            return self
        weight_N = self.weight_N
        return Tokens(self.ids_N[order_N], None if weight_N is None else weight_N[order_N])


@dataclass(frozen=True, eq=False)
class MemoryTokens:
    """Tokens in memory."""

    ids_N: NDArray[np.int32]
    offsets_B1: NDArray[np.int64]
    """Document d owns the tokens `offsets[d]:offsets[d + 1]`."""
    weight_N: NDArray[np.float32] | None = None

    @classmethod
    def from_counts(
        cls, name: str, matrix: sparse.csr_array, *, first_id: int = 0
    ) -> "MemoryTokens":
        """Return the tokens of a canonical count matrix.

        Parameters
        ----------
        name : of the matrix, for errors.
        first_id : the id of the first column.
        """
        repeats, weight = split_counts(name, matrix.data)
        ends = np.concatenate([[0], np.cumsum(repeats)])
        ids = (matrix.indices + first_id).astype(np.int32)
        return cls(
            np.repeat(ids, repeats),
            ends[matrix.indptr],
            None if weight is None else np.repeat(weight, repeats),
        )

    @cached_property
    def length_B(self) -> NDArray[np.int64]:
        """Number of tokens of every document."""
        return np.diff(self.offsets_B1)

    @property
    def weighted(self) -> bool:
        """True if tokens have weights, even if those of the chosen documents are all 1."""
        return self.weight_N is not None

    def gather(self, rows_B: Rows, order_N: NDArray[np.int64] | None = None) -> Tokens:
        """Return the tokens of the given documents.

        Parameters
        ----------
        order_N : positions in the concatenation of the documents; None keeps their order.
        """
        positions_N = expand_ranges(self.offsets_B1[rows_B], self.length_B[rows_B])
        # The order is applied to the positions, so that every token is copied once.
        positions_N = positions_N if order_N is None else positions_N[order_N]
        return Tokens(self.ids_N, self.weight_N).reorder(positions_N)

    def blocks(self) -> Iterator[tuple[Rows, Tokens]]:
        """Yield all documents as one block: they are in memory already."""
        yield np.arange(len(self.length_B)), Tokens(self.ids_N, self.weight_N)

    def take(self, rows_B: Rows) -> "MemoryTokens":
        """Return the given documents, in the given order."""
        ids_N, weight_N = self.gather(rows_B)
        return MemoryTokens(
            ids_N, np.concatenate([[0], np.cumsum(self.length_B[rows_B])]), weight_N
        )

    def keep_below(self, n_words: int) -> "MemoryTokens":
        """Return the same documents without the tokens of ids from `n_words` on."""
        keep_N = self.ids_N < n_words
        n_before = np.concatenate([[0], np.cumsum(keep_N)])
        weight_N = self.weight_N
        return MemoryTokens(
            self.ids_N[keep_N],
            n_before[self.offsets_B1],
            None if weight_N is None else weight_N[keep_N],
        )

    def update_digest(self, digest: "hashlib.blake2b") -> None:
        """Add everything that the tokens depend on to a digest."""
        for array in (self.ids_N, self.offsets_B1, self.weight_N):
            digest.update(b"-" if array is None else np.ascontiguousarray(array).data)


@dataclass(frozen=True, eq=False)
class CorpusRows:
    """Word counts of documents of a corpus, which stay on disk; `take` and `load` choose some."""

    corpus: "Corpus"
    rows_B: Rows
    """Documents of the corpus."""
    damping: float | None = None
    """Scale for `damp_counts`; None leaves the counts as they are."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of documents and of words."""
        return len(self.rows_B), self.corpus.n_words

    def __getitem__(self, rows_B: Rows) -> "CorpusRows":
        """Return some of the documents, in the given order."""
        return replace(self, rows_B=self.rows_B[rows_B])

    def load(self) -> sparse.csr_array:
        """Return the counts as a matrix in memory."""
        counts = self.corpus.counts(self.rows_B)
        return counts if self.damping is None else damp_counts(counts, self.damping)

    @cached_property
    def length_B(self) -> NDArray[np.int64]:
        """Number of tokens of every document."""
        length_B = self.corpus.length_B[self.rows_B]
        if self.damping is None:
            return length_B
        parts = (self[part].load().sum(axis=1) for part in split_blocks(length_B, BLOCK_TOKENS))
        return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)

    def read_tokens(self, rows_B: Rows) -> NDArray[np.int32]:
        """Return the word ids of some documents."""
        if self.damping is None:
            return self.corpus.read_tokens(self.rows_B[rows_B])
        counts = self[rows_B].load()
        return np.repeat(counts.indices.astype(np.int32), counts.data.astype(np.int64))


@dataclass(frozen=True, eq=False)
class StoredTokens:
    """Visual words that stay on disk until they are gathered, with annotations in memory.

    Documents that are appended to the corpus later are ignored.
    """

    words: CorpusRows
    fingerprint: str
    """Fingerprint of the corpus when this was made."""
    annotations: MemoryTokens | None
    """Annotation words of these documents, with ids of the joint vocabulary."""
    weighted: bool
    """Whether the annotations carry weights."""

    @classmethod
    def from_corpus(cls, words: CorpusRows, annotations: MemoryTokens | None) -> "StoredTokens":
        """Return the tokens of documents of a corpus."""
        weighted = annotations is not None and annotations.weighted
        return cls(words, words.corpus.fingerprint(), annotations, weighted)

    @cached_property
    def length_B(self) -> NDArray[np.int64]:
        """See `MemoryTokens`."""
        length_B = self.words.length_B
        return length_B if self.annotations is None else length_B + self.annotations.length_B

    def gather(self, rows_B: Rows, order_N: NDArray[np.int64] | None = None) -> Tokens:
        """See `MemoryTokens`."""
        ids_N = self.words.read_tokens(rows_B)
        tokens = Tokens(ids_N, np.ones(len(ids_N), np.float32) if self.weighted else None)
        if self.annotations is not None:
            n_words_B = self.words.length_B[rows_B]
            n_tags_B = self.annotations.length_B[rows_B]
            tokens = _join_tokens(tokens, n_words_B, self.annotations.gather(rows_B), n_tags_B)
        return tokens.reorder(order_N)

    def blocks(self) -> Iterator[tuple[Rows, Tokens]]:
        """See `MemoryTokens`."""
        for rows_B in split_blocks(self.length_B, BLOCK_TOKENS):
            yield rows_B, self.gather(rows_B)

    def take(self, rows_B: Rows) -> "StoredTokens":
        """See `MemoryTokens`; nothing is read from disk."""
        annotations = None if self.annotations is None else self.annotations.take(rows_B)
        return replace(self, words=self.words[rows_B], annotations=annotations)

    def keep_below(self, n_words: int) -> "StoredTokens":
        """See `MemoryTokens`; `n_words` must be the size of the corpus' vocabulary."""
        assert n_words == self.words.corpus.n_words, "only annotations can be dropped"
        return replace(self, annotations=None)

    def update_digest(self, digest: "hashlib.blake2b") -> None:
        """Add the fingerprint of the corpus, the chosen documents and the annotations."""
        digest.update(self.fingerprint.encode())
        digest.update(np.ascontiguousarray(self.words.rows_B).data)
        if self.words.damping is not None:
            digest.update(repr(self.words.damping).encode())
        if self.annotations is not None:
            self.annotations.update_digest(digest)


TokenSource = MemoryTokens | StoredTokens
"""The tokens of documents, in memory or on disk."""


def _join_tokens(
    words: Tokens, n_words_B: NDArray[np.int64], tags: Tokens, n_tags_B: NDArray[np.int64]
) -> Tokens:
    """Return the words of every document followed by its tags."""
    length_B = n_words_B + n_tags_B
    start_B = np.cumsum(length_B) - length_B
    words_N = expand_ranges(start_B, n_words_B)
    tags_N = expand_ranges(start_B + n_words_B, n_tags_B)
    ids_N = np.empty(len(words_N) + len(tags_N), np.int32)
    ids_N[words_N], ids_N[tags_N] = words.ids_N, tags.ids_N
    if words.weight_N is None:
        return Tokens(ids_N, None)
    weight_N = np.ones(len(ids_N), np.float32)
    weight_N[words_N] = words.weight_N
    if tags.weight_N is not None:
        weight_N[tags_N] = tags.weight_N
    return Tokens(ids_N, weight_N)
