"""Matrix products on several threads, with bits that do not depend on their number.

Torch splits a product over its threads in a way that determines the last bits, so elsewhere it gets
one thread (docs/decisions/0003-threads.md). Here a product is cut into fixed parts of its result,
never of its sums, and threads take whole parts, each one product of torch on one thread.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from supdocnade.likelihood.cpu.threads import SMALL_WORK, run_parts

MAX_PARTS, MIN_WIDTH = 8, 256
"""Maximal number of parts of a product, and minimal width of a part."""

_Part = Callable[[], object]


def _split_product(left: Tensor, right: Tensor, out: Tensor) -> list[_Part]:
    """Return the parts of a product: calls that write blocks of rows or of columns of `out`.

    Their number is a power of two, so that two or four threads get equal shares.
    """
    left, right = left.detach(), right.detach()
    length, n_parts = max(out.shape), 1
    if out.numel() * left.shape[1] >= 16 * SMALL_WORK:
        while n_parts < MAX_PARTS and 2 * n_parts * MIN_WIDTH <= length:
            n_parts *= 2
    if n_parts == 1:
        return [partial(torch.mm, left, right, out=out)]
    width = -(-length // n_parts)
    blocks = [slice(first, first + width) for first in range(0, length, width)]
    if out.shape[0] >= out.shape[1]:
        return [partial(torch.mm, left[block], right, out=out[block]) for block in blocks]
    return [partial(torch.mm, left, right[:, block], out=out[:, block]) for block in blocks]


def _run(parts: list[_Part]) -> None:
    run_parts(lambda part: part(), parts, small=len(parts) == 1)


class _Product(torch.autograd.Function):
    """The product of two matrices, and its gradients."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        out = left.new_empty(left.shape[0], right.shape[1])
        _run(_split_product(left, right, out))
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        left, right = ctx.saved_tensors
        grad_left = grad_right = None
        parts: list[_Part] = []  # Of both gradients: threads then wait for each other once.
        if ctx.needs_input_grad[0]:
            grad_left = torch.empty_like(left)
            parts += _split_product(gradient, right.T, grad_left)
        if ctx.needs_input_grad[1]:
            # In the memory layout of the matrix, which may be a transposed table.
            grad_right = torch.empty_like(right)
            if right.is_contiguous():
                parts += _split_product(left.T, gradient, grad_right)
            else:
                parts += _split_product(gradient.T, left, grad_right.T)
        _run(parts)
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
