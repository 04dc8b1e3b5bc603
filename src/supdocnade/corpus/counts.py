"""Count matrices in canonical form, and the tokens that their entries become."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.errors import InvalidArgument

MAX_TOKENS = 2**34
"""Tokens in memory at once, at four bytes per token: 64 GiB."""

BLOCK_TOKENS = 2**17
"""Tokens that are read at a time where not all of them fit into memory."""

Rows = NDArray[np.int64]
"""Document numbers."""


def canonical_counts(name: str, counts: Any) -> sparse.csr_array:
    """Return a copy of a count matrix in canonical form: sorted, no duplicates, no zeros."""
    if sparse.issparse(counts):
        if counts.ndim != 2:
            raise InvalidArgument(f"{name} must have two dimensions, got {counts.ndim}.")
        matrix = sparse.csr_array(counts, dtype=np.float64, copy=True)
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


def split_counts(
    name: str, counts: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    """Return the number of tokens of every count and the weight of each such token.

    A count x becomes ceil(x) tokens of weight x / ceil(x), so whole counts are exact. The weights
    are None if all of them are 1.

    >>> split_counts("counts", np.array([2.0, 1.5]))
    (array([2, 2]), array([1.  , 0.75], dtype=float32))
    """
    if counts.sum() > MAX_TOKENS:
        raise InvalidArgument(
            f"{name} must add up to at most {MAX_TOKENS} words, got {counts.sum():.3g}."
        )
    repeats = np.ceil(counts).astype(np.int64)
    weight = (counts / repeats).astype(np.float32)
    return repeats, weight if (weight != 1).any() else None


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
