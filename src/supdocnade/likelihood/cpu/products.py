"""Matrix products on several threads, with bits that do not depend on their number.

Torch splits a product over its threads in a way that determines the last bits, so elsewhere it gets
one thread (docs/decisions/0003-threads.md). Here a product is cut into fixed parts of its result,
never of its sums, and threads take whole parts, each one product of torch on one thread.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from supdocnade.likelihood.cpu.threads import SMALL_WORK, run_parts

MAX_PARTS, MIN_WIDTH = 8, 256
"""Maximal number of parts of a product, and minimal width of a part."""


def write_product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Write left · right to `out`, in parts of its longer side."""
    by_rows = out.shape[0] > out.shape[1]
    length = max(out.shape)
    width = max(-(-length // MAX_PARTS), MIN_WIDTH)

    def write_part(start: int) -> None:
        part = slice(start, start + width)
        if by_rows:
            torch.mm(left[part], right, out=out[part])
        else:
            torch.mm(left, right[:, part], out=out[:, part])

    small = out.numel() * left.shape[1] < 16 * SMALL_WORK
    run_parts(write_part, range(0, length, width), small=small)


def _multiply(left: Tensor, right: Tensor) -> Tensor:
    out = left.new_empty(left.shape[0], right.shape[1])
    write_product(left.detach(), right.detach(), out)
    return out


class _Product(torch.autograd.Function):
    """The product of two matrices, and its gradients."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        return _multiply(left, right)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        left, right = ctx.saved_tensors
        grad_left = _multiply(gradient, right.T) if ctx.needs_input_grad[0] else None
        grad_right = None
        if ctx.needs_input_grad[1]:
            # In the memory layout of the matrix, which may be a transposed table.
            if right.is_contiguous():
                grad_right = _multiply(left.T, gradient)
            else:
                grad_right = _multiply(gradient.T, left).T
        return grad_left, grad_right


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """Return left · right; on a GPU as torch does it.

    Parameters
    ----------
    left, right : matrices. `right` may be the transpose of a contiguous one.
    """
    if left.is_cuda:
        return left @ right
    product: Tensor = _Product.apply(left, right)  # type: ignore[no-untyped-call]
    return product


def apply_layer(rows_BX: Tensor, weight_HX: Tensor, bias_H: Tensor) -> Tensor:
    """Return rows · weightᵀ + bias; on a GPU as torch does it."""
    if rows_BX.is_cuda:
        return linear(rows_BX, weight_HX, bias_H)
    return multiply(rows_BX, weight_HX.T) + bias_H
