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

from supdocnade.ops.dense_adam import cuda_kernels as kernels

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
