"""Matrices of counts in one form, and what tokens their entries become."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.errors import InvalidArgument

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
