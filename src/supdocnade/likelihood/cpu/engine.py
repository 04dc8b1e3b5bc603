"""The fused CPU evaluation that both output layers share.

A batch is processed in blocks of documents. For each block, prefix sums give the hidden units, the
output layer computes the likelihood and overwrites the hidden units with the gradients of the
activations, and suffix sums add these to the gradient of W. Every step runs over fixed parts that
write to separate places, so the bits of the result do not depend on the number of threads.

Memory: the gradients, a second gradient of W up to 16,384 words, and one row of H floats per
token of a block. A block holds the documents that fit into `BLOCK_BYTES`, at least one.
"""

import bisect
from collections.abc import Callable, Iterator
from functools import partial
from operator import call
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.likelihood.contract import Batch, DocumentTerms, FinishGradients, Parameters
from supdocnade.likelihood.cpu import prefix_sums
from supdocnade.threads import SMALL_WORK, even_ranges, n_threads, run_parts

BLOCK_BYTES = 64 * 2**20

MAX_SECOND_WORDS = 16_384
"""Vocabulary size up to which W has a second gradient (see `_add_suffixes`)."""

CACHE_LINE = 64
"""Bytes."""

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]
Offsets = NDArray[np.int64]


def _table(n_rows: int, n_columns: int, allocate: Callable[..., Any] = np.zeros) -> Floats:
    """Return a table that starts at a cache line, as torch's do.

    The bits of a library's products may depend on where their factors start. Torch's allocator does
    not request huge pages, which halve the cost of clearing.
    """
    size = n_rows * n_columns
    buffer: Floats = allocate(size + CACHE_LINE // 4, np.float32)
    start = -buffer.ctypes.data % CACHE_LINE // 4
    return buffer[start : start + size].reshape(n_rows, n_columns)


def _fill_weights(weights: Tensor | None, n_tokens: int) -> Floats:
    """Return weights as an array, ones if there are none."""
    if weights is None:
        return np.ones(n_tokens, np.float32)
    return np.ascontiguousarray(weights.detach().numpy())


def _split_documents(offsets_B1: Offsets, n_topics: int) -> Iterator[slice]:
    """Yield ranges of documents whose hidden units fit into `BLOCK_BYTES`."""
    max_tokens = max(BLOCK_BYTES // (4 * n_topics), 1)
    first, n_documents = 0, len(offsets_B1) - 1
    while first < n_documents:
        last = bisect.bisect_right(offsets_B1, offsets_B1[first] + max_tokens) - 1
        yield slice(first, max(last, first + 1))
        first = max(last, first + 1)


def _rows_of(bias_RH: Floats, documents: slice) -> Floats:
    """Return the rows of some documents, or the row that all documents share."""
    return bias_RH if len(bias_RH) == 1 else bias_RH[documents]


OutputLayer = Callable[[Integers, Floats, Floats, Floats, Floats, str, Floats, Floats], Floats]
"""The part of the model between hidden units and word probabilities: a function of ids_N,
loss_weight_N, hidden_NH, V_TH, b_T, the activation, grad_V_TH and grad_b_T.

It returns -w_i log p(v_i | h_i) for the tokens of a block. Unless `grad_V_TH` is empty, it also
adds the gradients of V and b, and overwrites the hidden units with the gradients of the
activations."""


def evaluate(
    layer: OutputLayer,
    activation: str,
    batch: Batch,
    parameters: Parameters,
    want_gradients: bool,
) -> tuple[DocumentTerms, FinishGradients | None]:
    """See `contract.Evaluate`."""
    W_KH, c, V_TH, b_T = (tensor.detach().contiguous().numpy() for tensor in parameters)
    c_RH, (n_words, n_topics) = np.atleast_2d(c), W_KH.shape
    ids_N = np.ascontiguousarray(batch.word_ids_N.numpy(), np.int32)
    offsets_B1 = np.ascontiguousarray(batch.offsets_B1.numpy())
    input_weight_N = _fill_weights(batch.input_weight_N, len(ids_N))
    loss_weight_N = _fill_weights(batch.loss_weight_N, len(ids_N))
    code = prefix_sums.ACTIVATION_CODES[activation]
    limit = n_words if batch.n_summary_words is None else batch.n_summary_words
    nll_B = np.zeros(batch.n_documents, np.float32)
    summary_BH = np.empty((batch.n_documents, n_topics), np.float32)
    grad_W = _table(n_words if want_gradients else 0, n_topics)
    grad_V = _table(len(V_TH) if want_gradients else 0, n_topics)
    grad_c_RH, grad_b = np.zeros_like(c_RH), np.zeros_like(b_T)
    for documents in _split_documents(offsets_B1, n_topics):
        bounds = offsets_B1[documents.start : documents.stop + 1]
        tokens = slice(int(bounds[0]), int(bounds[-1]))
        hidden_NH = _table(tokens.stop - tokens.start, n_topics, np.empty)
        sum_documents = partial(
            prefix_sums.sum_prefixes, np.zeros(1, np.int64), ids_N, bounds, input_weight_N, W_KH,
            _rows_of(c_RH, documents), code, limit, hidden_NH, summary_BH[documents],
        )  # fmt: skip
        run_parts(call, [sum_documents] * n_threads(), small=hidden_NH.size < SMALL_WORK)
        nll_N = layer(
            ids_N[tokens], loss_weight_N[tokens], hidden_NH, V_TH, b_T, activation, grad_V, grad_b
        )
        prefix_sums.sum_by_document(nll_N, bounds, nll_B[documents])
        if want_gradients:
            grad_rows = _rows_of(grad_c_RH, documents)
            _add_suffixes(ids_N, bounds, input_weight_N, hidden_NH, grad_W, grad_rows)

    def finish(
        scale: Tensor, grad_summary_BH: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        results = [torch.from_numpy(each) for each in (grad_W, grad_c_RH, grad_V, grad_b)]
        factor = float(scale)
        for gradient in results if factor != 1.0 else ():
            gradient.mul_(factor)
        if grad_summary_BH is not None:
            incoming_BH = np.ascontiguousarray(grad_summary_BH.numpy())
            documents = ids_N, offsets_B1, input_weight_N, limit
            _add_summary_gradient(*documents, incoming_BH, grad_W, grad_c_RH)
        return results[0], results[1].view(c.shape), results[2], results[3]

    terms = DocumentTerms(torch.from_numpy(nll_B), torch.from_numpy(summary_BH))
    return terms, finish if want_gradients else None


def _add_suffixes(
    ids_N: Integers,
    bounds: Offsets,
    input_weight_N: Floats,
    grad_NH: Floats,
    grad_W: Floats,
    grad_c_RH: Floats,
) -> None:
    """Add the gradients of W and c, given the gradients of the activations of a block.

    Documents share words, so threads cannot simply divide the documents. Two halves of them are
    summed separately and then added; further threads split the columns of each half. With a large
    vocabulary a second gradient of W would cost more than it saves, so all threads split columns.

    Parameters
    ----------
    bounds : offsets of the documents of the block.
    grad_W, grad_c_RH : gradients of W and c, which are added to.
    """
    halves = even_ranges(bounds, 2 if len(grad_W) <= MAX_SECOND_WORDS else 1)
    targets = [(grad_W, grad_c_RH)]
    targets += [(_table(*grad_W.shape), np.zeros_like(grad_c_RH)) for _ in halves[1:]]
    columns = prefix_sums.split_columns(grad_NH.shape[1], -(-n_threads() // len(halves)))

    parts: list[Callable[[], object]] = []
    for column in columns:
        for (first, last), (values, values_c) in zip(halves, targets, strict=True):
            parts.append(partial(
                prefix_sums.add_suffix_columns, *column, ids_N, bounds[first : last + 1],
                int(bounds[0]), input_weight_N, grad_NH, values,
                _rows_of(values_c, slice(first, last)),
            ))  # fmt: skip
    run_parts(call, parts, small=grad_NH.size < SMALL_WORK)
    for values, values_c in targets[1:]:
        grad_W += values
        grad_c_RH += values_c


def _add_summary_gradient(
    ids_N: Integers,
    offsets_B1: Offsets,
    input_weight_N: Floats,
    limit: int,
    incoming_BH: Floats,
    grad_W: Floats,
    grad_c_RH: Floats,
) -> None:
    """Add the gradients of W and c that come from the summaries."""

    def add_part(part: tuple[int, int]) -> None:
        prefix_sums.add_summary_columns(
            *part, ids_N, offsets_B1, input_weight_N, limit, incoming_BH, grad_W, grad_c_RH
        )

    small = len(ids_N) * grad_c_RH.shape[1] < SMALL_WORK
    run_parts(add_part, prefix_sums.split_columns(grad_c_RH.shape[1], n_threads()), small=small)
