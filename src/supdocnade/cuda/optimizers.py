"""Optimizers whose updates a CUDA graph can record: the learning rate stays on the GPU."""

import torch
from torch import Tensor, nn

from supdocnade.cuda.adam import dense_adam
from supdocnade.model.network import DocNADENetwork
from supdocnade.training.optimizers import (
    BETAS,
    EPSILON,
    RowAdam,
    adam_state,
    split_tables,
    touched_rows,
)


def make_optimizers(
    network: DocNADENetwork, name: str, learning_rate: float
) -> list[torch.optim.Optimizer]:
    """Return the optimizers that together update every parameter of a network."""
    tables, dense = split_tables(network)
    rate = torch.tensor(learning_rate, device=network.word_embedding.device)
    if name == "sgd":
        parameters = list(network.parameters())
        if tables:
            return [RowSGD(parameters, rate)]
        # Only the fused implementation leaves the learning rate on the GPU.
        return [torch.optim.SGD(parameters, lr=rate, fused=True)]
    # capturable: torch then loads the numbers of steps of a checkpoint to the GPU.
    optimizers: list[torch.optim.Optimizer] = [
        SingleKernelAdam(dense, lr=rate, betas=BETAS, eps=EPSILON, fused=True, capturable=True)
    ]
    if tables:
        optimizers.append(RowAdam(tables, rate, backend="cuda"))
    return optimizers


class RowSGD(torch.optim.Optimizer):
    """SGD where some gradients are sparse.

    Torch's own keeps the learning rate on the CPU then, so a CUDA graph cannot record it.
    """

    def __init__(self, parameters: list[nn.Parameter], learning_rate: Tensor):
        super().__init__(parameters, {"lr": learning_rate})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if not parameter.grad.is_sparse:
                    parameter.sub_(parameter.grad * group["lr"])
                    continue
                rows_R, gradient_RH = touched_rows(parameter.grad)
                # Every row occurs once and padding adds zero, so these atomic additions give the
                # same bits every time. Row -1 is padding where no row was touched.
                parameter.index_add_(0, rows_R.clamp_min(0), gradient_RH * -group["lr"])


class SingleKernelAdam(torch.optim.Adam):
    """Torch's Adam up to rounding, with all parameters in one kernel."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            states = [adam_state(self, parameter) for parameter in parameters]
            gradients = [p.grad.contiguous() for p in parameters if p.grad is not None]
            steps, means, squares = (
                [state[name] for state in states] for name in ("step", "exp_avg", "exp_avg_sq")
            )
            dense_adam(
                parameters, gradients, steps, means, squares,
                group["lr"], group["betas"], group["eps"],
            )  # fmt: skip
