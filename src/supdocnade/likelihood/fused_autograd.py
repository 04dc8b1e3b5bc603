"""Fused backends under autograd: the forward call computes the gradients along with the values.

A fused kernel has everything it needs for the gradients at hand when it computes the likelihood, so
it writes them at once and `backward` hands them out. That is exact when all documents receive the
same incoming gradient, as they do under `nll.sum()`; when they do not, `backward` computes again
with the incoming gradients as loss weights.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.likelihood.contract import (
    DocumentBatch,
    DocumentTerms,
    Parameters,
    gradient_of_rows,
)
from supdocnade.likelihood.cpu import memory as scratch
from supdocnade.likelihood.cpu.threads import one_torch_thread


@dataclass(frozen=True, eq=False)
class RowGradient:
    """The gradient of a table: all of its rows, or the rows touched and their values."""

    values: NDArray[np.float32]
    rows: NDArray[np.int64] | None
    shape: tuple[int, int]
    """Of the table."""

    @classmethod
    def empty(cls, table: Tensor, rows: NDArray[np.int64] | None) -> "RowGradient":
        """Return a gradient that is still to be cleared, for all rows of a table or for some."""
        n_rows, n_columns = len(table) if rows is None else len(rows), table.shape[1]
        values = scratch.empty(n_rows * n_columns).reshape(n_rows, n_columns)
        return cls(values, rows, (len(table), n_columns))

    @cached_property
    def slots(self) -> NDArray[np.int32]:
        """Return the row of `values` that holds each row of the table (undefined if untouched)."""
        if self.rows is None:
            return np.arange(self.shape[0], dtype=np.int32)
        slots = np.empty(self.shape[0], np.int32)
        slots[self.rows] = np.arange(len(self.rows), dtype=np.int32)
        return slots

    def slots_of(self, rows_N: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the rows of `values` that hold the given rows of the table."""
        return rows_N if self.rows is None else self.slots[rows_N]

    def tensor(self) -> Tensor:
        """Return the gradient as autograd takes it, sparse if only some rows were touched."""
        values = torch.from_numpy(self.values)
        if self.rows is None:
            return values
        return gradient_of_rows(torch.from_numpy(self.rows), values, self.shape[0])


@dataclass(frozen=True, eq=False)
class Gradients:
    """Gradients of Σ_d nll_d with respect to every parameter."""

    word_embedding: RowGradient
    hidden_bias_H: NDArray[np.float32]
    node_weight: RowGradient
    node_bias_T: NDArray[np.float32]

    def scale(self, factor: float) -> None:
        """Multiply every gradient in place."""
        for values in (
            self.word_embedding.values,
            self.hidden_bias_H,
            self.node_weight.values,
            self.node_bias_T,
        ):
            values *= np.float32(factor)

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the gradients in the order of `Parameters`."""
        return (
            self.word_embedding.tensor(),
            torch.from_numpy(self.hidden_bias_H),
            self.node_weight.tensor(),
            torch.from_numpy(self.node_bias_T),
        )


class Evaluation(NamedTuple):
    """What a fused backend returns: values, and gradients where they were asked for."""

    terms: DocumentTerms
    gradients: Gradients | None


class Engine(Protocol):
    """A fused backend, bound to its output layer and activation."""

    def evaluate(
        self, batch: DocumentBatch, parameters: Parameters, *, want_gradients: bool
    ) -> Evaluation:
        """Compute the terms and, if wanted, the gradients of their sum of `nll_B`."""
        ...

    def add_summary_gradient(
        self, batch: DocumentBatch, gradients: Gradients, incoming_BH: Tensor
    ) -> None:
        """Add what flows back through `summary_BH` to the gradients of W and c."""
        ...


class _EagerNLL(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, engine: Engine, batch: DocumentBatch, wanted: bool, *parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        terms, gradients = engine.evaluate(batch, Parameters(*parameters), want_gradients=wanted)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*parameters)
        ctx.engine, ctx.batch, ctx.gradients = engine, batch, gradients
        return terms.nll_B, terms.summary_BH

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_nll_B: Tensor | None, grad_summary_BH: Tensor | None) -> Any:
        with one_torch_thread():
            return None, None, None, *_EagerNLL._gradients(ctx, grad_nll_B, grad_summary_BH)

    @staticmethod
    def _gradients(
        ctx: Any, grad_nll_B: Tensor | None, grad_summary_BH: Tensor | None
    ) -> tuple[Tensor, ...]:
        # The gradients are changed in place below: a second backward computes its own.
        gradients, ctx.gradients = ctx.gradients, None
        if grad_nll_B is None:
            grad_nll_B = ctx.saved_tensors[0].new_zeros(ctx.batch.n_documents)
        scale = _common_value(grad_nll_B)

        def compute(batch: DocumentBatch) -> Gradients:
            parameters = Parameters(*ctx.saved_tensors)
            result: Evaluation = ctx.engine.evaluate(batch, parameters, want_gradients=True)
            assert result.gradients is not None
            return result.gradients

        if scale is None:
            gradients = None  # Not two sets of them at the same time.
            gradients = compute(weigh_documents(ctx.batch, grad_nll_B))
        else:
            gradients = gradients or compute(ctx.batch)
            if scale != 1.0:
                gradients.scale(scale)
        if grad_summary_BH is not None:
            ctx.engine.add_summary_gradient(ctx.batch, gradients, grad_summary_BH)
        tensors: tuple[Tensor, ...] = gradients.tensors()
        return tensors


def _common_value(values: Tensor) -> float | None:
    """Return the value that all entries share, or None."""
    if values.numel() == 0:
        return 1.0
    if values.stride() == (0,):  # One number, as many times as there are documents.
        return values[0].item()
    least, most = values.min().item(), values.max().item()
    return least if least == most else None


def weigh_documents(batch: DocumentBatch, weight_B: Tensor) -> DocumentBatch:
    """Return the batch with every document's loss multiplied by its weight."""
    weight_N = torch.repeat_interleave(weight_B, batch.offsets_B1.diff())
    if beyond := len(batch.word_ids_N) - len(weight_N):
        weight_N = torch.nn.functional.pad(weight_N, (0, beyond))
    if batch.loss_weight_N is not None:
        weight_N = weight_N * batch.loss_weight_N
    return batch._replace(loss_weight_N=weight_N)


def differentiable(engine: Engine, batch: DocumentBatch, parameters: Parameters) -> DocumentTerms:
    """Run a fused backend so that autograd can go through it."""
    apply: Callable[..., tuple[Tensor, Tensor]] = _EagerNLL.apply
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in parameters)
    with one_torch_thread():
        return DocumentTerms(*apply(engine, batch, wanted, *parameters))
