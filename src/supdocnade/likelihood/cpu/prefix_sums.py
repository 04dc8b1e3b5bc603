"""Prefix and suffix sums over documents, compiled for the CPU.

Forward, the running sum a of the word embeddings gives the hidden units h_i = g(a) before every
token. Backward, the running sum of the gradients of the activations, from the last token to the
first, gives each word's row of the gradient of W. Documents are independent in the forward pass; in
the backward pass they share rows of W, so the work is split by columns of the gradient.
"""

import numpy as np

from supdocnade.jit import kernel
from supdocnade.likelihood.cpu.vectors import take_next

RELU, TANH, SIGMOID = 0, 1, 2
ACTIVATION_CODES = {"relu": RELU, "tanh": TANH, "sigmoid": SIGMOID}

COLUMNS_PER_LINE = 16
"""Floats in a cache line."""

_ZERO, _ONE, _TWO = np.float32(0), np.float32(1), np.float32(2)


@kernel
def _exp_nonpositive(x):
    """Return exp(x) for x <= 0 in float32, to 1.1e-7: 2^n times a polynomial in x - n log 2."""
    x = np.float32(-87.0) if x < np.float32(-87.0) else x  # NaN stays NaN.
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    # log 2 in two parts, the first with few bits, so that the difference keeps its precision.
    r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    p = np.float32(1 / 5040)
    p = p * r + np.float32(1 / 720)
    p = p * r + np.float32(1 / 120)
    p = p * r + np.float32(1 / 24)
    p = p * r + np.float32(1 / 6)
    p = p * r + np.float32(1 / 2)
    p = p * r * r + r + _ONE
    return p * np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)


@kernel
def sigmoid(x):
    """Return the sigmoid of x."""
    e = _exp_nonpositive(-abs(x))
    return (_ONE if x >= _ZERO else e) / (_ONE + e)


@kernel
def tanh(x):
    """Return tanh(x) by its exponential form, or by its series near 0, where that would cancel."""
    e = _exp_nonpositive(-_TWO * abs(x))
    far = (_ONE - e) / (_ONE + e)
    s = x * x
    near = np.float32(62 / 2835)
    near = near * s - np.float32(17 / 315)
    near = near * s + np.float32(2 / 15)
    near = near * s - np.float32(1 / 3)
    near = x + x * s * near
    return near if abs(x) < np.float32(0.3) else (far if x > _ZERO else -far)


@kernel
def sum_prefixes(
    next_document, ids_N, offsets_B1, input_weight_N, W_KH, c_RH, activation, limit, hidden_NH,
    summary_BH,
):  # fmt: skip
    """Write hidden units and summaries of the next documents until none is left.

    `hidden_NH` starts at the token `offsets_B1[0]`; `c_RH` has one row, or one per document.
    """
    a_H = np.empty(c_RH.shape[1], np.float32)
    base = offsets_B1[0]
    while True:
        d = take_next(np.uintp(next_document.ctypes.data))
        if d >= summary_BH.shape[0]:
            break
        c_H = c_RH[d if c_RH.shape[0] > 1 else 0]
        a_H[:] = c_H
        all_summed = True
        for i in range(offsets_B1[d], offsets_B1[d + 1]):
            if activation == RELU:
                for j in range(a_H.size):
                    # Written so that NaN stays NaN: a diverging model must show in the loss.
                    hidden_NH[i - base, j] = _ZERO if a_H[j] <= _ZERO else a_H[j]
            elif activation == TANH:
                for j in range(a_H.size):
                    hidden_NH[i - base, j] = tanh(a_H[j])
            else:
                for j in range(a_H.size):
                    hidden_NH[i - base, j] = sigmoid(a_H[j])
            weight, word = input_weight_N[i], ids_N[i]
            for j in range(a_H.size):
                a_H[j] += weight * W_KH[word, j]
            all_summed &= word < limit
        if not all_summed:
            a_H[:] = c_H
            for i in range(offsets_B1[d], offsets_B1[d + 1]):
                weight, word = input_weight_N[i], ids_N[i]
                if word < limit:
                    for j in range(a_H.size):
                        a_H[j] += weight * W_KH[word, j]
        summary_BH[d] = a_H


@kernel
def add_suffix_columns(
    first, last, ids_N, offsets_B1, base, input_weight_N, grad_NH, grad_W, grad_c_RH
):
    """Add the columns `first:last` of the gradients of W and c.

    h_i depends only on the words before i: the row of v_i receives the gradients of the
    activations after i, and c those of all. `grad_NH` starts at the token `base`; `grad_c_RH` has
    one row, or one per document.
    """
    after = np.empty(last - first, np.float32)
    # Unsigned indices spare the check for negative ones, which count from the end.
    start = np.uintp(first)
    for d in range(offsets_B1.size - 1):
        after[:] = _ZERO
        for i in range(offsets_B1[d + 1] - 1, offsets_B1[d] - 1, -1):
            weight, word = input_weight_N[i], ids_N[i]
            for j in range(after.size):
                grad_W[word, start + np.uintp(j)] += weight * after[j]
                after[j] += grad_NH[i - base, start + np.uintp(j)]
        row = d if grad_c_RH.shape[0] > 1 else 0
        for j in range(after.size):
            grad_c_RH[row, start + np.uintp(j)] += after[j]


@kernel
def add_summary_columns(
    first, last, ids_N, offsets_B1, input_weight_N, limit, incoming_BH, grad_W, grad_c_RH
):
    """Add the columns `first:last` of the gradients that come from the summaries."""
    start, width = np.uintp(first), last - first
    for d in range(offsets_B1.size - 1):
        for i in range(offsets_B1[d], offsets_B1[d + 1]):
            if ids_N[i] < limit:
                weight, word = input_weight_N[i], ids_N[i]
                for j in range(width):
                    column = start + np.uintp(j)
                    grad_W[word, column] += weight * incoming_BH[d, column]
        row = d if grad_c_RH.shape[0] > 1 else 0
        for j in range(width):
            grad_c_RH[row, start + np.uintp(j)] += incoming_BH[d, start + np.uintp(j)]


@kernel
def sum_by_document(values_N, offsets_B1, totals_B):
    """Write the sum over the tokens of every document, computed in float64."""
    base = offsets_B1[0]
    for d in range(offsets_B1.size - 1):
        total = 0.0
        for i in range(offsets_B1[d], offsets_B1[d + 1]):
            total += values_N[i - base]
        totals_B[d] = total


def split_columns(n_columns: int, n_threads: int) -> list[tuple[int, int]]:
    """Split the columns evenly over the threads, at multiples of a cache line.

    Columns are summed independently, so unlike all others this split may depend on the number of
    threads: the bits of a column do not depend on it, and one thread is fastest on whole rows.

    >>> split_columns(200, 2)
    [(0, 112), (112, 200)]
    """
    lines = -(-n_columns // COLUMNS_PER_LINE)
    width = -(-lines // n_threads) * COLUMNS_PER_LINE
    return [(first, min(first + width, n_columns)) for first in range(0, n_columns, width)]
