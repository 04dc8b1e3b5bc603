import pytest
import torch
from torch import nn

pytest.importorskip("triton")

from supdocnade.cuda.graph_updates import GraphTrainer
from supdocnade.cuda.optimizers import RowSGD, SingleKernelAdam, row_adam
from supdocnade.likelihood import contract, operations, vectorized
from supdocnade.model.config import DocNADEConfig
from supdocnade.model.network import DocNADENetwork, random_tree
from supdocnade.training.config import TrainerConfig
from supdocnade.training.optimizers import RowAdam

not_compiled = pytest.mark.skipif(
    torch.cuda.is_available(), reason="kernels are compiled for the GPU"
)


def rows_of(rows, values, n_rows):
    size = (n_rows, len(values[0]))
    return torch.sparse_coo_tensor([rows], values, size, dtype=torch.float32, check_invariants=True)


@pytest.mark.parametrize("few_rows", [False, True])
def test_the_registry_loads_optimizers_whose_rates_are_tensors(monkeypatch, few_rows):
    if few_rows:
        monkeypatch.setattr(contract, "SPARSE_ROWS", 1)
    trainer_type = operations.own_trainer("cuda")
    assert trainer_type is GraphTrainer
    config = DocNADEConfig(n_visual_words=5, n_topics=2)
    network = DocNADENetwork(config, random_tree(config, 0))
    kinds = {
        "adam": [SingleKernelAdam, RowAdam][: 1 + few_rows],
        "sgd": [RowSGD if few_rows else torch.optim.SGD],
    }
    for name, expected in kinds.items():
        made = trainer_type(network, TrainerConfig(optimizer=name, learning_rate=0.25)).optimizers
        assert [type(each) for each in made] == expected
        groups = [group for each in made for group in each.param_groups]
        assert all(torch.equal(group["lr"], torch.tensor(0.25)) for group in groups)
        updated = [id(p) for group in groups for p in group["params"]]
        assert sorted(updated) == sorted(map(id, network.parameters()))


@not_compiled
def test_single_kernel_adam_is_adam_and_resumes():
    generator = torch.Generator().manual_seed(0)
    # More than a block, less than one, a single number.
    start = [torch.randn(shape, generator=generator) for shape in [(70, 20), (9,), (1,)]]
    ours, theirs = ([nn.Parameter(value.clone()) for value in start] for _ in range(2))
    rates = [torch.tensor(0.01), 0.01]
    kinds = (SingleKernelAdam, torch.optim.Adam)
    optimizers = [
        kind(each, lr=rate, fused=True)
        for kind, each, rate in zip(kinds, (ours, theirs), rates, strict=True)
    ]
    for update in range(6):
        for mine, its in zip(ours, theirs, strict=True):
            mine.grad = torch.randn(mine.shape, generator=generator)
            its.grad = mine.grad.clone()
        if update == 3:
            again = SingleKernelAdam(ours, lr=rates[0], fused=True)
            again.load_state_dict(optimizers[0].state_dict())
            optimizers[0] = again
        for optimizer in optimizers:
            optimizer.step()
    for mine, its in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, its, rtol=2e-6, atol=2e-7)
        here, there = optimizers[0].state[mine], optimizers[1].state[its]
        assert here["step"] == there["step"] == 6
        torch.testing.assert_close(here["exp_avg_sq"], there["exp_avg_sq"], rtol=2e-6, atol=1e-8)


@not_compiled
@pytest.mark.parametrize("n_topics", [3, 200])
def test_row_adam_on_a_gpu_skips_padding(n_topics):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(50, n_topics, generator=generator)
    ours, theirs = ([start.clone(), *(torch.zeros_like(start) for _ in range(2))] for _ in range(2))
    for step, rows in enumerate([[0, 3, 20, 21], [*range(17), 49], [3], []], start=1):
        gradient = torch.randn(len(rows), n_topics, generator=generator)
        filled = torch.tensor([*rows, *[rows[-1] if rows else -1] * 20])
        padded = torch.cat([gradient, torch.zeros(20, n_topics)])
        row_adam(*ours, filled, padded, torch.tensor(0.1), torch.tensor(float(step)))
        rows_R = torch.tensor(rows, dtype=torch.int64)
        vectorized.row_adam(*theirs, rows_R, gradient, 0.1, step)
        for mine, its in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine, its, rtol=2e-6, atol=2e-7)
        assert torch.equal(ours[0][30], start[30])


def test_sgd_moves_dense_and_sparse_parameters_as_torch_does():
    rate = torch.tensor(0.25)
    ours, theirs = ([nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(4, 2))] for _ in range(2))
    for parameters in (ours, theirs):
        parameters[0].grad = torch.tensor([1.0, -3.0])
    # The last row is padding.
    ours[1].grad = rows_of([1, 3, 3], [[1.0, 2.0], [3.0, 0.5], [0.0, 0.0]], 4)
    theirs[1].grad = rows_of([1, 3], [[1.0, 2.0], [3.0, 0.5]], 4)
    RowSGD(ours, rate).step()
    torch.optim.SGD(theirs, lr=0.25).step()
    for mine, its in zip(ours, theirs, strict=True):
        assert torch.equal(mine, its)
