"""Products row by row for inference.

A library's matrix product rounds a row differently in a batch of one than in a batch of a thousand.
Here every row is computed on its own, in a fixed order of operations, so a prediction does not
depend on the other rows of the batch.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.jit import kernel
from supdocnade.likelihood.cpu.prefix_sums import ACTIVATION_CODES, RELU, TANH, _sigmoid, _tanh
from supdocnade.threads import SMALL_WORK, even_ranges, n_threads, run_parts

Floats = NDArray[np.float32]
Number = TypeVar("Number", np.float32, np.float64)

_ZERO = np.float32(0)


@kernel
def write_bag_activations(
    first, last, indptr, indices, data, table_KH, bias_RH, activation, out_BH
):
    """Write the rows `first:last` of g(bias + Σ_k x_k table[k]); one bias, or one per row."""
    a_H = np.empty(bias_RH.shape[1], np.float32)
    for d in range(first, last):
        a_H[:] = bias_RH[d if bias_RH.shape[0] > 1 else 0]
        for p in range(indptr[d], indptr[d + 1]):
            word, x = indices[p], data[p]
            for j in range(a_H.size):
                a_H[j] += x * table_KH[word, j]
        if activation == RELU:
            for j in range(a_H.size):
                out_BH[d, j] = _ZERO if a_H[j] <= _ZERO else a_H[j]
        elif activation == TANH:
            for j in range(a_H.size):
                out_BH[d, j] = _tanh(a_H[j])
        else:
            for j in range(a_H.size):
                out_BH[d, j] = _sigmoid(a_H[j])


@kernel
def write_affine(first, last, rows_BH, table_TH, bias_T, out_BT):
    """Write the rows `first:last` of rows · tableᵀ + bias."""
    for d in range(first, last):
        for t in range(table_TH.shape[0]):
            total = _ZERO
            for j in range(table_TH.shape[1]):
                total += rows_BH[d, j] * table_TH[t, j]
            out_BT[d, t] = total + bias_T[t]


def bag_activations(
    counts: sparse.csr_array, table_KH: Floats, bias: Floats, activation: str
) -> Floats:
    """Return g(bias + Σ_k x_k table[k]) for every row x of counts, (rows, H).

    Parameters
    ----------
    counts : (rows, words) of at most K words, its indices sorted within each row.
    bias : (H,), or (rows, H).
    activation : g, "relu", "tanh" or "sigmoid".
    """
    assert counts.shape[1] <= len(table_KH), "a word without a row would be read out of bounds"
    bias_RH = bias.reshape(-1, table_KH.shape[1])
    out_BH = np.empty((counts.shape[0], bias_RH.shape[1]), np.float32)
    # The kernels are compiled for one integer type, whatever the matrix has.
    indptr = counts.indptr.astype(np.int64, copy=False)
    indices = counts.indices.astype(np.int64, copy=False)
    data = counts.data.astype(np.float32, copy=False)
    code = ACTIVATION_CODES[activation]

    def write_part(part: tuple[int, int]) -> None:
        write_bag_activations(*part, indptr, indices, data, table_KH, bias_RH, code, out_BH)

    small = data.size * bias_RH.shape[1] < SMALL_WORK
    work = indptr + np.arange(len(indptr))  # An empty row counts as one word.
    run_parts(write_part, even_ranges(work, n_threads()), small=small)
    return out_BH


def affine(
    rows_BH: NDArray[Number], table_TH: NDArray[Number], bias_T: NDArray[Number]
) -> NDArray[Number]:
    """Return rows · tableᵀ + bias, (B, T), of the type of the rows."""
    out_BT = np.empty((len(rows_BH), len(table_TH)), rows_BH.dtype)

    def write_part(part: tuple[int, int]) -> None:
        write_affine(*part, rows_BH, table_TH, bias_T, out_BT)

    small = out_BT.size * table_TH.shape[1] < SMALL_WORK
    run_parts(write_part, even_ranges(np.arange(len(rows_BH) + 1), n_threads()), small=small)
    return out_BT
