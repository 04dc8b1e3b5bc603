"""Adam on some rows of a table, compiled for the CPU.

Memory traffic is all that it costs, so a row and its moments are read once.
"""

import numpy as np
from torch import Tensor

from supdocnade.jit import kernel
from supdocnade.likelihood.operations import ADAM_BETAS, ADAM_EPSILON
from supdocnade.threads import SMALL_WORK, run_parts

ROWS_PER_PART = 1024


@kernel
def update_rows(first, last, table, mean, square, rows, gradient, beta1, beta2, scale, root, eps):
    """Update the rows `rows[first:last]`.

    `scale` is the learning rate with the bias correction of the mean, `root` that of the square.
    """
    one = np.float32(1)
    for r in range(first, last):
        k = rows[r]
        for j in range(gradient.shape[1]):
            mean[k, j] += (one - beta1) * (gradient[r, j] - mean[k, j])
            square[k, j] = beta2 * square[k, j] + (one - beta2) * gradient[r, j] * gradient[r, j]
            table[k, j] -= scale * mean[k, j] / (np.sqrt(square[k, j]) * root + eps)


def row_adam(
    table_KH: Tensor,
    mean_KH: Tensor,
    square_KH: Tensor,
    rows_R: Tensor,
    gradient_RH: Tensor,
    learning_rate: float | Tensor,
    step: int | Tensor,
) -> None:
    """See `operations.row_adam`."""
    table, mean, square = (tensor.detach().numpy() for tensor in (table_KH, mean_KH, square_KH))
    rows, gradient = rows_R.numpy(), gradient_RH.detach().contiguous().numpy()
    (beta1, beta2), step = ADAM_BETAS, int(step)
    scalars = (
        np.float32(beta1),
        np.float32(beta2),
        np.float32(float(learning_rate) / (1 - beta1**step)),
        np.float32((1 - beta2**step) ** -0.5),
        np.float32(ADAM_EPSILON),
    )

    def update(first: int) -> None:
        last = min(first + ROWS_PER_PART, len(rows))
        update_rows(first, last, table, mean, square, rows, gradient, *scalars)

    small = gradient.size < SMALL_WORK
    run_parts(update, range(0, len(rows), ROWS_PER_PART), small=small)
