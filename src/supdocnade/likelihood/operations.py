"""The likelihood operations, and the choice of the backend and the device that compute them.

The backend is chosen per call: the fastest one that fits the device and type of the parameters.
Within `use_backend` one of them serves all calls.
"""

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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


_FLOAT32 = (torch.float32,)
_SERVED: dict[str, tuple[tuple[str, ...], tuple[torch.dtype, ...]]] = {
    "cpu": (("cpu",), _FLOAT32),
    "cuda": (("cuda",), _FLOAT32),
    "vectorized": (("cpu", "cuda"), (torch.float32, torch.float64)),
    "reference": (("cpu",), (torch.float64,)),
}
"""Devices and types of the parameters that every backend serves."""

_AUTOMATIC = ("cpu", "cuda", "vectorized")
"""Backends that are tried, fastest first."""

_FUSED = {"cpu": "numba", "cuda": "triton"}
"""Packages of the backends whose kernels compute the activation, which cannot be a function."""

_MODULES = {
    "tree_nll": {"cpu": "likelihood.cpu.tree_walk", "cuda": "cuda.tree_bands"},
    "softmax_nll": {"cpu": "likelihood.cpu.softmax", "cuda": "cuda.softmax"},
}
"""Modules of the operations in `supdocnade`; others are `likelihood.<backend>`."""

TENSOR_CORES = (8, 0)
"""Compute capability from which GPUs multiply tf32 and bf16, as the kernels do."""


def _objection(backend: str, device: str, dtype: torch.dtype, activation: Activation) -> str | None:
    """Return why a backend cannot serve such a call, or None if it can."""
    (devices, dtypes), package = _SERVED[backend], _FUSED.get(backend)
    if package is not None and callable(activation):
        return f"its activation is {', '.join(ACTIVATIONS)}, this one is a function"
    if device not in devices:
        return f"it runs on {' or '.join(devices)}, the parameters are on {device}"
    if dtype not in dtypes:
        listed = " or ".join(str(each).removeprefix("torch.") for each in dtypes)
        return f"it takes {listed} parameters, these are {str(dtype).removeprefix('torch.')}"
    if package is not None and importlib.util.find_spec(package) is None:
        return f"it needs the package {package}, which is not installed"
    if backend == "cuda" and torch.cuda.get_device_capability() < TENSOR_CORES:
        lowest = ".".join(map(str, TENSOR_CORES))
        return f"it needs a GPU of compute capability {lowest} or above"
    return None


def choose_backend(
    device: torch.device, dtype: torch.dtype, activation: Activation = "relu"
) -> str:
    """Return the name of the backend that serves a call with such parameters."""
    request = _requested.get()
    names = _AUTOMATIC if request == "auto" else (request,)
    objections = {name: _objection(name, device.type, dtype, activation) for name in names}
    for name, objection in objections.items():
        if objection is None:
            return name
    reasons = "; ".join(f"{name!r}: {objection}" for name, objection in objections.items())
    raise BackendUnavailable(f"no backend can compute the likelihood ({reasons}).")


def load(operation: str, backend: str) -> Callable[..., DocumentTerms]:
    """Return the function of a backend, importing its module on first use."""
    module = _MODULES[operation].get(backend, f"likelihood.{backend}")
    function: Callable[..., DocumentTerms] = getattr(
        importlib.import_module(f"supdocnade.{module}"), operation
    )
    return function


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
    work: float = 0.0,
    activation: Activation = "relu",
) -> torch.device:
    """Return the device of a training.

    Parameters
    ----------
    request : "cpu"; "cuda", which raises `BackendUnavailable` if there is no GPU; or "auto", which
        takes a GPU only if its kernels serve the training and there is enough work for it.
    work : words × topics × epochs; 0 for an output layer of one's own.
    """
    check_choice("device", request, DEVICES)
    cpu, gpu, has_gpu = torch.device("cpu"), torch.device("cuda"), torch.cuda.is_available()
    if request == "cuda" and not has_gpu:
        raise BackendUnavailable(
            "device 'cuda' is not available: torch finds no GPU on this machine; "
            "'auto' takes the CPU here."
        )
    if request == "auto":
        if callable(activation) or work < MIN_GPU_WORK or not has_gpu:
            return cpu
        request = choose_backend(gpu, torch.float32)
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
    name = choose_backend(weights.device, weights.dtype, activation)
    return load("tree_nll", name)(batch, parameters, tree, activation)


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
    name = choose_backend(weights.device, weights.dtype, activation)
    return load("softmax_nll", name)(batch, parameters, activation)
