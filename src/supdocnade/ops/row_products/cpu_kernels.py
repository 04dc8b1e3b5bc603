"""The products by rows, compiled for the CPU (see the package)."""

import numpy as np

from supdocnade.jit import kernel
from supdocnade.ops.prefix_sum.cpu_kernels import RELU, TANH, _sigmoid, _tanh

_ZERO = np.float32(0)


@kernel
def bag_activations(first, last, indptr, indices, data, table_KH, bias_H, activation, out_BH):
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
def affine(first, last, rows_BH, table_TH, bias_T, out_BT):
    """Write the rows `first:last` of rows · tableᵀ + bias."""
    for d in range(first, last):
        for t in range(table_TH.shape[0]):
            total = _ZERO
            for j in range(table_TH.shape[1]):
                total += rows_BH[d, j] * table_TH[t, j]
            out_BT[d, t] = total + bias_T[t]
