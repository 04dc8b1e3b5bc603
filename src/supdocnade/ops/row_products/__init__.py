"""Products by rows for inference: the bits of a row depend on that row alone.

A matrix product of a library rounds a row differently in a batch of one than in a batch of a
thousand. Here every row is computed by itself, in the same order of operations whatever stands
beside it, so a prediction does not change with the company it is made in.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.ops.prefix_sum.cpu_kernels import ACTIVATION_CODES
from supdocnade.ops.row_products import cpu_kernels
from supdocnade.ops.threads import SMALL_WORK, even_ranges, n_threads, run_parts

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
        cpu_kernels.bag_activations(*part, indptr, indices, data, table_KH, bias_H, code, out_BH)

    small = data.size * len(bias_H) < SMALL_WORK
    # An empty row costs something, too: it counts as one word.
    work = indptr + np.arange(len(indptr))
    run_parts(part_of, even_ranges(work, n_threads()), small=small)
    return out_BH


def affine(rows_BH: Floats, table_TH: Floats, bias_T: Floats) -> Floats:
    """Return rows · tableᵀ + bias, (B, T)."""
    out_BT = np.empty((len(rows_BH), len(table_TH)), np.float32)

    def part_of(part: tuple[int, int]) -> None:
        cpu_kernels.affine(*part, rows_BH, table_TH, bias_T, out_BT)

    small = out_BT.size * table_TH.shape[1] < SMALL_WORK
    run_parts(part_of, even_ranges(np.arange(len(rows_BH) + 1), n_threads()), small=small)
    return out_BT
