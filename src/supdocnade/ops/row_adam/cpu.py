"""Adam on some rows, fused on the CPU: memory traffic is all it costs, so a row is read once."""

import numpy as np
from torch import Tensor

from supdocnade.ops.row_adam import AdamRates
from supdocnade.ops.row_adam.cpu_kernels import update_rows
from supdocnade.ops.threads import SMALL_WORK, run_parts

ROWS_PER_PART = 1024


def row_adam(
    table_KH: Tensor,
    mean_KH: Tensor,
    square_KH: Tensor,
    rows_R: Tensor,
    gradient_RH: Tensor,
    rates: AdamRates,
) -> None:
    """See `supdocnade.ops.row_adam`."""
    table, mean, square = (tensor.detach().numpy() for tensor in (table_KH, mean_KH, square_KH))
    rows, gradient = rows_R.numpy(), gradient_RH.detach().contiguous().numpy()
    step = int(rates.step)
    scalars = (
        np.float32(rates.beta1),
        np.float32(rates.beta2),
        np.float32(float(rates.learning_rate) / (1 - rates.beta1**step)),
        np.float32((1 - rates.beta2**step) ** -0.5),
        np.float32(rates.epsilon),
    )

    def update(first: int) -> None:
        last = min(first + ROWS_PER_PART, len(rows))
        update_rows(first, last, table, mean, square, rows, gradient, *scalars)

    small = gradient.size < SMALL_WORK
    run_parts(update, range(0, len(rows), ROWS_PER_PART), small=small)
