"""Adam on some rows, compiled for the CPU: one pass over each row and its moments."""

import numpy as np

from supdocnade.jit import kernel


@kernel
def update_rows(first, last, table, mean, square, rows, gradient, beta1, beta2, scale, root, eps):
    """Update the rows `rows[first:last]`; see `cpu.py` for the scalars."""
    one = np.float32(1)
    for r in range(first, last):
        k = rows[r]
        for j in range(gradient.shape[1]):
            mean[k, j] += (one - beta1) * (gradient[r, j] - mean[k, j])
            square[k, j] = beta2 * square[k, j] + (one - beta2) * gradient[r, j] * gradient[r, j]
            table[k, j] -= scale * mean[k, j] / (np.sqrt(square[k, j]) * root + eps)
