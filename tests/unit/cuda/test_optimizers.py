import pytest
import torch
from torch import nn

pytest.importorskip("triton")

from supdocnade.cuda.graph_updates import GraphTrainer
from supdocnade.cuda.optimizers import SingleKernelAdam
from supdocnade.likelihood import operations
from supdocnade.model.config import DocNADEConfig
from supdocnade.model.network import DocNADENetwork, random_tree
from supdocnade.training.config import TrainerConfig

not_compiled = pytest.mark.skipif(
    torch.cuda.is_available(), reason="kernels are compiled for the GPU"
)


def test_the_registry_loads_optimizers_whose_rates_are_tensors():
    trainer_type = operations.own_trainer("cuda")
    assert trainer_type is GraphTrainer
    config = DocNADEConfig(n_visual_words=5, n_topics=2)
    network = DocNADENetwork(config, random_tree(config, 0))
    for name, expected in {"adam": SingleKernelAdam, "sgd": torch.optim.SGD}.items():
        made = trainer_type(network, TrainerConfig(optimizer=name, learning_rate=0.25)).optimizer
        assert type(made) is expected
        (group,) = made.param_groups
        assert torch.equal(group["lr"], torch.tensor(0.25))
        assert list(map(id, group["params"])) == list(map(id, network.parameters()))


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
