"""What happens to several networks together; that they learn the same as alone is for a GPU."""

import math
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from tests.scenes import network_for, scene_corpus

from supdocnade.errors import TrainingDiverged
from supdocnade.training import Trainer, TrainerConfig
from supdocnade.training import parallel_fit as side_by_side
from supdocnade.training.parallel_fit import fit_side_by_side

_, CORPUS = scene_corpus(50, mean_length=20)
SETTINGS = {"max_epochs": 3, "batch_size": 16, "learning_rate": 1e-2}


def trainer(**settings) -> Trainer:
    options = {name: settings.pop(name) for name in list(settings) if name not in SETTINGS}
    return Trainer(network_for(CORPUS), TrainerConfig(**{**SETTINGS, **settings}), **options)


def test_a_network_that_diverges_does_not_stop_the_others():
    trainers = [trainer(), trainer(learning_rate=1e30), trainer(), trainer(learning_rate=1e30)]
    with pytest.raises(TrainingDiverged) as caught:
        fit_side_by_side(trainers, CORPUS)
    assert [len(each.state.history.epochs) for each in trainers][::2] == [3, 3]
    first, second = caught.value.__notes__
    assert first.startswith("This was network 2 of 4")
    assert second.startswith("Network 4: ")
    alone = trainer()
    alone.fit(CORPUS)
    assert trainers[2].state.history.epochs == alone.state.history.epochs


class Updates:
    """Stands for the updates on a GPU: it only counts them."""

    def __init__(self, diverges_in_epoch: int | None = None):
        self.diverges_in_epoch, self.epoch, self.done = diverges_in_epoch, 0, 0

    def begin(self, epoch, shuffled_B, first_update, loss_sum, rates, decays):
        self.epoch = epoch

    def run(self):
        self.done += 1

    def loss_sum(self):
        return math.nan if self.epoch == self.diverges_in_epoch else 1.0


@pytest.fixture
def pretended_gpu(monkeypatch):
    stream = SimpleNamespace(wait_stream=lambda other: None)
    cuda = SimpleNamespace(
        Stream=lambda: stream, current_stream=lambda: stream, stream=lambda stream: nullcontext()
    )
    monkeypatch.setattr(side_by_side, "torch", SimpleNamespace(cuda=cuda))


def on_gpu(updates: Updates, **settings) -> Trainer:
    made = trainer(**settings)
    made.graphed = lambda corpus: updates
    return made


@pytest.mark.usefixtures("pretended_gpu")
def test_on_a_gpu_each_reports_and_saves_and_one_may_diverge(tmp_path):
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
        fit_side_by_side([good, bad], CORPUS)
    # Four updates an epoch: a look after the third, as it is saved there, and after the last.
    assert seen == [(epoch, update) for epoch in (1, 2, 3) for update in (3, 4)]
    assert saved.exists()
    assert [each.done for each in updates] == [12, 8]
    assert [len(each.state.history.epochs) for each in (good, bad)] == [3, 1]
