"""Adam's update of whole parameters on a GPU.

Torch's own gives 65,536 numbers to a program, so four programs have a table of 1,160 words and 200
topics, and most of the GPU looks on. Here a program takes a thousand.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from supdocnade.likelihood.cuda import adam_kernels as kernels
from supdocnade.likelihood.cuda.prefix import columns_of
from supdocnade.likelihood.operations import AdamRates

BLOCK = 1024


class Moments(NamedTuple):
    """What Adam remembers of a parameter."""

    step: Tensor
    """() float32."""
    mean: Tensor
    square: Tensor


def dense_adam(
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    moments: Sequence[Moments],
    rate: Tensor,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """Move parameters by one step, and their moments, in place.

    Parameters
    ----------
    rate : () the learning rate, on the GPU.
    """
    steps, means, squares = zip(*moments, strict=True)
    torch._foreach_add_(steps, 1)
    lengths = tuple(parameter.numel() for parameter in parameters)
    firsts = tuple(accumulate((triton.cdiv(length, BLOCK) for length in lengths), initial=0))
    flat = [tuple(tensor.detach() for tensor in each) for each in (parameters, gradients)]
    kernels.update[(firsts[-1],)](
        *flat, means, squares, steps, rate,
        LENGTHS=lengths, FIRSTS=firsts, BETA1=betas[0], BETA2=betas[1], EPSILON=epsilon,
        BLOCK=BLOCK,
    )  # fmt: skip


# Adam on some rows of a table on a GPU, in one kernel that waits for nothing.

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
    """See `operations.row_adam`."""
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
