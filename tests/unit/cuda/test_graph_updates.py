"""Recorded updates, with a fake graph that runs at once what it should record."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("triton")

from supdocnade.corpus import Documents
from supdocnade.cuda import graph_updates
from supdocnade.cuda.device_corpus import DeviceCorpus
from supdocnade.cuda.graph_updates import (
    GraphTrainer,
    GraphUpdates,
    SingleKernelAdam,
    recording_bytes,
)
from supdocnade.likelihood import operations
from supdocnade.model.config import SupDocNADEConfig
from supdocnade.model.network import SupDocNADENetwork, random_tree
from supdocnade.training import trainer as module
from supdocnade.training.config import EpochRecord, TrainerConfig
from supdocnade.training.trainer import Trainer

not_compiled = pytest.mark.skipif(
    torch.cuda.is_available(), reason="kernels are compiled for the GPU"
)


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


def make_case(n_global_features=0, n_tags=0, several_labels=False):
    rng = np.random.default_rng(0)
    counts, features = rng.poisson(0.7, (6, 12)), rng.normal(size=(6, n_global_features))
    tags = rng.integers(0, 2, (6, n_tags))
    corpus = Documents.from_counts(
        counts,
        annotations=tags,
        annotation_mask=np.arange(6) != 1,
        labels=rng.integers(-1, 2, (6, 2)) if several_labels else np.arange(6) % 2,
        n_classes=2,
        global_features=features if n_global_features else None,
        annotations_are_words=False,
    )
    config = SupDocNADEConfig(
        n_visual_words=12,
        n_annotation_words=n_tags,
        annotation_output="sigmoid",
        n_topics=3,
        n_classes=2,
        n_global_features=n_global_features,
        class_output="sigmoid" if several_labels else "softmax",
    )
    network = SupDocNADENetwork(config, random_tree(config, 0))
    network.initialize(corpus, 0)
    return corpus, network


def begin(updates, corpus):
    updates.begin_epoch(0, np.split(np.arange(len(corpus)), 3))


def test_the_compiling_run_is_undone_whatever_moments_it_creates():
    config = TrainerConfig(learning_rate=1e-2, schedule="constant", batch_size=2)
    results = []
    for has_moments in (False, True):
        corpus, network = make_case()
        optimizer = Trainer(network, config).optimizer
        if has_moments:  # Zero gradients for all parameters but those of the nodes.
            for name, parameter in network.named_parameters():
                if not name.startswith("node"):
                    parameter.grad = torch.zeros_like(parameter)
            optimizer.step()
            for state in optimizer.state.values():
                state["step"].zero_()
        documents = DeviceCorpus(corpus, torch.device("cpu"))
        updates = GraphUpdates(network, config, documents, optimizer, None)
        start = [p.detach().clone() for p in network.parameters()]
        begin(updates, corpus)
        # As if it had been recorded and replayed once.
        assert int(updates.next_update) == 1
        assert any(
            not torch.equal(p.detach(), before)
            for p, before in zip(network.parameters(), start, strict=True)
        )
        steps = [float(state["step"]) for state in optimizer.state.values()]
        assert set(steps) == {1.0}
        results.append(list(network.parameters()))
    for first, second in zip(*results, strict=True):
        assert torch.equal(first.detach(), second.detach())


@pytest.mark.parametrize("several_labels", [False, True])
def test_an_update_has_the_features_labels_and_annotations_of_its_documents(
    several_labels, monkeypatch
):
    config = TrainerConfig(
        learning_rate=1e-2, batch_size=4, generative_weight=0.5, annotation_weight=2.0, seed=3
    )
    results = []
    for recorded in (False, True):
        corpus, network = make_case(5, 3, several_labels)
        optimizer = Trainer(network, config).optimizer
        batches = np.split(np.random.default_rng(1).permutation(6), [4])
        if recorded:
            documents = DeviceCorpus(corpus, torch.device("cpu"))
            updates = GraphUpdates(network, config, documents, optimizer, None)
            updates.begin_epoch(2, batches)
            updates._update()  # The second batch is padded.
        else:
            trainer = Trainer(network, config)
            trainer.history.epochs += 2 * [EpochRecord(epoch=1, learning_rate=0.1, loss=1.0)]
            monkeypatch.setattr(module, "epoch_batches", lambda *_, given=batches: given)
            trainer.run_epoch(corpus)
        results.append(list(network.parameters()))
    for actual, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


@not_compiled
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_kernels_of_a_gpu_update_as_the_cpu_does(monkeypatch, optimizer):
    """By Triton's interpreter."""
    from supdocnade.cuda import tree_bands

    results = []
    for interpreted in (False, True):
        corpus, network = make_case(n_global_features=2)
        config = TrainerConfig(
            learning_rate=1e-2, schedule="constant", batch_size=2, clip_norm=0.1,
            optimizer=optimizer,
        )  # fmt: skip
        with monkeypatch.context() as patch:
            if interpreted:
                patch.setattr(operations, "load", lambda *names: tree_bands.tree_nll)
            trainer = (GraphTrainer if interpreted else Trainer)(network, config)
            documents = DeviceCorpus(corpus, torch.device("cpu"))
            updates = GraphUpdates(network, config, documents, trainer.optimizer, None)
            begin(updates, corpus)
        results.append(list(network.parameters()))
    for actual, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def test_updates_on_a_gpu_are_reported_only_now_and_then(monkeypatch):
    """Reading the loss waits for the GPU."""

    class CountedUpdates:
        done = 0

        def begin_epoch(self, epoch, batches):
            pass

        def run(self):
            self.done += 1

        def loss_sum(self):
            return 6.0

    seen = []
    corpus, network = make_case()
    monkeypatch.setattr(graph_updates, "REPORT_EVERY", 2)
    trainer = GraphTrainer(
        network,
        TrainerConfig(max_epochs=2, batch_size=2, optimizer="sgd"),
        progress=lambda _, done, total: seen.append((done, total)),
    )
    monkeypatch.setattr(trainer, "updates_for", lambda documents: CountedUpdates())
    history = trainer.fit(corpus)
    # Three updates per epoch; reports after the second and after the last.
    assert seen == [(2, 6), (3, 6), (5, 6), (6, 6)]
    assert [each.loss for each in history.epochs] == [1.0, 1.0]


def test_memory_of_a_recording():
    _, network = make_case()
    numbers = sum(p.numel() for p in network.parameters())
    assert recording_bytes(network) == 3 * 4 * numbers


def test_the_registry_loads_optimizers_whose_rates_are_tensors():
    trainer_type = operations.own_trainer("cuda")
    assert trainer_type is GraphTrainer
    _, network = make_case()
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
