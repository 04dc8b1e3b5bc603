"""The likelihood operations, and the choice of the backend and the device that compute them.

The backend is chosen per call: the fastest one that fits the device and type of the parameters.
Within `use_backend` one of them serves all calls.
"""

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

from supdocnade.checks import check_choice, check_shape
from supdocnade.errors import BackendUnavailable
from supdocnade.likelihood import ACTIVATIONS, Activation
from supdocnade.likelihood.contract import Batch, DocumentTerms, Parameters, check_call
from supdocnade.runs import DEVICES
from supdocnade.tree import WordTree

BACKENDS = ("reference", "vectorized", "cpu", "cuda")

_requested = ContextVar("backend", default="auto")


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Let one backend serve all calls within, for tests and benchmarks.

    A call that it cannot serve raises `BackendUnavailable`.

    Parameters
    ----------
    name : "reference" (Algorithm 1 as loops, float64), "vectorized" (plain torch), "cpu" (fused,
        float32), "cuda" (fused, float32 on a GPU), or "auto".
    """
    check_choice("backend", name, ("auto", *BACKENDS))
    token = _requested.set(name)
    try:
        yield
    finally:
        _requested.reset(token)


TENSOR_CORES = (8, 0)
"""Compute capability from which GPUs multiply tf32 and bf16, as the kernels do."""


@dataclass(frozen=True)
class Backend:
    """One implementation of an operation, and the parameters that it serves."""

    name: str
    module: str
    devices: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]
    requires: str | None = None
    """Package that must be installed."""
    capability: tuple[int, int] | None = None
    """Lowest compute capability of the GPU."""
    fused: bool = False
    """True if its kernels compute the activation, so that it must be one of `ACTIVATIONS`."""

    def objection(self, device: str, dtype: torch.dtype, activation: Activation) -> str | None:
        """Return why this backend cannot serve such a call, or None if it can."""
        if self.fused and callable(activation):
            return f"its activation is {', '.join(ACTIVATIONS)}, this one is a function"
        if device not in self.devices:
            return f"it runs on {' or '.join(self.devices)}, the parameters are on {device}"
        if dtype not in self.dtypes:
            listed = " or ".join(str(each).removeprefix("torch.") for each in self.dtypes)
            return f"it takes {listed} parameters, these are {str(dtype).removeprefix('torch.')}"
        if self.requires is not None and importlib.util.find_spec(self.requires) is None:
            return f"it needs the package {self.requires}, which is not installed"
        if self.capability is not None and torch.cuda.get_device_capability() < self.capability:
            lowest = ".".join(map(str, self.capability))
            return f"it needs a GPU of compute capability {lowest} or above"
        return None


def _backends(cpu_module: str, cuda_module: str) -> tuple[Backend, ...]:
    """Return the plain torch backend and the two fused ones, which live in the given modules."""
    here, float32 = "supdocnade.likelihood", (torch.float32,)
    floats = (torch.float32, torch.float64)
    return (
        Backend("vectorized", f"{here}.vectorized", ("cpu", "cuda"), floats),
        Backend("cpu", f"{here}.cpu.{cpu_module}", ("cpu",), float32, "numba", fused=True),
        Backend(
            "cuda",
            f"supdocnade.cuda.{cuda_module}",
            ("cuda",),
            float32,
            "triton",
            TENSOR_CORES,
            fused=True,
        ),
    )


_REFERENCE = Backend("reference", "supdocnade.likelihood.reference", ("cpu",), (torch.float64,))


class Operation:
    """An operation with several backends.

    Parameters
    ----------
    name : name of the function that every backend module defines.
    """

    automatic = ("cpu", "cuda", "vectorized")
    """Names of the backends that are tried, fastest first."""

    def __init__(self, name: str, backends: tuple[Backend, ...]):
        self.name = name
        self.backends = {backend.name: backend for backend in backends}

    def choose(
        self, device: torch.device, dtype: torch.dtype, activation: Activation = "relu"
    ) -> str:
        """Return the name of the backend that serves a call."""
        request = _requested.get()
        if request == "auto":
            return self._choose_automatically(device.type, dtype, activation)
        objection = self.backends[request].objection(device.type, dtype, activation)
        if objection is not None:
            raise BackendUnavailable(f"backend {request!r} cannot serve {self.name}: {objection}.")
        return request

    def load(self, name: str) -> Callable[..., Any]:
        """Return the function of a backend, importing its module on first use."""
        function: Callable[..., Any] = getattr(
            importlib.import_module(self.backends[name].module), self.name
        )
        return function

    def _choose_automatically(self, device: str, dtype: torch.dtype, activation: Activation) -> str:
        objections = {
            name: self.backends[name].objection(device, dtype, activation)
            for name in self.automatic
        }
        for name, objection in objections.items():
            if objection is None:
                return name
        reasons = "; ".join(f"{name!r}: {objection}" for name, objection in objections.items())
        raise BackendUnavailable(f"no backend can serve {self.name} ({reasons}).")


TREE_NLL = Operation("tree_nll", (_REFERENCE, *_backends("tree_walk", "tree_bands")))
SOFTMAX_NLL = Operation("softmax_nll", (_REFERENCE, *_backends("softmax", "softmax")))


_OWN_TRAINERS = {"cuda": ("supdocnade.cuda.graph_updates", "GraphTrainer")}
"""Modules and names of the classes that replace `training.trainer.Trainer`, by backend."""


def own_trainer(backend: str) -> Any:
    """Return the class that replaces the plain trainer for a backend, or None if there is none."""
    if backend not in _OWN_TRAINERS:
        return None
    module, name = _OWN_TRAINERS[backend]
    return getattr(importlib.import_module(module), name)


MIN_GPU_WORK = 2e9
"""Words × topics × epochs that take a CPU some seconds: less than a GPU takes to start."""


def choose_device(
    request: str,
    operation: Operation | None = None,
    activation: Activation = "relu",
    work: float = 0.0,
) -> torch.device:
    """Return the device of a training.

    Parameters
    ----------
    request : "cpu"; "cuda", which raises `BackendUnavailable` if there is no GPU; or "auto", which
        takes a GPU only if its kernels serve the training and there is enough work for it.
    operation : likelihood that is trained; None for an output layer of one's own.
    work : words × topics × epochs.
    """
    check_choice("device", request, DEVICES)
    cpu, gpu, has_gpu = torch.device("cpu"), torch.device("cuda"), torch.cuda.is_available()
    if request == "cuda" and not has_gpu:
        raise BackendUnavailable(
            "device 'cuda' is not available: torch finds no GPU on this machine; "
            "'auto' takes the CPU here."
        )
    if request == "auto":
        if operation is None or callable(activation) or work < MIN_GPU_WORK or not has_gpu:
            return cpu
        request = operation.choose(gpu, torch.float32)
    return torch.device("cuda", torch.cuda.current_device()) if request == "cuda" else cpu


def tree_nll(
    batch: Batch,
    parameters: Parameters,
    tree: WordTree,
    *,
    activation: Activation = "relu",
) -> DocumentTerms:
    """Return the weighted negative log-likelihood of every document, and its summary.

    A document of D words costs O(D · H · log K): the activations are prefix sums, and the
    probability of a word is the product of the decisions on its path.

    Parameters
    ----------
    batch : tokens, offsets and weights (`Batch`).
    parameters : W (K × H), c (H, or B × H), V (K - 1 × H) and b (K - 1).
    tree : positions of the words among the leaves.
    activation : g, one of "relu" (the paper's), "tanh", "sigmoid", or a function of a tensor, which
        the fused backends do not serve.

    Returns
    -------
    DocumentTerms : `nll_B` and `summary_BH`, differentiable with respect to all parameters.
    """
    weights = parameters.word_embedding_KH
    check_shape("word_embedding", weights.shape[:1], (tree.n_words,))
    check_call(batch, parameters, tree.n_nodes, activation)
    name = TREE_NLL.choose(weights.device, weights.dtype, activation)
    terms: DocumentTerms = TREE_NLL.load(name)(batch, parameters, tree, activation)
    return terms


def softmax_nll(
    batch: Batch,
    parameters: Parameters,
    *,
    activation: Activation = "relu",
) -> DocumentTerms:
    """Return the weighted negative log-likelihood of every document, and its summary.

    Unlike in `tree_nll`, p(v | h) = softmax(b + V h)_v, the paper's equation 2: V has a row for
    every word, and a document of D words costs O(D · H · K).

    Parameters
    ----------
    batch : tokens, offsets and weights (`Batch`).
    parameters : W (K × H), c (H, or B × H), V (K × H) and b (K).
    activation : g, one of "relu" (the paper's), "tanh", "sigmoid", or a function of a tensor, which
        the fused backends do not serve.

    Returns
    -------
    DocumentTerms : `nll_B` and `summary_BH`, differentiable with respect to all parameters.
    """
    weights = parameters.word_embedding_KH
    check_call(batch, parameters, len(weights), activation)
    name = SOFTMAX_NLL.choose(weights.device, weights.dtype, activation)
    terms: DocumentTerms = SOFTMAX_NLL.load(name)(batch, parameters, activation)
    return terms
