"""Adam on some rows, compiled for the CPU: one pass over each row and its moments."""

import numpy as np

from supdocnade.ops.jit import kernel


@kernel
def update_rows(first, last, table, mean, square, rows, gradient, beta1, beta2, scale, root, eps):
    """Update the rows `rows[first:last]`; see `cpu.py` for the scalars."""
    one = np.float32(1)
    for r in range(first, last):
        w, m, s, g = table[rows[r]], mean[rows[r]], square[rows[r]], gradient[r]
        for j in range(g.size):
            m[j] += (one - beta1) * (g[j] - m[j])
            s[j] = beta2 * s[j] + (one - beta2) * g[j] * g[j]
            w[j] -= scale * m[j] / (np.sqrt(s[j]) * root + eps)
