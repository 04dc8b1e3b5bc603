"""Arguments and results of the likelihood operations, the same for all backends.

For a document v of D tokens with input weights x and loss weights w,

    a_i   = c + Σ_{k<i} x_k W[v_k]          h_i = g(a_i)
    nll   = Σ_i -w_i log p(v_i | h_i)
    summary = c + Σ_k x_k W[v_k]            over the tokens with v_k < n_summary_words

where p is the tree of binary decisions (`tree_nll`) or one softmax (`softmax_nll`) over rows of V
and b. `summary` is the activation behind the paper's h_y: g(summary) is the topic representation.
c is one vector, or one vector per document, then with one gradient per document. Both outputs are
differentiable with respect to W, c, V and b. Names of arrays end in their axes (`checks.py`).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.likelihood import ACTIVATIONS, Activation
from supdocnade.threads import limit_threads

# Torch's vector math library selects its code at the first call of each function. If two threads
# make that call at the same time, one may get another variant with other last bits
# (docs/decisions/0003-equal-bits.md). An import runs in one thread, so the first call is made here.
for _function in (torch.exp, torch.log, torch.tanh, torch.sigmoid):
    _function(torch.zeros(1))


class Batch(NamedTuple):
    """Concatenated documents, without padding."""

    word_ids_N: Tensor
    """Tokens, int32 or int64, each in 0 .. K - 1."""
    offsets_B1: Tensor
    """Bounds of the documents, int64: document d owns the tokens `offsets[d]:offsets[d + 1]`."""
    input_weight_N: Tensor | None = None
    """Factors x of W[v] in the prefix sum; ones if None."""
    loss_weight_N: Tensor | None = None
    """Factors w of -log p; ones if None."""
    n_summary_words: int | None = None
    """Limit of the ids of tokens that enter the summary; all tokens if None."""
    checked: bool = False
    """If True, the documents are not validated, which would wait for a GPU. The token arrays may
    then be longer than `offsets_B1` says, for the `cuda` backend."""
    global_features_BF: Tensor | None = None
    """Global features, from which the network computes the hidden bias of every document. The
    operations do not read them, nor what follows, which is for the objective."""
    label_B: Tensor | None = None
    """Class numbers, `NO_LABEL` where unknown."""
    weight_B: Tensor | None = None
    """Weights of the documents; ones if None."""
    tag_BA: Tensor | None = None
    """Annotations that are not words: 1, 0, or `NO_LABEL` where unknown."""
    label_BC: Tensor | None = None
    """Labels where a document may have several: 1, 0, or `NO_LABEL` where unknown."""

    @property
    def n_documents(self) -> int:
        """B, the number of documents."""
        return len(self.offsets_B1) - 1

    def scale_losses(self, factor_B: Tensor) -> "Batch":
        """Return the batch with the loss of every document multiplied by a factor."""
        weight_N = torch.repeat_interleave(factor_B, self.offsets_B1.diff())
        if n_unused := len(self.word_ids_N) - len(weight_N):
            weight_N = torch.nn.functional.pad(weight_N, (0, n_unused))
        if self.loss_weight_N is not None:
            weight_N = weight_N * self.loss_weight_N
        return self._replace(loss_weight_N=weight_N)

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on another device."""
        if self.word_ids_N.device == device:
            return self
        moved: dict[str, Any] = {
            name: each.to(device)
            for name, each in self._asdict().items()
            if isinstance(each, Tensor)
        }
        return self._replace(**moved)


class Parameters(NamedTuple):
    """The parameters of DocNADE."""

    word_embedding_KH: Tensor
    """W, one row per word (the paper writes H × K)."""
    hidden_bias_H: Tensor
    """c; or (B, H), one row per document."""
    node_weight_TH: Tensor
    """V, one row per inner node of the tree, or per word for the softmax."""
    node_bias_T: Tensor
    """b."""

    @property
    def need_gradients(self) -> bool:
        """Return whether autograd will ask for the gradient of a parameter."""
        return torch.is_grad_enabled() and any(each.requires_grad for each in self)


class DocumentTerms(NamedTuple):
    """Likelihood and summary of every document of a batch."""

    nll_B: Tensor
    """Weighted negative log-likelihood in nats."""
    summary_BH: Tensor
    """Activations behind the topic representation, before g."""


FinishGradients = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor, Tensor, Tensor]]
"""Function from the gradient of every likelihood, (1,), and of the summaries, if they have one, to
those of all parameters. It overwrites what it needs, so it can be called once."""

Evaluate = Callable[[Batch, Parameters, bool], tuple[DocumentTerms, FinishGradients | None]]
"""Function that returns the terms of a batch and, if the last argument asks for gradients, the
function that finishes them."""


class FusedTerms(torch.autograd.Function):
    """The terms of a backend whose forward call also computes gradients, which has all they need.

    That is exact if all likelihoods receive the same gradient, as under `nll_B.sum()`. Otherwise
    `backward` evaluates the batch again with their gradients as loss weights.
    """

    @staticmethod
    def forward(
        ctx: Any, evaluate: Evaluate, batch: Batch, want_gradients: bool, *parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return `nll_B` and `summary_BH`."""
        with _limit_torch(parameters[0]):
            terms, ctx.finish = evaluate(batch, Parameters(*parameters), want_gradients)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*parameters)
        ctx.evaluate, ctx.batch = evaluate, batch
        return terms.nll_B, terms.summary_BH

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_nll_B: Tensor | None, grad_summary_BH: Tensor | None) -> Any:
        """Return the gradients of the parameters."""
        finish, ctx.finish = ctx.finish, None  # A second backward computes its own.
        parameters, batch = Parameters(*ctx.saved_tensors), ctx.batch
        if grad_nll_B is None:
            grad_nll_B = parameters.node_bias_T.new_zeros(1).expand(batch.n_documents)
        with _limit_torch(parameters.node_bias_T):
            # One number that was expanded has the stride 0, which shows without waiting for a GPU.
            common = grad_nll_B.numel() == 0 or grad_nll_B.stride(0) == 0
            if not common:
                finish, batch = None, batch.scale_losses(grad_nll_B)
            if finish is None:
                _, finish = ctx.evaluate(batch, parameters, True)
            use_given = common and grad_nll_B.numel() > 0
            scale = grad_nll_B[:1] if use_given else parameters.node_bias_T.new_ones(1)
            return None, None, None, *finish(scale, grad_summary_BH)


def _limit_torch(tensor: Tensor) -> AbstractContextManager[None]:
    """Run torch on one thread if it computes on a CPU."""
    return nullcontext() if tensor.is_cuda else limit_threads()


def activate(activation: Activation, values: Tensor) -> Tensor:
    """Return g(values)."""
    if callable(activation):
        result: Tensor = activation(values)
        return result
    match activation:
        case "relu":
            return torch.relu(values)
        case "tanh":
            return torch.tanh(values)
        case _:
            return torch.sigmoid(values)


def check_call(
    batch: Batch, parameters: Parameters, n_output_rows: int, activation: Activation
) -> None:
    """Raise `InvalidArgument` unless batch and parameters fit together.

    Parameters
    ----------
    n_output_rows : the number of rows that V and b must have.
    """
    if not callable(activation) and activation not in ACTIVATIONS:
        raise InvalidArgument(f"activation must be one of {ACTIVATIONS}, got {activation!r}.")
    _check_parameters(parameters, n_output_rows)
    if not batch.checked:
        _check_documents(batch, len(parameters.word_embedding_KH))
    _check_weights(batch, parameters.hidden_bias_H.dtype)
    _check_hidden_bias(batch, parameters)
    devices = {tensor.device for tensor in (*batch[:4], *parameters) if tensor is not None}
    if len(devices) > 1:
        listed = ", ".join(sorted(map(str, devices)))
        raise InvalidArgument(f"batch and parameters must be on one device, got {listed}.")


def _check_parameters(parameters: Parameters, n_output_rows: int) -> None:
    W_KH, _, V_TH, b_T = parameters
    if W_KH.ndim != 2 or 0 in W_KH.shape:
        raise InvalidArgument(
            f"word_embedding must have shape (words, topics), got {tuple(W_KH.shape)}."
        )
    n_topics = W_KH.shape[1]
    check_shape("node_weight", V_TH.shape, (n_output_rows, n_topics))
    check_shape("node_bias", b_T.shape, (n_output_rows,))
    dtypes = {tensor.dtype for tensor in parameters}
    if len(dtypes) > 1 or not W_KH.is_floating_point():
        listed = ", ".join(sorted(map(str, dtypes)))
        raise InvalidArgument(f"parameters must share one floating-point type, got {listed}.")


def _check_hidden_bias(batch: Batch, parameters: Parameters) -> None:
    shape, n_topics = parameters.hidden_bias_H.shape, parameters.word_embedding_KH.shape[1]
    per_document = len(shape) == 2
    check_shape(
        "hidden_bias", shape, (batch.n_documents, n_topics) if per_document else (n_topics,)
    )


def _check_documents(batch: Batch, n_words: int) -> None:
    ids, offsets = batch.word_ids_N, batch.offsets_B1
    if ids.ndim != 1 or ids.dtype not in (torch.int32, torch.int64):
        raise InvalidArgument(
            "word_ids must be a one-dimensional int32 or int64 tensor, "
            f"got shape {tuple(ids.shape)} of {ids.dtype}."
        )
    if offsets.ndim != 1 or len(offsets) == 0 or offsets.dtype != torch.int64:
        raise InvalidArgument(
            "offsets must be a one-dimensional int64 tensor with one entry more than documents, "
            f"got shape {tuple(offsets.shape)} of {offsets.dtype}."
        )
    bounds = offsets.tolist()
    if bounds[0] != 0 or bounds[-1] != len(ids) or bounds != sorted(bounds):
        raise InvalidArgument(
            f"offsets must rise from 0 to the number of tokens, {len(ids)}, "
            f"got {bounds[0]} to {bounds[-1]}."
        )
    if len(ids):
        low, high = _id_range(ids)
        if low < 0 or high >= n_words:
            raise InvalidArgument(f"word_ids must lie in 0 .. {n_words - 1}, got {low} .. {high}.")
    limit = batch.n_summary_words
    if limit is not None and not 0 <= limit <= n_words:
        raise InvalidArgument(f"n_summary_words must lie in 0 .. {n_words}, got {limit}.")


def _id_range(ids: Tensor) -> tuple[int, int]:
    """Return the smallest and the largest id.

    On a CPU numpy searches: above some ten thousand entries torch would wake its threads, which
    costs more than the search and hangs in a forked child.
    """
    if ids.device.type == "cpu":
        return int(ids.numpy().min()), int(ids.numpy().max())
    low, high = torch.aminmax(ids)
    return int(low), int(high)


def _check_weights(batch: Batch, dtype: torch.dtype) -> None:
    for name in ("input_weight_N", "loss_weight_N"):
        weight = getattr(batch, name)
        if weight is None:
            continue
        check_shape(name[:-2], weight.shape, batch.word_ids_N.shape)
        if weight.dtype != dtype:
            raise InvalidArgument(
                f"{name[:-2]} must have the type of the parameters, {dtype}, got {weight.dtype}."
            )
