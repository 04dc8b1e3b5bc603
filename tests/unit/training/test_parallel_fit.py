"""Training of several networks; tests/gpu checks that each gives the bits it gives alone."""

import math
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from tests.planted_corpus import network_for, scene_corpus

from supdocnade.errors import TrainingDiverged
from supdocnade.training import parallel_fit
from supdocnade.training.objective import check_finite
from supdocnade.training.parallel_fit import fit_networks
from supdocnade.training.trainer import Trainer
from supdocnade.training.trainer_config import TrainerConfig

_, CORPUS = scene_corpus(50, mean_length=20)
SETTINGS = {"max_epochs": 3, "batch_size": 16, "learning_rate": 1e-2}


def make_trainer(**settings) -> Trainer:
    options = {name: settings.pop(name) for name in list(settings) if name not in SETTINGS}
    return Trainer(network_for(CORPUS), TrainerConfig(**{**SETTINGS, **settings}), **options)


def test_a_network_that_diverges_does_not_stop_the_others():
    trainers = [make_trainer(learning_rate=rate) for rate in (1e-2, 1e30, 1e-2, 1e30)]
    with pytest.raises(TrainingDiverged) as caught:
        fit_networks(trainers, CORPUS)
    assert [len(each.state.history.epochs) for each in trainers][::2] == [3, 3]
    first, second = caught.value.__notes__
    assert first.startswith("This was network 2 of 4")
    assert second.startswith("Network 4: ")
    alone = make_trainer()
    alone.fit(CORPUS)
    assert trainers[2].state.history.epochs == alone.state.history.epochs


class Updates:
    """A fake of the updates on a GPU that only counts them."""

    synchronous = False

    def __init__(self, diverges_in_epoch: int | None = None):
        self.diverges_in_epoch, self.epoch, self.done = diverges_in_epoch, 0, 0

    def begin_epoch(self, epoch, batches, first_update, loss_sum):
        self.epoch = epoch

    def run(self):
        self.done += 1

    def loss_sum(self):
        value = math.nan if self.epoch == self.diverges_in_epoch else 1.0
        check_finite(TrainerConfig(), "the objective", value, f"in epoch {self.epoch + 1}")
        return value

    def end_epoch(self):
        pass


@pytest.fixture
def fake_gpu(monkeypatch):
    stream = SimpleNamespace(wait_stream=lambda other: None)
    cuda = SimpleNamespace(
        Stream=lambda: stream, current_stream=lambda: stream, stream=lambda stream: nullcontext()
    )
    monkeypatch.setattr(parallel_fit, "torch", SimpleNamespace(cuda=cuda))


def on_gpu(updates: Updates, **settings) -> Trainer:
    one = make_trainer(**settings)
    one.graph_updates = lambda corpus: updates
    return one


@pytest.mark.usefixtures("fake_gpu")
def test_on_a_gpu_each_reports_and_saves_while_another_diverges(tmp_path):
    seen, saved = [], tmp_path / "run.safetensors"
    updates = [Updates(), Updates(diverges_in_epoch=1)]
    good = on_gpu(
        updates[0],
        on_progress=lambda progress: seen.append((progress.epoch, progress.update)),
        checkpoint=saved,
        checkpoint_every=3,
    )
    bad = on_gpu(updates[1])
    with pytest.raises(TrainingDiverged, match="epoch 2"):
        fit_networks([good, bad], CORPUS)
    # Four updates per epoch; reports after the third, which is saved, and after the last.
    assert seen == [(epoch, update) for epoch in (1, 2, 3) for update in (3, 4)]
    assert saved.exists()
    assert [each.done for each in updates] == [12, 8]
    assert [len(each.state.history.epochs) for each in (good, bad)] == [3, 1]
