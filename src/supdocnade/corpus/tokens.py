"""Tokens of documents by one contract, wherever they are kept.

A document is a bag. Its tokens stand in the order of their ids, visual words before annotation
words; every reader draws an order of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.errors import InvalidArgument

# Matrices of counts in one form, and what tokens their entries become.

MAX_TOKENS = 2**34
"""What is held in memory at once, four bytes a token: 64 GiB."""


def canonical_counts(name: str, given: Any) -> sparse.csr_array:
    """Return a matrix of counts in canonical form: sorted, no duplicates, no zeros."""
    if sparse.issparse(given):
        if given.ndim != 2:
            raise InvalidArgument(f"{name} must have two dimensions, got {given.ndim}.")
        matrix = sparse.csr_array(given, dtype=np.float64, copy=True)
    else:
        try:
            dense = np.asarray(given, np.float64)
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


class Repeats(NamedTuple):
    """What counts become: a count x is ceil(x) tokens of weight x / ceil(x)."""

    repeats: NDArray[np.int64]
    """Tokens of every entry."""
    share: NDArray[np.float32] | None
    """Weight of each of them; None: all ones."""


def repeats_of(name: str, counts: NDArray[np.float64]) -> Repeats:
    """Return how many tokens every count becomes, and of what weight; whole counts are exact.

    >>> repeats_of("counts", np.array([2.0, 1.5]))
    Repeats(repeats=array([2, 2]), share=array([1.  , 0.75], dtype=float32))
    """
    if counts.sum() > MAX_TOKENS:
        raise InvalidArgument(
            f"{name} must add up to at most {MAX_TOKENS} words, got {counts.sum():.3g}."
        )
    repeats = np.ceil(counts).astype(np.int64)
    share = (counts / repeats).astype(np.float32)
    return Repeats(repeats, share if (share != 1).any() else None)


BLOCK = 2**17
"""Tokens that are read at a time where not all of them fit into memory."""

Rows = NDArray[np.int64]
"""Numbers of documents."""


class Tokens(NamedTuple):
    """Tokens of some documents, one document after the other."""

    ids_N: NDArray[np.int32]
    """Ids of words in the joint vocabulary, visual words first."""
    weight_N: NDArray[np.float32] | None
    """Share of a whole token, where counts were fractions; None: all ones."""

    def ordered(self, order_N: NDArray[np.int64]) -> "Tokens":
        """Return the tokens in another order."""
        weight_N = self.weight_N
        return Tokens(self.ids_N[order_N], None if weight_N is None else weight_N[order_N])


class Digest(Protocol):
    """What takes bytes in, as a hash does."""

    def update(self, data: Any, /) -> None:
        """Take bytes in."""


class TokenSource(Protocol):
    """Where the tokens of documents come from."""

    @property
    def length_B(self) -> NDArray[np.int64]:
        """Number of tokens of every document."""

    @property
    def weighted(self) -> bool:
        """Whether tokens carry weights, even if all of those asked for should be ones."""

    def gather(self, rows_B: Rows, order_N: NDArray[np.int64] | None = None) -> Tokens:
        """Return the tokens of the given documents.

        Parameters
        ----------
        order_N : places in the concatenation of the documents; None: as they stand.
        """

    def blocks(self) -> Iterator[tuple[Rows, Tokens]]:
        """Yield all documents in their sequence, some at a time, with their tokens."""

    def take(self, rows_B: Rows) -> "TokenSource":
        """Return a source of the given documents, in the given order."""

    def below(self, n_words: int) -> "TokenSource":
        """Return a source of the same documents with the tokens whose ids are below a number."""

    def feed(self, digest: Digest) -> None:
        """Put everything that the tokens depend on into a digest."""


def places_of(start_B: NDArray[np.int64], length_B: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of stretches of given starts and lengths, one stretch after the other.

    >>> places_of(np.array([7, 2]), np.array([2, 3])).tolist()
    [7, 8, 2, 3, 4]
    """
    places: NDArray[np.int64] = np.repeat(start_B - np.cumsum(length_B) + length_B, length_B)
    places += np.arange(places.size)
    return places


def in_blocks(length_B: NDArray[np.int64], n_tokens: int) -> Iterator[Rows]:
    """Yield consecutive documents that have at most so many tokens; a longer one comes alone.

    An empty document takes up room, too: every document counts as one token more.

    >>> [rows.tolist() for rows in in_blocks(np.array([2, 1, 9, 0, 0]), 5)]
    [[0, 1], [2], [3, 4]]
    """
    ends = np.cumsum(length_B + 1)
    first, before = 0, 0
    while first < len(length_B):
        last = max(int(np.searchsorted(ends, before + n_tokens, "right")), first + 1)
        yield np.arange(first, last)
        first, before = last, int(ends[last - 1])


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
        """Return the tokens of a canonical matrix of counts.

        Parameters
        ----------
        name : of the matrix, for errors.
        first_id : the id of the first column.
        """
        repeats, share = repeats_of(name, matrix.data)
        ends = np.concatenate([[0], np.cumsum(repeats)])
        ids = (matrix.indices + first_id).astype(np.int32)
        return cls(
            np.repeat(ids, repeats),
            ends[matrix.indptr],
            None if share is None else np.repeat(share, repeats),
        )

    @cached_property
    def length_B(self) -> NDArray[np.int64]:
        """Number of tokens of every document."""
        return np.diff(self.offsets_B1)

    @property
    def weighted(self) -> bool:
        """Whether tokens carry weights."""
        return self.weight_N is not None

    def gather(self, rows_B: Rows, order_N: NDArray[np.int64] | None = None) -> Tokens:
        """Return the tokens of the given documents, as `TokenSource` says."""
        places_N = places_of(self.offsets_B1[rows_B], self.length_B[rows_B])
        # The order is applied to the places, so that every token is moved once.
        places_N = places_N if order_N is None else places_N[order_N]
        return Tokens(self.ids_N, self.weight_N).ordered(places_N)

    def blocks(self) -> Iterator[tuple[Rows, Tokens]]:
        """Yield all documents at once: they are in memory anyway."""
        yield np.arange(len(self.length_B)), Tokens(self.ids_N, self.weight_N)

    def take(self, rows_B: Rows) -> "MemoryTokens":
        """Return the given documents, in the given order."""
        ids_N, weight_N = self.gather(rows_B)
        return MemoryTokens(
            ids_N, np.concatenate([[0], np.cumsum(self.length_B[rows_B])]), weight_N
        )

    def below(self, n_words: int) -> "MemoryTokens":
        """Return the same documents with the tokens whose ids are below a number."""
        kept_N = self.ids_N < n_words
        before = np.concatenate([[0], np.cumsum(kept_N)])
        weight_N = self.weight_N
        return MemoryTokens(
            self.ids_N[kept_N],
            before[self.offsets_B1],
            None if weight_N is None else weight_N[kept_N],
        )

    def feed(self, digest: Digest) -> None:
        """Put all arrays into a digest."""
        for array in (self.ids_N, self.offsets_B1, self.weight_N):
            digest.update(b"-" if array is None else np.ascontiguousarray(array).data)
