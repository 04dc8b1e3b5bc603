"""Optimizers, and the preparation of gradients for them.

Dense parameters use torch's own Adam or SGD. Tables with sparse gradients use `RowAdam`, which
updates the touched rows only.
"""

from typing import Any

import torch
from torch import Tensor, nn

from supdocnade.likelihood.contract import has_sparse_gradients
from supdocnade.likelihood.operations import ADAM_BETAS, ADAM_EPSILON, row_adam
from supdocnade.model.network import DocNADENetwork


class RowAdam(torch.optim.Optimizer):
    """Adam for tables with sparse gradients, which moves only the touched rows.

    This differs from dense Adam on the same gradients: there, a row that was touched once keeps
    moving by its decaying first moment; here, its moments rest until the row is touched again.
    """

    def __init__(self, tables: list[nn.Parameter], learning_rate: float | Tensor):
        # capturable: torch then loads the number of steps to the device of the table.
        super().__init__(tables, {"lr": learning_rate, "capturable": tables[0].is_cuda})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the rows that have a gradient."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is None:
                    continue
                state = adam_state(self, table)
                state["step"] += 1
                rows_R, gradient_RH = touched_rows(table.grad)
                step = state["step"] if table.is_cuda else int(state["step"])
                given = table, state["exp_avg"], state["exp_avg_sq"], rows_R, gradient_RH
                row_adam(*given, group["lr"], step)


def adam_state(optimizer: torch.optim.Optimizer, parameter: Tensor) -> dict[str, Any]:
    """Return the step count and moments of a parameter, zero before its first step."""
    state: dict[str, Any] = optimizer.state[parameter]
    if not state:
        state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
        state["exp_avg"] = torch.zeros_like(parameter)
        state["exp_avg_sq"] = torch.zeros_like(parameter)
    return state


def touched_rows(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows that a gradient touches, and its values there."""
    if not gradient.is_sparse:
        return torch.arange(len(gradient), device=gradient.device), gradient
    return gradient._indices()[0], gradient._values()


def coalesce_gradients(parameters: list[nn.Parameter]) -> None:
    """Add up the rows that occur more than once in a sparse gradient."""
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is None or not gradient.is_sparse:
            continue
        # The fused backends return every row once, in order, but autograd drops the flag that
        # says so, and `coalesce` would sort and copy all rows.
        rows_R = gradient._indices()[0]
        if not bool((rows_R.diff() > 0).all()):
            parameter.grad = gradient.coalesce()


def make_optimizers(
    network: DocNADENetwork, name: str, learning_rate: float
) -> list[torch.optim.Optimizer]:
    """Return the optimizers that together update every parameter of a network."""
    if name == "sgd":
        return [torch.optim.SGD(network.parameters(), lr=learning_rate)]
    tables, dense = split_tables(network)
    # fused: one pass over each parameter; elementwise, so threads do not change its bits.
    optimizers: list[torch.optim.Optimizer]
    optimizers = [
        torch.optim.Adam(dense, lr=learning_rate, betas=ADAM_BETAS, eps=ADAM_EPSILON, fused=True)
    ]
    if tables:
        optimizers.append(RowAdam(tables, learning_rate))
    return optimizers


def split_tables(network: DocNADENetwork) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the tables of a network that have sparse gradients, and its other parameters."""
    tables: list[nn.Parameter] = []
    if has_sparse_gradients(network.config.n_words):
        tables = [network.word_embedding, network.node_weight]
    return tables, [p for p in network.parameters() if not any(p is table for table in tables)]


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float | Tensor) -> None:
    """Set the learning rate of the next update."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].copy_(torch.as_tensor(rate))
        else:
            group["lr"] = rate


@torch.no_grad()
def clip_gradients(parameters: list[nn.Parameter], clip_norm: float) -> Tensor:
    """Scale all gradients down if their common norm is larger than this; return the norm before."""
    values = [
        p.grad._values() if p.grad.is_sparse else p.grad for p in parameters if p.grad is not None
    ]
    norms = [torch.linalg.vector_norm(value, dtype=torch.float64) for value in values]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    factor = (clip_norm / norm).clamp(max=1.0)
    for value in values:
        value.mul_(factor)
    return norm
