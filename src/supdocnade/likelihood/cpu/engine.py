"""The fused CPU evaluation that both output layers share, and its autograd function.

A batch is processed in blocks of documents. For each block, prefix sums give the hidden units, the
output layer computes the likelihood and overwrites the hidden units with the gradients of the
activations, and suffix sums add these to the gradient of W. Every step runs over fixed parts that
write to separate places, so the bits of the result do not depend on the number of threads.

The forward call computes the gradients along with the values, because everything they need is at
hand, and `backward` returns them. That is exact if all documents receive the same incoming
gradient, as under `nll.sum()`; otherwise `backward` evaluates the batch again with the incoming
gradients as loss weights.

Memory: the gradients, a second gradient of W up to 16,384 words, and one row of H floats per
token of a block. A block holds the documents that fit into `BLOCK_BYTES`, at least one.
"""

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import call
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.likelihood.contract import Batch, DocumentTerms, Parameters
from supdocnade.likelihood.cpu import prefix_sums
from supdocnade.threads import (
    SMALL_WORK,
    even_ranges,
    n_threads,
    one_torch_thread,
    run_parts,
)

BLOCK_BYTES = 64 * 2**20

MAX_SECOND_WORDS = 16_384
"""Vocabulary size up to which W has a second gradient (see `_add_suffixes`)."""

CACHE_LINE = 64
"""Bytes."""

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]


def _empty(n_rows: int, n_columns: int) -> Floats:
    """Return an uninitialised table that starts at a cache line, as torch's do.

    The bits of a library's products may depend on where their factors start. Torch's allocator does
    not request huge pages, which halve the cost of clearing.
    """
    size = n_rows * n_columns
    buffer = np.empty(size + CACHE_LINE // 4, np.float32)
    start = -buffer.ctypes.data % CACHE_LINE // 4
    return buffer[start : start + size].reshape(n_rows, n_columns)


@dataclass(frozen=True, eq=False)
class BatchArrays:
    """A `Batch`, or a block of its documents, as arrays with all weights filled in."""

    ids_N: Integers
    """Tokens of the whole batch, like the weights."""
    offsets_B1: NDArray[np.int64]
    """Bounds of the documents of this block among these tokens."""
    input_weight_N: Floats
    loss_weight_N: Floats
    limit: int
    """Only tokens below this id enter the summary."""

    @classmethod
    def from_batch(cls, batch: Batch, n_words: int) -> "BatchArrays":
        """Return a view of a batch; only what must be converted is copied."""
        ids_N = np.ascontiguousarray(batch.word_ids_N.numpy(), np.int32)

        def fill_weights(weights: Tensor | None) -> Floats:
            if weights is None:
                return np.ones(len(ids_N), np.float32)
            return np.ascontiguousarray(weights.detach().numpy())

        limit = n_words if batch.n_summary_words is None else batch.n_summary_words
        offsets_B1 = np.ascontiguousarray(batch.offsets_B1.numpy())
        inputs, losses = fill_weights(batch.input_weight_N), fill_weights(batch.loss_weight_N)
        return cls(ids_N, offsets_B1, inputs, losses, limit)

    def split(self, n_topics: int) -> Iterator[tuple[slice, "BatchArrays"]]:
        """Yield ranges of documents whose hidden units fit into `BLOCK_BYTES`, and their blocks."""
        max_tokens = max(BLOCK_BYTES // (4 * n_topics), 1)
        first, n_documents = 0, len(self.offsets_B1) - 1
        while first < n_documents:
            end = self.offsets_B1[first] + max_tokens
            last = max(bisect.bisect_right(self.offsets_B1, end) - 1, first + 1)
            yield slice(first, last), replace(self, offsets_B1=self.offsets_B1[first : last + 1])
            first = last

    @property
    def tokens(self) -> slice:
        """Tokens of the block among the tokens of the batch."""
        return slice(int(self.offsets_B1[0]), int(self.offsets_B1[-1]))

    @property
    def n_tokens(self) -> int:
        """Number of tokens of the block."""
        return int(self.offsets_B1[-1] - self.offsets_B1[0])


class Gradients:
    """Gradients of Σ_d nll_d by every parameter; the gradients of W and V are not cleared."""

    def __init__(self, parameters: Parameters):
        W_KH, c_H, V_TH, b_T = parameters
        self.word_embedding_KH = _empty(*W_KH.shape)
        self.hidden_bias_RH = np.zeros(_as_rows(c_H).shape, np.float32)
        self.hidden_bias_shape = c_H.shape
        self.node_weight_TH = _empty(*V_TH.shape)
        self.node_bias_T = np.zeros(len(b_T), np.float32)

    def to_tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the gradients in the order of `Parameters`."""
        return (
            torch.from_numpy(self.word_embedding_KH),
            torch.from_numpy(self.hidden_bias_RH).view(self.hidden_bias_shape),
            torch.from_numpy(self.node_weight_TH),
            torch.from_numpy(self.node_bias_T),
        )


def _as_rows(bias: Any) -> Any:
    """Return the hidden bias as a table: one row that all documents share, or one per document."""
    return bias if bias.ndim == 2 else bias[None]


def _rows_of(bias_RH: Floats, documents: slice) -> Floats:
    """Return the rows of some documents, or the row that all documents share."""
    return bias_RH if len(bias_RH) == 1 else bias_RH[documents]


class OutputLayer(Protocol):
    """The part of the model between hidden units and word probabilities."""

    def run(
        self,
        block: BatchArrays,
        hidden_NH: Floats,
        V_TH: Floats,
        b_T: Floats,
        activation: str,
        gradients: Gradients | None,
    ) -> Floats:
        """Return -w_i log p(v_i | h_i) for the tokens of a block.

        With `gradients`, also add those of V and b, and overwrite the hidden units with the
        gradients of the activations.
        """
        ...


def evaluate(
    layer: OutputLayer,
    activation: str,
    batch: Batch,
    parameters: Parameters,
    *,
    want_gradients: bool,
) -> tuple[DocumentTerms, Gradients | None]:
    """Return the terms of a batch and, if wanted, the gradients of the sum of `nll_B`."""
    W_KH, c, V_TH, b_T = (tensor.detach().contiguous().numpy() for tensor in parameters)
    c_RH, n_topics = _as_rows(c), W_KH.shape[1]
    arrays = BatchArrays.from_batch(batch, len(W_KH))
    code = prefix_sums.ACTIVATION_CODES[activation]
    nll_B = np.zeros(batch.n_documents, np.float32)
    summary_BH = np.empty((batch.n_documents, n_topics), np.float32)
    gradients = Gradients(parameters) if want_gradients else None
    to_clear: list[Floats] = []
    n_second = len(W_KH) if want_gradients and len(W_KH) <= MAX_SECOND_WORDS else 0
    second_W = _empty(n_second, n_topics)
    if gradients is not None:
        to_clear = [gradients.node_weight_TH, gradients.word_embedding_KH]
    for documents, block in arrays.split(n_topics):
        hidden_NH = _empty(block.n_tokens, n_topics)
        bias_RH, block_summary_BH = _rows_of(c_RH, documents), summary_BH[documents]
        _write_prefixes(
            block, W_KH, bias_RH, code, hidden_NH, block_summary_BH, [*to_clear, second_W]
        )
        to_clear = []
        nll_N = layer.run(block, hidden_NH, V_TH, b_T, activation, gradients)
        prefix_sums.sum_by_document(nll_N, block.offsets_B1, nll_B[documents])
        if gradients is not None:
            grad_c_RH = _rows_of(gradients.hidden_bias_RH, documents)
            _add_suffixes(block, hidden_NH, gradients.word_embedding_KH, grad_c_RH, second_W)
    for values in to_clear:  # There was no document.
        values.fill(0)
    return DocumentTerms(torch.from_numpy(nll_B), torch.from_numpy(summary_BH)), gradients


def _write_prefixes(
    block: BatchArrays,
    W_KH: Floats,
    c_RH: Floats,
    activation: int,
    hidden_NH: Floats,
    summary_BH: Floats,
    to_clear: Sequence[Floats],
) -> None:
    """Write the hidden units before every token and the summary of every document.

    Threads that finish early fill the arrays in `to_clear` with zeros.
    """
    next_document = np.zeros(1, np.int64)

    sum_documents = partial(
        prefix_sums.sum_prefixes, next_document, block.ids_N, block.offsets_B1,
        block.input_weight_N, W_KH, c_RH, activation, block.limit, hidden_NH, summary_BH,
    )  # fmt: skip
    tasks: list[Callable[[], object]] = [sum_documents] * n_threads()
    tasks += [partial(values.fill, 0) for values in to_clear]
    run_parts(call, tasks, small=hidden_NH.size < SMALL_WORK)


def _add_suffixes(
    block: BatchArrays, grad_NH: Floats, grad_W: Floats, grad_c_RH: Floats, second_W: Floats
) -> None:
    """Add the gradients of W and c, given the gradients of the activations.

    Documents share words, so threads cannot simply divide the documents. Two halves of them are
    summed separately and then added; further threads split the columns of each half. With a large
    vocabulary a second gradient of W would cost more than it saves, so all threads split columns.

    Parameters
    ----------
    grad_W, grad_c_RH : gradients of W and c, which are added to.
    second_W : zeros, for the second gradient of W; empty with a large vocabulary.
    """
    halves = even_ranges(block.offsets_B1, 2 if len(second_W) else 1)
    targets = [(grad_W, grad_c_RH)]
    targets += [(second_W, np.zeros_like(grad_c_RH)) for _ in halves[1:]]
    columns = prefix_sums.split_columns(grad_NH.shape[1], -(-n_threads() // len(halves)))

    parts: list[Callable[[], object]] = []
    for column in columns:
        for (first, last), (values, values_c) in zip(halves, targets, strict=True):
            parts.append(partial(
                prefix_sums.add_suffix_columns, *column, block.ids_N,
                block.offsets_B1[first : last + 1], block.tokens.start, block.input_weight_N,
                grad_NH, values, _rows_of(values_c, slice(first, last)),
            ))  # fmt: skip
    run_parts(call, parts, small=grad_NH.size < SMALL_WORK)
    for values, values_c in targets[1:]:
        grad_W += values
        grad_c_RH += values_c


def _add_summary_gradient(batch: Batch, gradients: Gradients, incoming_BH: Tensor) -> None:
    """Add the gradients of W and c that come from the summaries."""
    arrays = BatchArrays.from_batch(batch, len(gradients.word_embedding_KH))
    incoming = np.ascontiguousarray(incoming_BH.numpy())
    grad_W, grad_c_RH = gradients.word_embedding_KH, gradients.hidden_bias_RH

    def add_part(part: tuple[int, int]) -> None:
        prefix_sums.add_summary_columns(
            *part, arrays.ids_N, arrays.offsets_B1, arrays.input_weight_N, arrays.limit,
            incoming, grad_W, grad_c_RH,
        )  # fmt: skip

    small = len(arrays.ids_N) * grad_c_RH.shape[1] < SMALL_WORK
    run_parts(add_part, prefix_sums.split_columns(grad_c_RH.shape[1], n_threads()), small=small)


class FusedNLL(torch.autograd.Function):
    """The terms of a batch, differentiable by autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        layer: OutputLayer,
        activation: str,
        batch: Batch,
        want_gradients: bool,
        *parameters: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return `nll_B` and `summary_BH`."""
        with one_torch_thread():
            terms, gradients = evaluate(
                layer, activation, batch, Parameters(*parameters), want_gradients=want_gradients
            )
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*parameters)
        ctx.layer, ctx.activation, ctx.batch, ctx.gradients = layer, activation, batch, gradients
        return terms.nll_B, terms.summary_BH

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_nll_B: Tensor | None, grad_summary_BH: Tensor | None) -> Any:
        """Return the gradients of the parameters."""
        with one_torch_thread():
            return None, None, None, None, *FusedNLL._gradients(ctx, grad_nll_B, grad_summary_BH)

    @staticmethod
    def _gradients(
        ctx: Any, grad_nll_B: Tensor | None, grad_summary_BH: Tensor | None
    ) -> tuple[Tensor, ...]:
        # The gradients are changed in place below: a second backward computes its own.
        gradients, ctx.gradients = ctx.gradients, None
        if grad_nll_B is None:
            grad_nll_B = ctx.saved_tensors[0].new_zeros(ctx.batch.n_documents)
        factor = _common_value(grad_nll_B)

        def compute(batch: Batch) -> Gradients:
            parameters = Parameters(*ctx.saved_tensors)
            _, result = evaluate(ctx.layer, ctx.activation, batch, parameters, want_gradients=True)
            assert result is not None
            return result

        if factor is None:
            gradients = None  # Free the memory before computing the gradients again.
            gradients = compute(ctx.batch.scale_losses(grad_nll_B))
        else:
            gradients = gradients or compute(ctx.batch)
            for values in gradients.to_tensors() if factor != 1.0 else ():
                values.mul_(factor)
        if grad_summary_BH is not None:
            _add_summary_gradient(ctx.batch, gradients, grad_summary_BH)
        tensors: tuple[Tensor, ...] = gradients.to_tensors()
        return tensors


def _common_value(values: Tensor) -> float | None:
    """Return the value that all entries share, or None."""
    if values.numel() == 0:
        return 1.0
    if values.stride() == (0,):  # One number, expanded.
        return values[0].item()
    low, high = values.min().item(), values.max().item()
    return low if low == high else None
