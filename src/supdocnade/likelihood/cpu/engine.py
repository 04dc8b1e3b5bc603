"""The fused CPU evaluation that both output layers share.

A batch is taken in blocks of documents. For each block: hidden units by prefix sums, the output
layer on them (which overwrites them with the gradients of the activations), suffix sums into the
gradient of W. Every step runs over fixed parts that write to places of their own, so the bits of
the result do not depend on the number of threads.

Memory: the gradients, a second one of W (see `suffix`), and one row of H floats per token of a
block. A block is the documents that fit into `BLOCK_BYTES`, at least one.
"""

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.likelihood.contract import (
    DocumentBatch,
    DocumentTerms,
    Parameters,
    touches_few_rows,
)
from supdocnade.likelihood.cpu import prefix_kernels as sums
from supdocnade.likelihood.cpu.memory import ones, scratch
from supdocnade.likelihood.cpu.threads import SMALL_WORK, even_ranges, n_threads, run_parts
from supdocnade.likelihood.fused_autograd import Evaluation, Gradients, RowGradient

BLOCK_BYTES = 64 * 2**20

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]
Bounds = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Documents:
    """A `DocumentBatch` as arrays, every weight written out."""

    ids_N: Integers
    offsets_B1: Bounds
    input_weight_N: Floats
    loss_weight_N: Floats
    limit: int
    """Only tokens below this id enter the summary."""

    @classmethod
    def of(cls, batch: DocumentBatch, n_words: int) -> "Documents":
        """View a batch without copying what need not be."""
        ids_N = np.ascontiguousarray(batch.word_ids_N.numpy(), np.int32)

        def weights(given: Tensor | None) -> Floats:
            if given is None:
                return ones(len(ids_N))
            return np.ascontiguousarray(given.detach().numpy())

        limit = n_words if batch.n_summary_words is None else batch.n_summary_words
        offsets_B1 = np.ascontiguousarray(batch.offsets_B1.numpy())
        inputs, losses = weights(batch.input_weight_N), weights(batch.loss_weight_N)
        return cls(ids_N, offsets_B1, inputs, losses, limit)

    def blocks(self, n_topics: int) -> Iterator["Block"]:
        """Cut the documents where their hidden units exceed `BLOCK_BYTES`."""
        most = max(BLOCK_BYTES // (4 * n_topics), 1)
        first, n_documents = 0, len(self.offsets_B1) - 1
        while first < n_documents:
            reach = self.offsets_B1[first] + most
            last = max(bisect.bisect_right(self.offsets_B1, reach) - 1, first + 1)
            yield Block(self, first, last, n_topics)
            first = last


@dataclass(frozen=True, eq=False)
class Block:
    """The documents `first:last` of a batch."""

    documents: Documents
    first: int
    last: int
    n_topics: int

    @property
    def offsets_B1(self) -> Bounds:
        """Where the block's documents begin and end among the tokens of the batch."""
        return self.documents.offsets_B1[self.first : self.last + 1]

    @property
    def tokens(self) -> slice:
        """The block's tokens among those of the batch."""
        return slice(int(self.offsets_B1[0]), int(self.offsets_B1[-1]))

    @property
    def n_tokens(self) -> int:
        """N, the number of tokens in the block."""
        return int(self.offsets_B1[-1] - self.offsets_B1[0])

    @property
    def small(self) -> bool:
        """Whether one thread does it soonest."""
        return self.n_tokens * self.n_topics < SMALL_WORK


class OutputLayer(Protocol):
    """The part of the model between hidden units and word probabilities."""

    def touched_rows(self, ids_N: Integers) -> NDArray[np.int64] | None:
        """Return, in ascending order, the rows of V that these tokens reach; None for all."""
        ...

    def run(
        self,
        block: Block,
        hidden_NH: Floats,
        V_TH: Floats,
        b_T: Floats,
        activation: int,
        gradients: Gradients | None,
    ) -> Floats:
        """Return -w_i log p(v_i | h_i) for the block's tokens.

        With `gradients`, also add those of V and b, and overwrite the hidden units with the
        gradients of the activations.
        """
        ...


@dataclass(frozen=True, eq=False)
class CPUEngine:
    """A fused backend: an output layer between prefix and suffix sums (see `eager.Engine`)."""

    layer: OutputLayer
    activation: str

    def evaluate(
        self, batch: DocumentBatch, parameters: Parameters, *, want_gradients: bool
    ) -> Evaluation:
        """See `eager.Engine`."""
        W_KH, c_H, V_TH, b_T = (tensor.detach().contiguous().numpy() for tensor in parameters)
        documents = Documents.of(batch, len(W_KH))
        activation = sums.ACTIVATION_CODES[self.activation]
        nll_B = np.zeros(batch.n_documents, np.float32)
        summary_BH = np.empty((batch.n_documents, len(c_H)), np.float32)
        gradients = self._new_gradients(documents, parameters) if want_gradients else None
        to_clear = [] if gradients is None else [gradients.node_weight, gradients.word_embedding]
        n_others = len(W_KH) if to_clear and not touches_few_rows(len(W_KH)) else 0
        for block in documents.blocks(len(c_H)):
            own = slice(block.first, block.last)
            with (
                scratch(block.n_tokens, len(c_H)) as hidden_NH,
                scratch(n_others, len(c_H)) as other_W,
            ):
                prefix(block, W_KH, c_H, activation, hidden_NH, summary_BH[own], to_clear)
                to_clear = []
                nll_N = self.layer.run(block, hidden_NH, V_TH, b_T, activation, gradients)
                sums.sum_by_document(nll_N, block.offsets_B1, nll_B[own])
                if gradients is not None:
                    suffix(block, hidden_NH, gradients, other_W)
        for gradient in to_clear:  # There was no document.
            gradient.values.fill(0)
        terms = DocumentTerms(torch.from_numpy(nll_B), torch.from_numpy(summary_BH))
        return Evaluation(terms, gradients)

    def add_summary_gradient(
        self, batch: DocumentBatch, gradients: Gradients, incoming_BH: Tensor
    ) -> None:
        """See `eager.Engine`."""
        documents = Documents.of(batch, gradients.word_embedding.shape[0])
        slots_N = gradients.word_embedding.slots_of(documents.ids_N)
        incoming = np.ascontiguousarray(incoming_BH.numpy())
        grad_W, grad_c = gradients.word_embedding.values, gradients.hidden_bias_H

        def add(part: tuple[int, int]) -> None:
            sums.summary_columns(
                *part, documents.ids_N, slots_N, documents.offsets_B1, documents.input_weight_N,
                documents.limit, incoming, grad_W, grad_c,
            )  # fmt: skip

        small = len(slots_N) * len(grad_c) < SMALL_WORK
        run_parts(add, sums.column_parts(len(grad_c), n_threads()), small=small)

    def _new_gradients(self, documents: Documents, parameters: Parameters) -> Gradients:
        """Allocate gradients of all rows or of those that the documents touch, not yet cleared."""
        W_KH, c_H, V_TH, b_T = parameters
        word_rows = node_rows = None
        if touches_few_rows(len(W_KH)):
            seen_K = np.zeros(len(W_KH), np.bool_)
            seen_K[documents.ids_N] = True
            word_rows = np.flatnonzero(seen_K)
            node_rows = self.layer.touched_rows(documents.ids_N)
        return Gradients(
            RowGradient.empty(W_KH, word_rows),
            np.zeros(len(c_H), np.float32),
            RowGradient.empty(V_TH, node_rows),
            np.zeros(len(b_T), np.float32),
        )


def prefix(
    block: Block,
    W_KH: Floats,
    c_H: Floats,
    activation: int,
    hidden_NH: Floats,
    summary_BH: Floats,
    to_clear: Sequence[RowGradient],
) -> None:
    """Write the hidden units before every token and the summary of every document.

    Whichever thread is done first clears gradients meanwhile.
    """
    documents, offsets_B1 = block.documents, block.offsets_B1

    next_document = np.zeros(1, np.int64)

    def sum_documents() -> None:
        sums.prefix_documents(
            next_document, documents.ids_N, offsets_B1, documents.input_weight_N, W_KH, c_H,
            activation, documents.limit, hidden_NH, summary_BH,
        )  # fmt: skip

    tasks: list[Callable[[], object]] = [sum_documents] * n_threads()
    tasks += [partial(gradient.values.fill, 0) for gradient in to_clear]
    run_parts(lambda task: task(), tasks, small=block.small)


def suffix(block: Block, grad_NH: Floats, gradients: Gradients, other_W: Floats) -> None:
    """Add the gradients of W and c, given those of the activations.

    Words occur in many documents, so threads cannot simply share out the documents. Two halves of
    them are summed apart and then together; more threads than two split the columns of each half.
    With a large vocabulary a second gradient of W would cost more than it saves: there all threads
    split the columns.

    Parameters
    ----------
    other_W : room for the second gradient; not used with a large vocabulary.
    """
    documents, tokens = block.documents, block.tokens
    word, grad_c = gradients.word_embedding, gradients.hidden_bias_H
    slots_N = word.slots_of(documents.ids_N)
    halves = even_ranges(block.offsets_B1, 2 if word.rows is None else 1)
    targets = [(word.values, grad_c)]
    targets += [(other_W, np.zeros_like(grad_c)) for _ in halves[1:]]
    columns = sums.column_parts(len(grad_c), -(-n_threads() // len(halves)))

    def part_of(part: tuple[int, int]) -> None:
        half, column = part
        first, last = halves[half]
        if half > 0:
            targets[half][0][:, slice(*columns[column])] = 0
        sums.suffix_columns(
            *columns[column], slots_N, block.offsets_B1[first : last + 1], tokens.start,
            documents.input_weight_N, grad_NH, *targets[half],
        )  # fmt: skip

    parts = [(half, column) for column in range(len(columns)) for half in range(len(halves))]
    run_parts(part_of, parts, small=block.small)
    for values, values_c in targets[1:]:
        word.values[:] += values
        grad_c += values_c
