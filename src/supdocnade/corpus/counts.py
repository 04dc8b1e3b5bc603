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
    whole = ends.dtype.kind in "iu" and ends.shape == (n_lines + 1,)
    if not whole or ends[0] != 0 or (ends[1:] < ends[:-1]).any():
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
    if counts.sum() > MAX_TOKENS:
        raise InvalidArgument(
            f"{name} must add up to at most {MAX_TOKENS} words, got {counts.sum():.3g}."
        )
    repeats = np.ceil(counts).astype(np.int64)
    weight = (counts / repeats).astype(np.float32)
    return repeats, weight if (weight != 1).any() else None


def damp_counts(counts: sparse.csr_array, scale: float | None) -> sparse.csr_array:
    """Return round(scale · √n) for each count n; None leaves the counts as they are."""
    if scale is None or counts.shape[0] == 0:
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
