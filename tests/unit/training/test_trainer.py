import numpy as np
import pytest
import torch
from tests.planted_corpus import network_for, parameter_bits, scene_corpus
from torch import nn

from supdocnade.errors import InvalidArgument, TrainingDiverged
from supdocnade.training.config import TrainerConfig
from supdocnade.training.trainer import Trainer, clip_gradients

pytestmark = pytest.mark.usefixtures("one_process_on_a_cpu")
_, CORPUS = scene_corpus(50, mean_length=20)
_, VALIDATION = scene_corpus(20, seed=1, mean_length=20)


def train(config, corpus=CORPUS, validation=VALIDATION, **options):
    network = network_for(corpus, **options.pop("network", {}))
    history = Trainer(network, config, **options).fit(corpus, validation)
    return network, history


def test_validation_weighs_classes_as_training_does():
    config = TrainerConfig(max_epochs=1)
    _, plain = train(config)
    _, weighted = train(config, class_weight=[100, 1, 1, 1])
    assert weighted.epochs[0].validation["loss"] > plain.epochs[0].validation["loss"] + 1


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    first, second, other = (
        parameter_bits(train(TrainerConfig(max_epochs=2, seed=seed))[0]) for seed in (0, 0, 1)
    )
    assert first == second
    assert first != other


@pytest.mark.parametrize("output", ["tree", "softmax"])
def test_the_objective_falls(output):
    config = TrainerConfig(max_epochs=8, learning_rate=1e-2, batch_size=10)
    _, history = train(config, network={"output": output})
    losses = [record.loss for record in history.epochs]
    assert losses[-1] < losses[0] - 1
    assert [record.epoch for record in history.epochs] == list(range(1, 9))
    assert set(history.epochs[0].validation) == {"loss", "perplexity", "accuracy", "f_measure"}


def test_early_stopping_keeps_the_best_epoch():
    config = TrainerConfig(
        max_epochs=40, learning_rate=0.05, schedule="constant", batch_size=10,
        early_stopping=True, n_epochs_no_change=3, metric="perplexity",
    )  # fmt: skip
    network, history = train(config)
    values = [record.validation["perplexity"] for record in history.epochs]
    assert history.stopped_early
    assert history.best_epoch == int(np.argmin(values)) + 1 == len(values) - 3
    at_best, _ = train(TrainerConfig(
        max_epochs=history.best_epoch, learning_rate=0.05, schedule="constant", batch_size=10,
    ))  # fmt: skip
    assert parameter_bits(network) == parameter_bits(at_best)


def test_progress_counts_every_update():
    seen = []
    train(
        TrainerConfig(max_epochs=2, batch_size=20),
        progress=lambda *report: seen.append(report),
        stage="once more",
    )
    assert seen == [("once more", update, 6) for update in range(1, 7)]


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        ({"early_stopping": True}, {"validation": None}, "early_stopping needs a validation set"),
        (
            {"early_stopping": True, "metric": "accuracy"},
            {"network": {"supervised": False}},
            r"metric must be one of \('loss', 'perplexity', 'f_measure'\) .* got 'accuracy'",
        ),
        ({}, {"corpus": CORPUS.take([])}, "documents must be at least one"),
        ({}, {"class_weight": [1, 2]}, r"class_weight must have shape \(4,\), got \(2,\)"),
        ({}, {"class_weight": [1, 1, 1, -1]}, "class_weight must be finite and not negative"),
    ],
)
def test_invalid_training_is_refused(config, options, message):
    with pytest.raises(InvalidArgument, match=message):
        train(TrainerConfig(max_epochs=1, **config), **options)


def test_divergence_says_where_and_what_to_change():
    config = TrainerConfig(max_epochs=5, learning_rate=1e30, optimizer="sgd", batch_size=10)
    message = r"became (nan|inf) in epoch 1, update \d; lower learning_rate \(1e\+30\) or set clip"
    with pytest.raises(TrainingDiverged, match=message):
        train(config)


def test_divergence_in_the_last_update_is_noticed(tmp_path):
    config = TrainerConfig(max_epochs=1, learning_rate=1e30, optimizer="sgd", batch_size=50)
    for options in ({"validation": None}, {"checkpoint": tmp_path / "run"}):
        with pytest.raises(TrainingDiverged, match=r"became (nan|inf) after epoch 1; lower"):
            train(config, **options)
    assert not (tmp_path / "run").exists()


def test_clipping_scales_all_gradients_together():
    first, second = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(9, 1))
    first.grad, second.grad = torch.tensor([3.0, 0.0]), torch.zeros(9, 1)
    second.grad[4] = 4.0
    assert float(clip_gradients([first, second], 1.0)) == pytest.approx(5.0)
    torch.testing.assert_close(first.grad, torch.tensor([0.6, 0.0]))
    torch.testing.assert_close(second.grad[4], torch.tensor([0.8]))
    assert float(clip_gradients([first, second], 2.0)) == pytest.approx(1.0)
    torch.testing.assert_close(first.grad, torch.tensor([0.6, 0.0]))
