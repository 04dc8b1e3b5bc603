"""Products by rows for inference: the bits of a row depend on that row alone.

A matrix product of a library rounds a row differently in a batch of one than in a batch of a
thousand. Here every row is computed by itself, in the same order of operations whatever stands
beside it, so a prediction does not change with the company it is made in.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.jit import kernel
from supdocnade.likelihood.cpu.prefix_kernels import ACTIVATION_CODES, RELU, TANH, _sigmoid, _tanh
from supdocnade.likelihood.cpu.threads import SMALL_WORK, even_ranges, n_threads, run_parts

# The products by rows, compiled for the CPU (see the package).

_ZERO = np.float32(0)


@kernel
def bag_activation_rows(first, last, indptr, indices, data, table_KH, bias_H, activation, out_BH):
    """Write the rows `first:last` of g(bias + Σ_k x_k table[k])."""
    a_H = np.empty_like(bias_H)
    for d in range(first, last):
        a_H[:] = bias_H
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
def affine_rows(first, last, rows_BH, table_TH, bias_T, out_BT):
    """Write the rows `first:last` of rows · tableᵀ + bias."""
    for d in range(first, last):
        for t in range(table_TH.shape[0]):
            total = _ZERO
            for j in range(table_TH.shape[1]):
                total += rows_BH[d, j] * table_TH[t, j]
            out_BT[d, t] = total + bias_T[t]


Floats = NDArray[np.float32]


def bag_activations(
    counts: sparse.csr_array, table_KH: Floats, bias_H: Floats, activation: str
) -> Floats:
    """Return g(bias + Σ_k x_k table[k]) for every row x of counts, (rows, H).

    Parameters
    ----------
    counts : (rows, words) of at most K words, its indices sorted within each row.
    activation : g, "relu", "tanh" or "sigmoid".
    """
    assert counts.shape[1] <= len(table_KH), "a word without a row would be read from elsewhere"
    out_BH = np.empty((counts.shape[0], len(bias_H)), np.float32)
    # The kernels are compiled for one kind of index, whatever the matrix came with.
    indptr = counts.indptr.astype(np.int64, copy=False)
    indices = counts.indices.astype(np.int64, copy=False)
    data = counts.data.astype(np.float32, copy=False)
    code = ACTIVATION_CODES[activation]

    def part_of(part: tuple[int, int]) -> None:
        bag_activation_rows(*part, indptr, indices, data, table_KH, bias_H, code, out_BH)

    small = data.size * len(bias_H) < SMALL_WORK
    # An empty row costs something, too: it counts as one word.
    work = indptr + np.arange(len(indptr))
    run_parts(part_of, even_ranges(work, n_threads()), small=small)
    return out_BH


def affine(rows_BH: Floats, table_TH: Floats, bias_T: Floats) -> Floats:
    """Return rows · tableᵀ + bias, (B, T)."""
    out_BT = np.empty((len(rows_BH), len(table_TH)), np.float32)

    def part_of(part: tuple[int, int]) -> None:
        affine_rows(*part, rows_BH, table_TH, bias_T, out_BT)

    small = out_BT.size * table_TH.shape[1] < SMALL_WORK
    run_parts(part_of, even_ranges(np.arange(len(rows_BH) + 1), n_threads()), small=small)
    return out_BT
