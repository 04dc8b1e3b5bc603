"""Optimisers, and what is done to gradients before them.

Dense parameters are torch's own Adam or SGD; where our kernels serve a GPU, so does our Adam. A
table whose gradient is a few touched rows gets `RowAdam`, which updates those rows only.
"""

import torch
from torch import Tensor, nn

from supdocnade.likelihood.contract import touches_few_rows
from supdocnade.likelihood.cpu.threads import one_torch_thread
from supdocnade.likelihood.operations import AdamRates, row_adam
from supdocnade.model import DocNADENetwork

BETAS = (0.9, 0.999)
EPSILON = 1e-8


class RowAdam(torch.optim.Optimizer):
    """Adam for tables with sparse gradients: only the touched rows move.

    This is not dense Adam on the same gradients: there, a row that was touched once keeps moving by
    its decaying first moment; here, a row's moments rest until the row is touched again.
    """

    def __init__(
        self, tables: list[nn.Parameter], learning_rate: float | Tensor, *, backend: str = "auto"
    ):
        # capturable: torch then loads the number of steps to where the table is.
        super().__init__(tables, {"lr": learning_rate, "capturable": tables[0].is_cuda})
        self.backend = backend

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the rows that have a gradient."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is None:
                    continue
                state = self.state[table]
                if not state:
                    state["step"] = torch.zeros((), dtype=torch.float32, device=table.device)
                    state["exp_avg"] = torch.zeros_like(table)
                    state["exp_avg_sq"] = torch.zeros_like(table)
                state["step"] += 1
                rows_R, gradient_RH = _rows(table.grad)
                step = state["step"] if table.is_cuda else int(state["step"])
                rates = AdamRates(group["lr"], *BETAS, EPSILON, step)
                moments = state["exp_avg"], state["exp_avg_sq"]
                row_adam(table, *moments, rows_R, gradient_RH, rates, backend=self.backend)


class RowSGD(torch.optim.Optimizer):
    """SGD on a GPU where some gradients are sparse.

    Torch's own would have the learning rate on the CPU, and could not be recorded.
    """

    def __init__(self, parameters: list[nn.Parameter], learning_rate: Tensor):
        super().__init__(parameters, {"lr": learning_rate})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move all parameters that have a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if not parameter.grad.is_sparse:
                    parameter.sub_(parameter.grad * group["lr"])
                    continue
                rows_R, gradient_RH = _rows(parameter.grad)
                # Every row comes once; what only fills up a list adds zero, so these additions,
                # though atomic, give the same bits every time. -1 stands for no row at all.
                parameter.index_add_(0, rows_R.clamp_min(0), gradient_RH * -group["lr"])


class OneKernelAdam(torch.optim.Adam):
    """Torch's Adam to rounding, all parameters in one kernel on a GPU."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move all parameters that have a gradient."""
        from supdocnade.likelihood.cuda.adam import Moments, dense_adam

        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            moments = []
            for parameter in parameters:
                state = self.state[parameter]
                if not state:
                    state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
                    state["exp_avg"] = torch.zeros_like(parameter)
                    state["exp_avg_sq"] = torch.zeros_like(parameter)
                moments.append(Moments(state["step"], state["exp_avg"], state["exp_avg_sq"]))
            gradients = [p.grad.contiguous() for p in parameters if p.grad is not None]
            dense_adam(parameters, gradients, moments, group["lr"], group["betas"], group["eps"])


def _rows(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return the touched rows and their gradients."""
    if not gradient.is_sparse:
        return torch.arange(len(gradient), device=gradient.device), gradient
    return gradient._indices()[0], gradient._values()


def settle_gradients(parameters: list[nn.Parameter]) -> None:
    """Add up the rows that a sparse gradient holds more than once."""
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is None or not gradient.is_sparse:
            continue
        # The fused backends give every row once, in order; torch forgets that it was told so, and
        # its `coalesce` would sort and copy all of them.
        rows_R = gradient._indices()[0]
        if not bool((rows_R.diff() > 0).all()):
            parameter.grad = gradient.coalesce()


def make_optimizers(
    network: DocNADENetwork, name: str, learning_rate: float
) -> list[torch.optim.Optimizer]:
    """Return the optimisers that together update every parameter of a network."""
    parameters = list(network.parameters())
    few_rows = touches_few_rows(network.config.n_words)
    # On a GPU an update must not wait for numbers from here, such as the learning rate.
    on_gpu = network.word_embedding.is_cuda
    rate = torch.tensor(learning_rate, device=parameters[0].device) if on_gpu else learning_rate
    if name == "sgd":
        if few_rows and isinstance(rate, Tensor):
            return [RowSGD(parameters, rate)]
        # Only the fused one leaves a learning rate where it is.
        return [torch.optim.SGD(parameters, lr=rate, fused=on_gpu or None)]
    tables: list[nn.Parameter] = []
    if few_rows:
        tables = [network.word_embedding, network.node_weight]
    dense = [p for p in parameters if not any(p is table for table in tables)]
    ours = on_gpu and network.resolved_backend == "cuda"
    kind = OneKernelAdam if ours else torch.optim.Adam
    # fused: one pass over each parameter; elementwise, so threads do not change its bits.
    optimizers: list[torch.optim.Optimizer] = [
        kind(dense, lr=rate, betas=BETAS, eps=EPSILON, fused=True, capturable=on_gpu)
    ]
    if tables:
        # What asks for plain torch gets it here, too.
        backend = ("cuda" if ours else "vectorized") if on_gpu else "auto"
        optimizers.append(RowAdam(tables, rate, backend=backend))
    return optimizers


def set_rate(optimizer: torch.optim.Optimizer, rate: float | Tensor) -> None:
    """Let the next update of an optimiser have a learning rate."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].copy_(torch.as_tensor(rate))
        else:
            group["lr"] = rate


@torch.no_grad()
def clip_gradients(parameters: list[nn.Parameter], clip_norm: float) -> Tensor:
    """Scale all gradients down to a common norm if they exceed it; return the norm they had."""
    values = [
        p.grad._values() if p.grad.is_sparse else p.grad for p in parameters if p.grad is not None
    ]
    with one_torch_thread():
        norms = [torch.linalg.vector_norm(value, dtype=torch.float64) for value in values]
        norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
        factor = (clip_norm / norm).clamp(max=1.0)
        for value in values:
            value.mul_(factor)
    return norm
