"""The fused GPU evaluation that both output layers share.

Forward: hidden units by prefix sums, tokens sorted by their words, the output layer on tiles of
them, which overwrites the hidden units with the gradients of the activations. Backward: suffix sums
over these, and their sums by word. What does not depend on each other is done side by side. Nothing
waits for the GPU: sizes that only it knows have upper bounds here, and its programs leave when
there is nothing to do; but where gradients are those of the rows touched, their number is waited
for, once, while hidden units are computed; a call that is being recorded has room for the most that
there can be instead. No float is added atomically, so the same call gives the same bits.

Memory: one row of H numbers per token, the gradients, and partial sums of V of about the same size;
where few tokens share a prefix of the tree, five times as much.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from supdocnade.likelihood.contract import (
    DocumentBatch,
    DocumentTerms,
    Parameters,
    touches_few_rows,
    wants_room_for_all_rows,
)
from supdocnade.likelihood.cuda.prefix import (
    Chunks,
    GradientSums,
    add_documents,
    hidden_units,
    sum_documents,
    sum_gradients,
    write_suffixes,
)
from supdocnade.likelihood.cuda.rows import (
    NodeSlots,
    SortedTokens,
    Sparsity,
    TouchedRows,
    sort_tokens,
    sum_rows,
)
from supdocnade.likelihood.fused_autograd import weigh_documents

# Work that a GPU does on a second stream, while it goes on with the rest.

_SECOND: dict[torch.cuda.Stream, torch.cuda.Stream] = {}
"""A second stream for every stream that was ever current here."""


@dataclass(frozen=True)
class Beside:
    """What is done beside; where there is no GPU, it simply is done."""

    current: torch.cuda.Stream | None = None
    second: torch.cuda.Stream | None = None

    def join(self, *made: Tensor) -> None:
        """Let the first stream wait for it.

        Memory goes back to the stream that it came from: tensors that were made beside and are used
        by others are named here, or the second stream could be given their memory for something
        else while the first still reads. What it reads must stay until it was waited for.
        """
        if self.current is None or self.second is None:
            return
        self.current.wait_stream(self.second)
        for tensor in made:
            tensor.record_stream(self.current)

    def read(self, numbers: Tensor) -> list[int]:
        """Wait here for numbers that were made beside, and for nothing else."""
        with torch.cuda.stream(self.second):
            found: list[int] = numbers.tolist()
        return found


@contextmanager
def beside(device: torch.device) -> Iterator[Beside]:
    """Let a GPU do something on its second stream; it begins after all that came before."""
    if device.type != "cuda":
        yield Beside()
        return
    current = torch.cuda.current_stream(device)
    second = _SECOND.get(current)
    if second is None:
        second = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        _SECOND[current] = second
    second.wait_stream(current)
    with torch.cuda.stream(second):
        yield Beside(current, second)


PRECISIONS = {"highest": "tf32x3", "high": "tf32", "medium": "bf16"}
"""How operands of products are rounded, by torch's `set_float32_matmul_precision`."""


def chosen_precision() -> str:
    """Return how operands are to be rounded, whichever of torch's switches was used."""
    try:
        return PRECISIONS[torch.get_float32_matmul_precision()]
    except RuntimeError:
        # Torch refuses to answer once its newer switch, of GPUs alone, says something else.
        exact = torch.backends.cuda.matmul.fp32_precision != "tf32"
        return "tf32x3" if exact else "tf32"


class NodeGradients(NamedTuple):
    """The gradients of V (its touched rows, where only these have one) and of b."""

    node_weight: Tensor
    node_bias_T: Tensor

    @classmethod
    def empty(cls, parameters: Parameters, sparsity: Sparsity | None) -> "NodeGradients":
        """Return room for gradients."""
        V_TH = parameters.node_weight_TH
        grad_V = V_TH.new_empty(V_TH.shape) if sparsity is None else sparsity.room(V_TH.shape[1])
        return cls(grad_V, torch.empty_like(parameters.node_bias_T))


@dataclass(frozen=True, eq=False)
class LayerInputs:
    """What an output layer is given."""

    tokens: SortedTokens
    ids_N: Tensor
    loss_weight_N: Tensor | None
    parameters: Parameters
    activation: str
    precision: str
    want_gradients: bool


FinishNodes = Callable[[Tensor], NodeGradients]
"""From one number on the GPU, which multiplies all of them, to the gradients of V and b."""


class LayerResult(NamedTuple):
    """What an output layer makes of hidden units."""

    nll_N: Tensor
    """w_i · -log p(v_i | h_i) of every token."""
    gradient_NS: Tensor
    """Of the activations, if gradients were wanted."""
    nodes: FinishNodes | None


class PreparedLayer(Protocol):
    """An output layer that waits for the hidden units."""

    @property
    def made(self) -> tuple[Tensor, ...]:
        """What it has computed so far."""
        ...

    def run(self, hidden_NS: Tensor, sparsity: Sparsity | None) -> LayerResult:
        """Compute the cost of every token and, if wanted, all gradients up to the activations.

        Parameters
        ----------
        hidden_NS : may be overwritten.
        sparsity : the rows of V that have a gradient; None: all.
        """
        ...


class OutputLayer(Protocol):
    """The part of the model between hidden units and word probabilities."""

    @property
    def key_of_word_K(self) -> Tensor:
        """By which tokens are sorted."""
        ...

    @property
    def word_of_key(self) -> Tensor:
        """The word of every key, -1 for none."""
        ...

    @property
    def n_prefixes(self) -> int:
        """Prefixes of the keys, sixteen keys each."""
        ...

    @property
    def nodes(self) -> NodeSlots | None:
        """Where the rows of V are, or None if tokens touch all of them."""
        ...

    def prepare(self, inputs: LayerInputs) -> PreparedLayer:
        """Do what needs no hidden units; they are computed at the same time."""
        ...


@dataclass(frozen=True, eq=False)
class Forward:
    """What `backward` needs of a call."""

    chunks: Chunks
    tokens: SortedTokens
    gradient_NS: Tensor
    """Of the activations."""
    sums: GradientSums
    nodes: FinishNodes
    sparsity: tuple[Sparsity | None, Sparsity | None]
    """Of V and of W; None: all rows have a gradient."""
    precision: str


@dataclass(frozen=True, eq=False)
class CUDAEngine:
    """A fused backend, bound to its output layer and activation."""

    layer: OutputLayer
    activation: str

    def forward(
        self, batch: DocumentBatch, parameters: Parameters, *, want_gradients: bool
    ) -> tuple[DocumentTerms, Forward | None]:
        """Compute the terms; with `want_gradients`, also what the gradients follow from."""
        precision = chosen_precision()
        K, T = len(parameters.word_embedding_KH), len(parameters.node_weight_TH)
        batch = batch._replace(word_ids_N=batch.word_ids_N.int())
        n_tokens, device = batch.offsets_B1[-1:], batch.word_ids_N.device
        touched = None
        with beside(device) as other:
            tokens = sort_tokens(
                batch.word_ids_N, self.layer.key_of_word_K, n_tokens, self.layer.n_prefixes
            )
            layer = self.layer.prepare(
                LayerInputs(
                    tokens, batch.word_ids_N, batch.loss_weight_N, parameters, self.activation,
                    precision, want_gradients,
                )
            )  # fmt: skip
            if want_gradients and touches_few_rows(K):
                word_of_key = self.layer.word_of_key
                touched = TouchedRows.by(tokens, self.layer.nodes, word_of_key, T, K)
        chunks = Chunks.of(batch)
        # Products in bf16 would round the hidden units anyway.
        kept = torch.bfloat16 if precision == "bf16" else torch.float32
        hidden_NS, summary_BH = hidden_units(chunks, parameters, self.activation, kept)
        bounded = wants_room_for_all_rows() or _is_recording(device)
        counts = [] if touched is None or bounded else other.read(touched.counts)
        other.join(tokens.keys_N, tokens.order_N, tokens.first_row_P1, *layer.made)
        sparsity: tuple[Sparsity | None, Sparsity | None] = None, None
        if touched is not None:
            other.join(*touched.made)
            n_tokens_most = len(tokens.keys_N)
            sparsity = touched.bounded(n_tokens_most) if bounded else touched.numbered(counts)
        nll_N, gradient_NS, nodes = layer.run(hidden_NS, sparsity[0])
        with beside(device) as other:
            terms = DocumentTerms(sum_documents(nll_N, batch), summary_BH)
        forward = None
        if nodes is not None:
            sums = sum_gradients(chunks, gradient_NS, summary_BH.shape[1])
            forward = Forward(chunks, tokens, gradient_NS, sums, nodes, sparsity, precision)
        other.join(terms.nll_B)
        return terms, forward

    def backward(
        self,
        forward: Forward,
        parameters: Parameters,
        scale: Tensor,
        grad_summary_BH: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the gradients of all parameters; what `forward` holds is used up.

        Parameters
        ----------
        scale : (1,) the gradient of every document's likelihood.
        """
        W_KH, _, V_TH, _ = parameters
        K, H = W_KH.shape
        chunks, gradient_NS, sums = forward.chunks, forward.gradient_NS, forward.sums
        if grad_summary_BH is not None:
            grad_summary_BH = grad_summary_BH.contiguous()
        with beside(W_KH.device) as other:
            grad_V, grad_b = forward.nodes(scale)
            grad_c = add_documents(sums.total_BH, scale, grad_summary_BH)
        write_suffixes(chunks, gradient_NS, sums.after_CH, scale, grad_summary_BH)
        of_nodes, of_words = forward.sparsity
        row_of_key = self.layer.word_of_key if of_words is None else of_words.row_of_slot
        grad_W = W_KH.new_empty(K, H) if of_words is None else of_words.room(H)
        sum_rows(forward.tokens, gradient_NS, H, row_of_key, grad_W, forward.precision)
        other.join(grad_V, grad_b, grad_c)
        return (
            grad_W if of_words is None else of_words.tensor(grad_W, K),
            grad_c,
            grad_V if of_nodes is None else of_nodes.tensor(grad_V, len(V_TH)),
            grad_b,
        )


def _is_recording(device: torch.device) -> bool:
    """Whether calls become part of a CUDA graph, so that nothing can be waited for."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


class _FusedNLL(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, engine: CUDAEngine, batch: DocumentBatch, wanted: bool, *parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        terms, ctx.kept = engine.forward(batch, Parameters(*parameters), want_gradients=wanted)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*parameters)
        ctx.engine, ctx.batch = engine, batch
        return terms.nll_B, terms.summary_BH

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_nll_B: Tensor | None, grad_summary_BH: Tensor | None) -> Any:
        # What was kept is changed in place: a second backward computes its own.
        kept, ctx.kept = ctx.kept, None
        parameters = Parameters(*ctx.saved_tensors)
        batch = ctx.batch
        if grad_nll_B is None:
            grad_nll_B = parameters.hidden_bias_H.new_zeros(1).expand(batch.n_documents)
        # What comes from `nll.sum()` is one number for all: it says so by its stride, without
        # waiting for the GPU. Anything else is computed again with the gradients as weights.
        common = grad_nll_B.numel() == 0 or grad_nll_B.stride(0) == 0
        if not common:
            kept, batch = None, weigh_documents(batch, grad_nll_B)
        if kept is None:
            _, kept = ctx.engine.forward(batch, parameters, want_gradients=True)
        scale = grad_nll_B[:1]
        if not common or grad_nll_B.numel() == 0:
            scale = parameters.hidden_bias_H.new_ones(1)
        gradients = ctx.engine.backward(kept, parameters, scale, grad_summary_BH)
        return None, None, None, *gradients


def differentiable(
    engine: CUDAEngine, batch: DocumentBatch, parameters: Parameters
) -> DocumentTerms:
    """Run the GPU engine so that autograd can go through it."""
    apply: Callable[..., tuple[Tensor, Tensor]] = _FusedNLL.apply
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in parameters)
    # Kernels start on the current GPU, which need not be that of the parameters.
    with torch.cuda.device_of(parameters.word_embedding_KH):  # type: ignore[no-untyped-call]
        return DocumentTerms(*apply(engine, batch, wanted, *parameters))
