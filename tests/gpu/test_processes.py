"""Processes that share a GPU give the network of one process, bit for bit."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
from scipy import sparse

from supdocnade import SupDocNADE, training_processes
from supdocnade.likelihood.contract import SPARSE_ROWS
from supdocnade.training.process_group import ProcessGroup, activate
from supdocnade.training.processes import _backend

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU that torch can use"
)


def fit(n_words: int) -> list[bytes]:
    rng = np.random.default_rng(0)
    places = np.repeat(np.arange(60), 40), rng.integers(0, n_words, 2_400)
    counts = sparse.csr_array((np.ones(2_400), places), (60, n_words))
    model = SupDocNADE(
        16, batch_groups=3, batch_size=20, max_epochs=3, learning_rate=0.01, device="cuda",
        clip_norm=1.0, random_state=0,
    )  # fmt: skip
    model.fit(counts, np.arange(60) % 3)
    return [p.detach().numpy().tobytes() for p in model.network_.parameters()]


def test_processes_do_not_change_a_bit():
    sizes = 50, SPARSE_ROWS + 100
    alone = [fit(n_words) for n_words in sizes]
    with training_processes(2):
        assert [fit(n_words) for n_words in sizes] == alone


@pytest.mark.skipif(not dist.is_nccl_available(), reason="needs NCCL")
def test_exchanges_through_nccl_do_not_change_a_bit():
    # NCCL wants a GPU for every process, so one GPU allows a group of one.
    sizes = 50, SPARSE_ROWS + 100
    alone = [fit(n_words) for n_words in sizes]
    store = dist.HashStore()
    dist.init_process_group(_backend(1), store=store, rank=0, world_size=1)
    try:
        group = ProcessGroup(dist.group.WORLD, store, local=True)
        assert group._exchange_device(torch.zeros(1, device="cuda")).type == "cuda"
        with activate(group):
            assert [fit(n_words) for n_words in sizes] == alone
    finally:
        dist.destroy_process_group()
