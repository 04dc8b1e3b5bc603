"""The fused GPU evaluation that both output layers share.

Prefix sums give the hidden units, tokens are sorted by word, and the output layer
processes tiles of them and overwrites the hidden units with the gradients of the activations. Then
come suffix sums over these gradients, and sums of the suffixes by word. Independent steps run
concurrently on two streams.

The host does not wait for the GPU: sizes that only the GPU knows have upper bounds here, and
programs without work return at once. No float is added atomically, so the same call gives the same
bits.

Memory: one row of H numbers per token, the gradients, and partial sums of V of about the same size;
where few tokens share a prefix of the tree, five times as much.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from supdocnade.cuda.prefix import (
    Chunks,
    hidden_units,
    sum_documents,
    sum_gradients,
    write_suffixes,
)
from supdocnade.cuda.rows import SLOTS, SortedTokens, sum_rows
from supdocnade.likelihood.contract import (
    Batch,
    DocumentTerms,
    FinishGradients,
    FusedTerms,
    Parameters,
)

_SIDE_STREAMS: dict[torch.cuda.Stream, torch.cuda.Stream] = {}
"""The side stream of every stream that was ever current here."""


class SideStream:
    """Work on a second stream of a GPU; without a GPU the work is done at once."""

    def __init__(
        self, current: torch.cuda.Stream | None = None, side: torch.cuda.Stream | None = None
    ):
        self.current, self.side = current, side

    def join(self, *made: Tensor) -> None:
        """Make the current stream wait for the side stream.

        Parameters
        ----------
        made : tensors that were allocated on the side stream and are used on the current one.
            Without this record, their memory could be reused on the side stream too early.
        """
        if self.current is None or self.side is None:
            return
        self.current.wait_stream(self.side)
        for tensor in made:
            tensor.record_stream(self.current)


@contextmanager
def side_stream(device: torch.device) -> Iterator[SideStream]:
    """Run the work within on a side stream, after all previous work of the current stream.

    Tensors that it reads must be kept until `SideStream.join`.
    """
    if device.type != "cuda":
        yield SideStream()
        return
    current = torch.cuda.current_stream(device)
    side = _SIDE_STREAMS.get(current)
    if side is None:
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        _SIDE_STREAMS[current] = side
    side.wait_stream(current)
    with torch.cuda.stream(side):
        yield SideStream(current, side)


PRECISIONS = {"highest": "tf32x3", "high": "tf32", "medium": "bf16"}
"""Rounding of the operands of products, by torch's `set_float32_matmul_precision`."""


def product_precision() -> str:
    """Return the rounding of the operands of products, by either of torch's settings."""
    try:
        return PRECISIONS[torch.get_float32_matmul_precision()]
    except RuntimeError:
        # Torch raises if its newer setting, for GPUs only, differs from the older one.
        exact = torch.backends.cuda.matmul.fp32_precision != "tf32"
        return "tf32x3" if exact else "tf32"


FinishNodes = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Function from a factor of all gradients, (1,) on the GPU, to the gradients of V and b."""


class OutputLayer(ABC):
    """The part of the model between hidden units and word probabilities.

    Parameters
    ----------
    key_of_word_K : key of every word, by which tokens are sorted.
    word_of_key : word of every key, -1 for none; a prefix has sixteen keys.
    """

    def __init__(self, key_of_word_K: Tensor, word_of_key: Tensor):
        self.key_of_word_K, self.word_of_key = key_of_word_K, word_of_key
        self.n_prefixes = len(word_of_key) // SLOTS

    def prepare(
        self, tokens: SortedTokens, parameters: Parameters, precision: str
    ) -> tuple[Tensor, ...]:
        """Compute what does not depend on the hidden units, which are computed concurrently."""
        return ()

    @abstractmethod
    def run(
        self,
        tokens: SortedTokens,
        parameters: Parameters,
        prepared: tuple[Tensor, ...],
        hidden_NS: Tensor,
        options: dict[str, Any],
    ) -> tuple[Tensor, FinishNodes | None]:
        """Compute the costs of all tokens and, if wanted, the gradients up to the activations.

        Parameters
        ----------
        prepared : result of `prepare`.
        options : those of kernels: ACTIVATION, PRECISION, and GRADIENTS, whether they are wanted.
        hidden_NS : the gradients of the activations are written here, if wanted.

        Returns
        -------
        nll_N : w_i · -log p(v_i | h_i).
        finish : the rest of the gradients of V and b, if wanted.
        """


def evaluate(
    layer: OutputLayer,
    activation: str,
    batch: Batch,
    parameters: Parameters,
    want_gradients: bool,
) -> tuple[DocumentTerms, FinishGradients | None]:
    """See `contract.Evaluate`."""
    precision = product_precision()
    batch = batch._replace(word_ids_N=batch.word_ids_N.int())
    device = batch.word_ids_N.device
    with side_stream(device) as side:
        tokens = SortedTokens(batch, layer.key_of_word_K, layer.n_prefixes)
        prepared = layer.prepare(tokens, parameters, precision)
    chunks = Chunks(batch)
    # Products in bf16 would round the hidden units anyway.
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    hidden_NS, summary_BH = hidden_units(chunks, parameters, activation, dtype)
    side.join(tokens.keys_N, tokens.order_N, tokens.first_row_P1, *prepared)
    options = {"ACTIVATION": activation, "PRECISION": precision, "GRADIENTS": want_gradients}
    nll_N, finish_nodes = layer.run(tokens, parameters, prepared, hidden_NS, options)
    with side_stream(device) as side:
        terms = DocumentTerms(sum_documents(nll_N, batch), summary_BH)
    if finish_nodes is None:
        side.join(terms.nll_B)
        return terms, None
    W_KH, c, _, _ = parameters
    gradient_NS = hidden_NS
    after_CH, total_BH = sum_gradients(chunks, gradient_NS, W_KH.shape[1])
    side.join(terms.nll_B)

    def finish(
        scale: Tensor, grad_summary_BH: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if grad_summary_BH is not None:
            grad_summary_BH = grad_summary_BH.contiguous()
        with side_stream(device) as side:
            grad_V, grad_b = finish_nodes(scale)
            grad_c = total_BH * scale
            if grad_summary_BH is not None:
                grad_c += grad_summary_BH
            if c.ndim == 1:
                grad_c = grad_c.sum(dim=0)
        write_suffixes(chunks, gradient_NS, after_CH, scale, grad_summary_BH)
        grad_W = W_KH.new_empty(W_KH.shape)
        sum_rows(tokens, gradient_NS, W_KH.shape[1], layer.word_of_key, grad_W, precision)
        side.join(grad_V, grad_b, grad_c)
        return grad_W, grad_c, grad_V, grad_b

    return terms, finish


def compute_terms(
    layer: OutputLayer, activation: str, batch: Batch, parameters: Parameters
) -> DocumentTerms:
    """Return the terms of a batch, differentiable by autograd."""
    # Kernels start on the current GPU, which need not be that of the parameters.
    with torch.cuda.device_of(parameters.word_embedding_KH):  # type: ignore[no-untyped-call]
        inputs = partial(evaluate, layer, activation), batch
        terms = FusedTerms.apply(*inputs, parameters.need_gradients, *parameters)  # type: ignore[no-untyped-call]
        return DocumentTerms(*terms)
