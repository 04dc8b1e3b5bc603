"""Recorded updates, with a graph that does not record: what is recorded is done at once."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from supdocnade.corpus import Documents
from supdocnade.likelihood import contract
from supdocnade.likelihood.cuda import engine as cuda_engine
from supdocnade.model import SupDocNADEConfig, SupDocNADENetwork
from supdocnade.model.network import random_tree
from supdocnade.training import TrainerConfig
from supdocnade.training.cuda_graph import GraphedUpdates, bytes_to_record
from supdocnade.training.device_corpus import ResidentDocuments
from supdocnade.training.optimizers import make_optimizers


class NoStream:
    def __init__(self, device=None):
        pass

    def wait_stream(self, other):
        pass


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Stream", NoStream)
    monkeypatch.setattr(torch.cuda, "current_stream", NoStream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, **options: nullcontext())


def small():
    rng = np.random.default_rng(0)
    corpus = Documents.from_counts(rng.poisson(0.7, (6, 12)), labels=np.arange(6) % 2, n_classes=2)
    config = SupDocNADEConfig(n_visual_words=12, n_annotation_words=0, n_topics=3, n_classes=2)
    network = SupDocNADENetwork(config, random_tree(config, 0))
    network.initialize(corpus.word_counts(), 0)
    return corpus, network


def begun(updates, corpus):
    updates.begin(0, np.arange(len(corpus)), 0, 0.0, np.full(3, 1e-2), np.full(3, 0.5))


@pytest.mark.parametrize("few_rows", [False, True])
def test_the_run_that_compiles_is_undone_whatever_moments_it_makes(monkeypatch, few_rows):
    if few_rows:  # Then there are two optimisers, and new moments of the first are in the middle.
        monkeypatch.setattr(contract, "SPARSE_ROWS", 1)
    config = TrainerConfig(batch_size=2, averaging=0.5)
    found = []
    for has_moments in (False, True):
        corpus, network = small()
        optimizers = make_optimizers(network, "adam", 1e-2)
        if has_moments:  # Of all parameters but those of the nodes: of moves by nothing.
            for name, parameter in network.named_parameters():
                if not name.startswith("node"):
                    parameter.grad = torch.zeros_like(parameter)
            for optimizer in optimizers:
                optimizer.step()
                for state in optimizer.state.values():
                    state["step"].zero_()
        average = {name: p.detach().clone() for name, p in network.named_parameters()}
        documents = ResidentDocuments.of(corpus, torch.device("cpu"))
        updates = GraphedUpdates(network, config, documents, optimizers, None, average)
        start = [p.detach().clone() for p in network.parameters()]
        begun(updates, corpus)
        # As if it had been recorded and replayed once.
        assert int(updates.clock.update) == 1
        assert any(
            not torch.equal(p.detach(), before)
            for p, before in zip(network.parameters(), start, strict=True)
        )
        steps = [float(s["step"]) for o in optimizers for s in o.state.values()]
        assert set(steps) == {1.0}
        found.append([*network.parameters(), *average.values()])
    for first, second in zip(*found, strict=True):
        assert torch.equal(first.detach(), second.detach())


@pytest.mark.skipif(torch.cuda.is_available(), reason="here the kernels run on the GPU itself")
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_kernels_of_a_gpu_move_the_touched_rows_as_the_cpu_does(monkeypatch, optimizer):
    """By Triton's interpreter, with room for more rows than there are."""
    pytest.importorskip("triton")
    from supdocnade.likelihood import operations
    from supdocnade.likelihood.cuda import adam as row_adam
    from supdocnade.likelihood.cuda import tree
    from supdocnade.training import optimizers as made

    monkeypatch.setattr(contract, "SPARSE_ROWS", 1)
    found = []
    for interpreted in (False, True):
        corpus, network = small()
        config = TrainerConfig(batch_size=2, clip_norm=0.1)
        optimizers = make_optimizers(network, optimizer, 1e-2)
        with monkeypatch.context() as patch:
            if interpreted:
                patch.setattr(operations.TREE_NLL, "load", lambda name: tree.tree_nll)
                patch.setattr(made, "row_adam", lambda *given, backend: row_adam.row_adam(*given))
                # It waits for nothing, not even where it could.
                patch.setattr(cuda_engine, "_is_recording", lambda device: True)
                if optimizer == "sgd":
                    optimizers = [made.RowSGD(list(network.parameters()), torch.tensor(1e-2))]
            documents = ResidentDocuments.of(corpus, torch.device("cpu"))
            updates = GraphedUpdates(network, config, documents, optimizers, None, None)
            begun(updates, corpus)
        found.append(list(network.parameters()))
    for actual, expected in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def test_what_is_put_aside_is_counted():
    _, network = small()
    numbers = sum(p.numel() for p in network.parameters())
    assert bytes_to_record(network) == 4 * 4 * numbers
