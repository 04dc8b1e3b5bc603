"""Optimizers on a GPU whose updates a CUDA graph can record: the learning rate stays there.

Torch's fused Adam processes 65,536 numbers per program, so a table of 1,160 words and 200 topics
has four programs and leaves most of the GPU idle. Here a program processes about a thousand
(Kingma and Ba 2015).
"""

from itertools import accumulate

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from supdocnade.cuda.prefix import block_columns
from supdocnade.likelihood.operations import ADAM_BETAS, ADAM_EPSILON
from supdocnade.model.network import DocNADENetwork
from supdocnade.training.optimizers import (
    RowAdam,
    adam_state,
    split_tables,
    touched_rows,
)

BLOCK = 1024
"""Numbers per program of `update`."""

ROWS, COLUMNS = 16, 128
"""Rows and columns per program of `row_adam`."""


@triton.jit
def bias_correction(beta: tl.constexpr, step):
    """Return 1 - β^t in float64; in float32 it would lose its precision."""
    return 1 - tl.exp2(step * tl.log2(tl.full([], beta, tl.float64)))


@triton.jit
def update(
    values, gradients, means, squares, steps, rate,
    LENGTHS: tl.constexpr, FIRSTS: tl.constexpr, BETA1: tl.constexpr, BETA2: tl.constexpr,
    EPSILON: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Update several parameters; parameter i has the blocks `FIRSTS[i]:FIRSTS[i + 1]`."""
    block = tl.program_id(0)
    learning_rate = tl.load(rate).to(tl.float64)
    for each in tl.static_range(len(LENGTHS)):
        if (block >= FIRSTS[each]) & (block < FIRSTS[each + 1]):
            places = (block - FIRSTS[each]) * BLOCK + tl.arange(0, BLOCK)
            used = places < LENGTHS[each]
            step = tl.load(steps[each]).to(tl.float64)
            size = (learning_rate / bias_correction(BETA1, step)).to(tl.float32)
            spread = tl.sqrt(bias_correction(BETA2, step)).to(tl.float32)
            gradient = tl.load(gradients[each] + places, mask=used, other=0.0)
            mean = tl.load(means[each] + places, mask=used, other=0.0)
            square = tl.load(squares[each] + places, mask=used, other=0.0)
            value = tl.load(values[each] + places, mask=used, other=0.0)
            mean = BETA1 * mean + (1 - BETA1) * gradient
            square = BETA2 * square + (1 - BETA2) * gradient * gradient
            value -= size * mean / (tl.sqrt(square) / spread + EPSILON)
            tl.store(means[each] + places, mean, mask=used)
            tl.store(squares[each] + places, square, mask=used)
            tl.store(values[each] + places, value, mask=used)


@triton.jit
def update_rows(
    table, mean, square, rows, gradient, n_rows, learning_rate, step,
    H: tl.constexpr, BETA1: tl.constexpr, BETA2: tl.constexpr, EPSILON: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Update rows; a row that repeats the previous one, or is -1, is padding and skipped."""
    places = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(rows + places, mask=places < n_rows, other=-1)
    before = tl.load(rows + places - 1, mask=(places > 0) & (places < n_rows), other=-1)
    used = (row >= 0) & (row != before)
    if tl.max(used.to(tl.int32), axis=0) > 0:
        t = tl.load(step).to(tl.float64)
        size = (tl.load(learning_rate).to(tl.float64) / bias_correction(BETA1, t)).to(tl.float32)
        spread = tl.sqrt(bias_correction(BETA2, t)).to(tl.float32)
        mask = used[:, None] & (columns < H)[None, :]
        there = row[:, None] * H + columns[None, :]
        g = tl.load(gradient + places.to(tl.int64)[:, None] * H + columns[None, :], mask=mask)
        m = BETA1 * tl.load(mean + there, mask=mask) + (1 - BETA1) * g
        s = BETA2 * tl.load(square + there, mask=mask) + (1 - BETA2) * g * g
        value = tl.load(table + there, mask=mask)
        value -= size * m / (tl.sqrt(s) / spread + EPSILON)
        tl.store(mean + there, m, mask=mask)
        tl.store(square + there, s, mask=mask)
        tl.store(table + there, value, mask=mask)


def row_adam(
    table_KH: Tensor,
    mean_KH: Tensor,
    square_KH: Tensor,
    rows_R: Tensor,
    gradient_RH: Tensor,
    learning_rate: float | Tensor,
    step: int | Tensor,
) -> None:
    """See `operations.row_adam`."""
    # No copy in training, where they are on the device already.
    learning_rate, step = (
        torch.as_tensor(x, device=table_KH.device) for x in (learning_rate, step)
    )
    beta1, beta2 = ADAM_BETAS
    n_rows, H = gradient_RH.shape
    block = block_columns(H, COLUMNS)
    update_rows[(triton.cdiv(n_rows, ROWS), triton.cdiv(H, block))](
        table_KH.detach(), mean_KH, square_KH, rows_R, gradient_RH.detach().contiguous(), n_rows,
        learning_rate, step,
        H=H, BETA1=beta1, BETA2=beta2, EPSILON=ADAM_EPSILON, ROWS=ROWS, BLOCK=block,
    )  # fmt: skip


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
        SingleKernelAdam(
            dense, lr=rate, betas=ADAM_BETAS, eps=ADAM_EPSILON, fused=True, capturable=True
        )
    ]
    if tables:
        optimizers.append(RowAdam(tables, rate))
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
            torch._foreach_add_([state["step"] for state in states], 1)
            lengths = tuple(parameter.numel() for parameter in parameters)
            blocks = (triton.cdiv(length, BLOCK) for length in lengths)
            firsts, (beta1, beta2) = tuple(accumulate(blocks, initial=0)), group["betas"]
            update[(firsts[-1],)](
                tuple(p.detach() for p in parameters), tuple(g.detach() for g in gradients),
                *(tuple(s[name] for s in states) for name in ("exp_avg", "exp_avg_sq", "step")),
                group["lr"],
                LENGTHS=lengths, FIRSTS=firsts, BETA1=beta1, BETA2=beta2, EPSILON=group["eps"],
                BLOCK=BLOCK,
            )  # fmt: skip
