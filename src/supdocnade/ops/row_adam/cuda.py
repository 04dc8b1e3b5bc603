"""Adam on some rows of a table on a GPU, in one kernel that waits for nothing."""

import torch
import triton
from torch import Tensor

from supdocnade.ops.prefix_sum.cuda import columns_of
from supdocnade.ops.row_adam import AdamRates
from supdocnade.ops.row_adam import cuda_kernels as kernels

ROWS, COLUMNS = 16, 128
"""What a program takes."""


def row_adam(
    table_KH: Tensor,
    mean_KH: Tensor,
    square_KH: Tensor,
    rows_R: Tensor,
    gradient_RH: Tensor,
    rates: AdamRates,
) -> None:
    """See `supdocnade.ops.row_adam`."""
    learning_rate, beta1, beta2, epsilon, step = rates
    # Free for those that lie there already, as they do in training.
    learning_rate, step = (
        torch.as_tensor(x, device=table_KH.device) for x in (learning_rate, step)
    )
    n_rows, H = gradient_RH.shape
    block = columns_of(H, COLUMNS)
    kernels.update_rows[(triton.cdiv(n_rows, ROWS), triton.cdiv(H, block))](
        table_KH.detach(), mean_KH, square_KH, rows_R, gradient_RH.detach().contiguous(), n_rows,
        learning_rate, step,
        H=H, BETA1=beta1, BETA2=beta2, EPSILON=epsilon, ROWS=ROWS, BLOCK=block,
    )  # fmt: skip
