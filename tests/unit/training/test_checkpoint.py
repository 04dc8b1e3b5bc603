"""Checkpoints resume a run with the same bits; damaged or foreign ones are refused."""

import numpy as np
import pytest
from tests.planted_corpus import network_for, parameter_bits, scene_corpus

from supdocnade.errors import StorageError
from supdocnade.likelihood.operations import use_backend
from supdocnade.schema import load_arrays, save_arrays
from supdocnade.training.config import History, TrainerConfig
from supdocnade.training.trainer import Trainer

_, CORPUS = scene_corpus(50, mean_length=20)
_, VALIDATION = scene_corpus(20, seed=1, mean_length=20)

# Everything a checkpoint must hold: moments, the best epoch, the stopping count.
EVERYTHING = {
    "max_epochs": 6,
    "batch_size": 16,
    "learning_rate": 1e-2,
    "clip_norm": 1.0,
    "early_stopping": True,
    "n_epochs_no_change": 2,
    "generative_weight": 0.1,
    "annotation_weight": 3.0,
}


class Killed(Exception):
    pass


def kill_after(n_updates):
    count = 0

    def progress(*_):
        nonlocal count
        count += 1
        if count == n_updates:
            raise Killed

    return progress


def train(config, corpus=CORPUS, validation=VALIDATION, **options):
    network = network_for(corpus, **options.pop("network", {}))
    history = Trainer(network, config, **options).fit(corpus, validation)
    return network, history


def records(history: History):
    return [history.epochs, history.best_epoch, history.stopped_early]


def test_a_run_with_global_features_and_logistic_outputs_resumes_too(tmp_path):
    options = {"mean_length": 20, "n_global_features": 4, "annotations_are_words": False}
    (_, corpus), (_, unseen) = scene_corpus(50, **options), scene_corpus(20, seed=1, **options)
    config = TrainerConfig(**{**EVERYTHING, "max_epochs": 3})
    expected, history = train(config, corpus, unseen)
    options = {"checkpoint": tmp_path / "run"}
    with pytest.raises(Killed):
        train(config, corpus, unseen, **options, progress=kill_after(6))
    network, resumed = train(config, corpus, unseen, **options)
    assert parameter_bits(network) == parameter_bits(expected)
    assert records(resumed) == records(history)
    other = TrainerConfig(**{**EVERYTHING, "max_epochs": 3, "global_dropout": 0.1})
    with pytest.raises(StorageError, match=r"made with global_dropout = 0.5, this run has 0.1"):
        train(other, corpus, unseen, **options)


@pytest.mark.parametrize("change", [{}, {"optimizer": "sgd", "learning_rate": 0.1}])
@pytest.mark.parametrize("killed_after", [1, 4, 5, 11])
def test_a_killed_and_resumed_run_gives_the_same_bits(tmp_path, change, killed_after):
    config = TrainerConfig(**{**EVERYTHING, **change})
    expected, history = train(config)
    options = {"checkpoint": tmp_path / "run"}
    with pytest.raises(Killed):
        train(config, progress=kill_after(killed_after), **options)
    resumed, resumed_history = train(config, **options)
    assert parameter_bits(resumed) == parameter_bits(expected)
    assert records(resumed_history) == records(history)
    again, again_history = train(config, progress=kill_after(1), **options)
    assert parameter_bits(again) == parameter_bits(expected)
    assert records(again_history) == records(history)


def test_a_checkpoint_of_other_data_or_shape_is_refused(tmp_path):
    options = {"checkpoint": tmp_path / "run"}
    config = TrainerConfig(**EVERYTHING)
    train(config, **options)
    with pytest.raises(StorageError, match="made from other data"):
        train(config, corpus=CORPUS.take(np.arange(49)), **options)
    with pytest.raises(StorageError, match="made with n_topics = 8"):
        train(config, network={"n_topics": 9}, **options)


def test_a_truncated_checkpoint_is_refused(tmp_path):
    path = tmp_path / "run"
    train(TrainerConfig(**EVERYTHING), checkpoint=path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(StorageError, match="damaged"):
        train(TrainerConfig(**EVERYTHING), checkpoint=path)


def test_a_malformed_checkpoint_is_refused_and_changes_nothing(tmp_path):
    path = tmp_path / "run"
    config = TrainerConfig(**EVERYTHING)
    train(config, checkpoint=path)
    arrays, description = load_arrays(path)
    network = network_for(CORPUS)
    before = parameter_bits(network)
    for name, message in (
        ("parameter/hidden_bias", r"parameter hidden_bias has shape \(1,\)"),
        ("best/hidden_bias", r"best hidden_bias has shape \(1,\)"),
        ("optimizer/1/exp_avg", r"optimizer/1 exp_avg has shape \(1,\)"),
        ("optimizer/99/exp_avg", "it holds optimizer/99/exp_avg"),
    ):
        save_arrays(path, {**arrays, name: np.zeros(1, np.float32)}, description)
        with pytest.raises(StorageError, match=message):
            Trainer(network, config, checkpoint=path).fit(CORPUS, VALIDATION)
        assert parameter_bits(network) == before


def test_settings_from_numpy_are_saved(tmp_path):
    config = TrainerConfig(max_epochs=np.int64(1), learning_rate=np.float32(0.01), seed=np.int8(3))
    train(config, checkpoint=tmp_path / "run")


def test_a_checkpoint_of_another_backend_is_refused(tmp_path):
    config = TrainerConfig(max_epochs=1)
    train(config, checkpoint=tmp_path / "run")
    network = network_for(CORPUS)
    message = "made with backend = 'cpu', this run has 'vectorized'"
    with use_backend("vectorized"), pytest.raises(StorageError, match=message):
        Trainer(network, config, checkpoint=tmp_path / "run").fit(CORPUS, VALIDATION)
