"""What the likelihood operations take and return, whichever backend computes them.

For a document v of D tokens with input weights x and loss weights w,

    a_i   = c + Σ_{k<i} x_k W[v_k]          h_i = g(a_i)
    nll   = Σ_i -w_i log p(v_i | h_i)
    summary = c + Σ_k x_k W[v_k]            over the tokens with v_k < n_summary_words

where p is the tree of binary decisions (`tree_nll`) or one softmax (`softmax_nll`) over rows of V
and b. `summary` is the activation behind the paper's h_y: g(summary) is the topic representation.
Both outputs are differentiable with respect to W, c, V and b.
"""

import functools
import importlib
import importlib.util
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from supdocnade.checks import check_shape
from supdocnade.errors import BackendUnavailable, InvalidArgument

ACTIVATIONS = ("relu", "tanh", "sigmoid")

SPARSE_ROWS = 16_384
"""With more words than this, gradients of W and V are (rows touched, values): torch sparse tensors.

A dense gradient of 100,000 words × 200 topics is 80 MB, which costs more to write, clear and apply
than the likelihood itself when a batch touches a small part of it.
"""


def touches_few_rows(n_words: int) -> bool:
    """Return whether gradients of W and V are those of the rows touched, for this vocabulary."""
    return n_words > SPARSE_ROWS


_ROOM_FOR_ALL = ContextVar("room_for_all", default=False)


@contextmanager
def room_for_all_rows() -> Iterator[None]:
    """Let `cuda` give its sparse gradients room for the most rows there can be, for a while.

    It does so by itself in calls that are recorded, since it cannot wait for their number.
    """
    before = _ROOM_FOR_ALL.set(True)
    try:
        yield
    finally:
        _ROOM_FOR_ALL.reset(before)


def wants_room_for_all_rows() -> bool:
    """Whether `room_for_all_rows` is at work."""
    return _ROOM_FOR_ALL.get()


def gradient_of_rows(rows_R: Tensor, values_RH: Tensor, n_rows: int) -> Tensor:
    """Return the gradient of a table, of which some rows are touched, as autograd takes it."""
    _say_once_that_nothing_is_checked()
    return torch.sparse_coo_tensor(
        rows_R[None], values_RH, (n_rows, values_RH.shape[1]),
        is_coalesced=True, check_invariants=False,
    )  # fmt: skip


@functools.cache
def _say_once_that_nothing_is_checked() -> None:
    """Confirm what is so anyway, unless someone has asked for checks.

    Torch 2.11 warns of every process that has not, whatever `check_invariants` says.
    """
    checks = torch.sparse.check_sparse_tensor_invariants
    if not checks.is_enabled():  # type: ignore[no-untyped-call]
        checks.disable()  # type: ignore[no-untyped-call]


class DocumentBatch(NamedTuple):
    """Documents one after the other, without padding."""

    word_ids_N: Tensor
    """int32 or int64: the tokens, each below K."""
    offsets_B1: Tensor
    """int64: document d owns the tokens `offsets[d]:offsets[d + 1]`."""
    input_weight_N: Tensor | None = None
    """What multiplies W[v] in the prefix sum; all ones when absent."""
    loss_weight_N: Tensor | None = None
    """What multiplies -log p; all ones when absent."""
    n_summary_words: int | None = None
    """Only tokens below this id enter the summary; all of them when absent."""
    checked: bool = False
    """Whoever made the batch vouches for it: it is not looked at, which would wait for a GPU. For
    the `cuda` backend the tables of tokens may then be longer than `offsets_B1` says."""

    @property
    def n_documents(self) -> int:
        """B."""
        return len(self.offsets_B1) - 1

    def to(self, device: torch.device) -> "DocumentBatch":
        """Return the batch on another device."""
        if self.word_ids_N.device == device:
            return self
        input_N, loss_N = self.input_weight_N, self.loss_weight_N
        return self._replace(
            word_ids_N=self.word_ids_N.to(device),
            offsets_B1=self.offsets_B1.to(device),
            input_weight_N=None if input_N is None else input_N.to(device),
            loss_weight_N=None if loss_N is None else loss_N.to(device),
        )


class Parameters(NamedTuple):
    """The parameters of DocNADE."""

    word_embedding_KH: Tensor
    """W, one row per word (the paper writes H × K)."""
    hidden_bias_H: Tensor
    """c."""
    node_weight_TH: Tensor
    """V, one row per inner node of the tree, or per word for the softmax."""
    node_bias_T: Tensor
    """b."""


class DocumentTerms(NamedTuple):
    """What a batch of documents costs and what it amounts to."""

    nll_B: Tensor
    """Weighted negative log-likelihood in nats."""
    summary_BH: Tensor
    """Activation of the topic representation."""


def activate(name: str, values: Tensor) -> Tensor:
    """Return g(values) for one of `ACTIVATIONS`."""
    match name:
        case "relu":
            return torch.relu(values)
        case "tanh":
            return torch.tanh(values)
        case _:
            return torch.sigmoid(values)


def check_call(
    batch: DocumentBatch, parameters: Parameters, n_output_rows: int, activation: str
) -> None:
    """Raise `InvalidArgument` unless batch and parameters fit together.

    Parameters
    ----------
    n_output_rows : the rows that V and b must have.
    """
    if activation not in ACTIVATIONS:
        raise InvalidArgument(f"activation must be one of {ACTIVATIONS}, got {activation!r}.")
    _check_parameters(parameters, n_output_rows)
    if not batch.checked:
        _check_documents(batch, n_words=len(parameters.word_embedding_KH))
    _check_weights(batch, parameters.hidden_bias_H.dtype)
    places = {tensor.device for tensor in (*batch[:4], *parameters) if tensor is not None}
    if len(places) > 1:
        listed = ", ".join(sorted(map(str, places)))
        raise InvalidArgument(f"batch and parameters must be on one device, got {listed}.")


def _check_parameters(parameters: Parameters, n_output_rows: int) -> None:
    W_KH, c_H, V_TH, b_T = parameters
    if W_KH.ndim != 2 or 0 in W_KH.shape:
        raise InvalidArgument(
            f"word_embedding must have shape (words, topics), got {tuple(W_KH.shape)}."
        )
    n_topics = W_KH.shape[1]
    check_shape("hidden_bias", c_H.shape, (n_topics,))
    check_shape("node_weight", V_TH.shape, (n_output_rows, n_topics))
    check_shape("node_bias", b_T.shape, (n_output_rows,))
    kinds = {tensor.dtype for tensor in parameters}
    if len(kinds) > 1 or not W_KH.is_floating_point():
        listed = ", ".join(sorted(map(str, kinds)))
        raise InvalidArgument(f"parameters must share one floating-point type, got {listed}.")


def _check_documents(batch: DocumentBatch, n_words: int) -> None:
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
    if len(ids) and not _all_below(ids, n_words):
        least, most = _extremes(ids)
        raise InvalidArgument(f"word_ids must lie in 0 .. {n_words - 1}, got {least} .. {most}.")
    limit = batch.n_summary_words
    if limit is not None and not 0 <= limit <= n_words:
        raise InvalidArgument(f"n_summary_words must lie in 0 .. {n_words}, got {limit}.")


# Above some ten thousand entries torch would wake its threads for these, which costs more than the
# search and hangs in a forked child: on a CPU numpy searches.


def _all_below(ids: Tensor, n_words: int) -> bool:
    """Return whether ids lie in 0 .. n_words - 1, in one pass where that can be."""
    if ids.device.type == "cpu":
        numbers = ids.numpy()
        # Read without a sign, numbers below zero are the largest.
        return int(numbers.view(f"u{numbers.itemsize}").max()) < n_words
    least, most = _extremes(ids)
    return least >= 0 and most < n_words


def _extremes(ids: Tensor) -> tuple[int, int]:
    if ids.device.type == "cpu":
        return int(ids.numpy().min()), int(ids.numpy().max())
    least, most = torch.aminmax(ids)
    return int(least), int(most)


def _check_weights(batch: DocumentBatch, dtype: torch.dtype) -> None:
    for name in ("input_weight_N", "loss_weight_N"):
        weight = getattr(batch, name)
        if weight is None:
            continue
        check_shape(name[:-2], weight.shape, batch.word_ids_N.shape)
        if weight.dtype != dtype:
            raise InvalidArgument(
                f"{name[:-2]} must have the type of the parameters, {dtype}, got {weight.dtype}."
            )


# Which implementation serves a call: chosen per call, never by rebinding names.
#
# A backend that is asked for by name either serves the call or raises; `"auto"` takes the fastest
# one that fits the device and type of the parameters, and reports its choice once through
# `logging`.

logger = logging.getLogger("supdocnade")


@dataclass(frozen=True)
class Backend:
    """One implementation of an operation: where it lives and what it serves."""

    name: str
    module: str
    devices: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]
    requires: str | None = None
    capability: tuple[int, int] | None = None
    """Of a GPU, at least."""

    def objection(self, device: str, dtype: torch.dtype) -> str | None:
        """Return why this backend cannot serve such parameters, or None if it can."""
        if device not in self.devices:
            return f"it runs on {' or '.join(self.devices)}, the parameters are on {device}"
        if dtype not in self.dtypes:
            listed = " or ".join(str(each).removeprefix("torch.") for each in self.dtypes)
            return f"it takes {listed} parameters, these are {str(dtype).removeprefix('torch.')}"
        if self.requires is not None and importlib.util.find_spec(self.requires) is None:
            return f"it needs the package {self.requires}, which is not installed"
        if self.capability is not None and torch.cuda.get_device_capability() < self.capability:
            least = ".".join(map(str, self.capability))
            return f"it needs a GPU of compute capability {least} or above"
        return None


FLOATS = (torch.float32, torch.float64)

TENSOR_CORES = (8, 0)
"""Compute capability of GPUs that multiply tf32 and bf16: the kernels are compiled for these."""


class Operation:
    """An operation with several backends; `automatic` names those tried unasked, fastest first."""

    def __init__(self, name: str, backends: tuple[Backend, ...], automatic: tuple[str, ...]):
        self.name = name
        self.backends = {backend.name: backend for backend in backends}
        self.automatic = automatic
        self._reported: set[tuple[str, str, torch.dtype]] = set()

    def choose(self, request: str, device: torch.device, dtype: torch.dtype) -> str:
        """Return the name of the backend that serves `request`."""
        if request == "auto":
            return self._choose_automatically(device.type, dtype)
        if request not in self.backends:
            known = ", ".join(repr(name) for name in ("auto", *self.backends))
            raise InvalidArgument(f"backend must be one of {known}, got {request!r}.")
        objection = self.backends[request].objection(device.type, dtype)
        if objection is not None:
            raise BackendUnavailable(f"backend {request!r} cannot serve {self.name}: {objection}.")
        return request

    def load(self, name: str) -> Callable[..., Any]:
        """Return the function of a backend, importing its module on first use."""
        function: Callable[..., Any] = getattr(
            importlib.import_module(self.backends[name].module), self.name
        )
        return function

    def _choose_automatically(self, device: str, dtype: torch.dtype) -> str:
        objections = {name: self.backends[name].objection(device, dtype) for name in self.automatic}
        for name, objection in objections.items():
            if objection is None:
                report = (name, device, dtype)
                if report not in self._reported:
                    self._reported.add(report)
                    logger.info("%s: backend %r on %s with %s", self.name, *report)
                return name
        reasons = "; ".join(f"{name!r}: {objection}" for name, objection in objections.items())
        raise BackendUnavailable(f"no backend can serve {self.name} ({reasons}).")
