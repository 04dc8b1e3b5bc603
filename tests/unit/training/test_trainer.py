import math

import numpy as np
import pytest
import torch
from scipy import sparse
from tests.scenes import network_for, scene_corpus

from supdocnade.corpus import Documents
from supdocnade.errors import InvalidArgument, StorageError, TrainingDiverged
from supdocnade.likelihood import contract
from supdocnade.likelihood.contract import SPARSE_ROWS
from supdocnade.storage import load_arrays, save_arrays
from supdocnade.training.history import History
from supdocnade.training.trainer import Trainer, check_class_weight
from supdocnade.training.trainer_config import TrainerConfig

_, CORPUS = scene_corpus(50, mean_length=20)
_, VALIDATION = scene_corpus(20, seed=1, mean_length=20)

# Everything a checkpoint must hold: moments, averages, the best epoch, the stopping count.
EVERYTHING = {
    "max_epochs": 6,
    "batch_size": 16,
    "learning_rate": 1e-2,
    "clip_norm": 1.0,
    "averaging": 0.9,
    "early_stopping": True,
    "n_epochs_no_change": 2,
    "generative_weight": 0.1,
    "annotation_weight": 3.0,
}


class Killed(Exception):
    pass


def kill_after(n_updates):
    count = 0

    def on_progress(_):
        nonlocal count
        count += 1
        if count == n_updates:
            raise Killed

    return on_progress


def train(config, corpus=CORPUS, validation=VALIDATION, **options):
    network = network_for(corpus, **options.pop("network", {}))
    history = Trainer(network, config, **options).fit(corpus, validation)
    return network, history


def bits(network):
    return {name: p.detach().numpy().tobytes() for name, p in network.named_parameters()}


def records(history: History):
    return [history.epochs, history.best_epoch, history.stopped_early]


@pytest.mark.parametrize("change", [{}, {"optimizer": "sgd", "learning_rate": 0.1}])
@pytest.mark.parametrize("killed_after", [1, 3, 4, 5, 11])
def test_a_killed_and_resumed_run_gives_the_same_bits(tmp_path, change, killed_after):
    config = TrainerConfig(**{**EVERYTHING, **change})
    expected, history = train(config)
    options = {"checkpoint": tmp_path / "run", "checkpoint_every": 2}
    with pytest.raises(Killed):
        train(config, on_progress=kill_after(killed_after), **options)
    resumed, resumed_history = train(config, **options)
    assert bits(resumed) == bits(expected)
    assert records(resumed_history) == records(history)
    again, again_history = train(config, on_progress=kill_after(1), **options)
    assert bits(again) == bits(expected)
    assert records(again_history) == records(history)


def test_row_updates_resume_too(tmp_path, monkeypatch):
    monkeypatch.setattr(contract, "SPARSE_ROWS", 4)
    config = TrainerConfig(**EVERYTHING)
    expected, _ = train(config)
    options = {"checkpoint": tmp_path / "run"}
    with pytest.raises(Killed):
        train(config, on_progress=kill_after(6), **options)
    resumed, _ = train(config, **options)
    assert bits(resumed) == bits(expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.5}, r"learning_rate = 0.01, this run has 0.5"),
        ({"seed": 1}, "seed = 0, this run has 1"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(tmp_path, change, message):
    options = {"checkpoint": tmp_path / "run"}
    train(TrainerConfig(**EVERYTHING), **options)
    with pytest.raises(StorageError, match=message):
        train(TrainerConfig(**{**EVERYTHING, **change}), **options)


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


def drop(name):
    return lambda arrays, _: arrays.pop(name)


def put(name, shape):
    return lambda arrays, _: arrays.update({name: np.zeros(shape, np.float32)})


def describe(key, value):
    return lambda _, description: description.update({key: value})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (drop("parameter/hidden_bias"), "its parameter arrays are"),
        (put("parameter/hidden_bias", 1), r"parameter hidden_bias has shape \(1,\)"),
        (put("parameter/extra", 1), "its parameter arrays are"),
        (drop("average/hidden_bias"), "its average arrays are"),
        (put("best/hidden_bias", 9), r"best hidden_bias has shape \(9,\)"),
        (drop("buffer/leaf_of_word"), "its buffer arrays are"),
        (drop("optimizer/0/1/exp_avg"), "holds moments"),
        (put("optimizer/0/1/exp_avg", 3), r"optimizer/0/1/exp_avg has shape \(3,\)"),
        (put("optimizer/0/1/else", 8), "optimizer/0/1/else"),
        (put("optimizer/0/99/exp_avg", 8), "holds optimizer/0/99/exp_avg"),
        (put("optimizer/x", 8), "holds optimizer/x"),
        (put("other/thing", 8), r"it holds \['other'\]"),
        (describe("state", {}), "its state cannot be read"),
        (describe("state", None), "its state cannot be read"),
        (describe("state", {"history": {"epochs": [{"a": 1}]}}), "its state cannot be read"),
        (describe("settings", []), "it names no settings"),
        (describe("format", 1), "checkpoint format 1, expected 2"),
    ],
)
def test_a_malformed_checkpoint_is_refused_and_changes_nothing(tmp_path, spoil, message):
    path = tmp_path / "run"
    config = TrainerConfig(**EVERYTHING)
    train(config, checkpoint=path)
    arrays, description = load_arrays(path)
    spoil(arrays, description)
    save_arrays(path, arrays, description)
    network = network_for(CORPUS)
    before = bits(network)
    with pytest.raises(StorageError, match=message):
        Trainer(network, config, checkpoint=str(path)).fit(CORPUS, VALIDATION)
    assert bits(network) == before


def test_settings_from_numpy_are_saved(tmp_path):
    config = TrainerConfig(max_epochs=np.int64(1), learning_rate=np.float32(0.01), seed=np.int8(3))
    train(config, checkpoint=tmp_path / "run")


def test_a_checkpoint_of_another_backend_is_refused(tmp_path):
    config = TrainerConfig(max_epochs=1)
    train(config, checkpoint=tmp_path / "run")
    network = network_for(CORPUS)
    network.backend = "vectorized"
    with pytest.raises(StorageError, match="made with backend = 'cpu', this run has 'vectorized'"):
        Trainer(network, config, checkpoint=tmp_path / "run").fit(CORPUS, VALIDATION)


@pytest.mark.parametrize("n_words", [SPARSE_ROWS, SPARSE_ROWS + 1, SPARSE_ROWS + 2])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_dense_and_sparse_gradients_around_the_limit(n_words, optimizer):
    counts = sparse.csr_array(([1.0, 2.0, 1.0], ([0, 0, 1], [0, 7, n_words - 1])), (2, n_words))
    corpus = Documents.from_counts(counts, labels=[0, 1], n_classes=2)
    config = TrainerConfig(max_epochs=2, optimizer=optimizer, learning_rate=0.1)
    network, _ = train(config, corpus=corpus, validation=None, network={"n_topics": 2})
    start = network_for(corpus, n_topics=2)
    moved = (network.word_embedding != start.word_embedding).any(dim=1)
    # Rows of words that never occur stay; of the others, those whose units are on must move.
    assert {7} <= set(moved.nonzero()[:, 0].tolist()) <= {0, 7, n_words - 1}


def test_validation_weighs_classes_as_training_does():
    config = TrainerConfig(max_epochs=1)
    _, plain = train(config)
    _, weighted = train(config, class_weight=[100, 1, 1, 1])
    assert weighted.epochs[0].validation["loss"] > plain.epochs[0].validation["loss"] + 1


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    first, second, other = (
        bits(train(TrainerConfig(max_epochs=2, seed=seed))[0]) for seed in (0, 0, 1)
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
    assert len(history.seconds) == 8
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
    assert bits(network) == bits(at_best)


def test_higher_is_better_for_accuracy():
    config = TrainerConfig(
        max_epochs=5, learning_rate=1e-2, early_stopping=True, n_epochs_no_change=5,
        metric="accuracy",
    )  # fmt: skip
    _, history = train(config)
    values = [record.validation["accuracy"] for record in history.epochs]
    assert history.best_epoch == int(np.argmax(values)) + 1


def test_the_average_lies_between_the_start_and_the_end():
    start = network_for(CORPUS)
    plain, _ = train(TrainerConfig(max_epochs=2))
    averaged, _ = train(TrainerConfig(max_epochs=2, averaging=0.999))
    moved = (plain.label_bias - start.label_bias).norm()
    assert 0 < (averaged.label_bias - start.label_bias).norm() < moved


def test_progress_counts_every_update():
    seen = []
    train(TrainerConfig(max_epochs=2, batch_size=20), on_progress=seen.append)
    assert [(p.epoch, p.update) for p in seen] == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]
    assert {(p.max_epochs, p.n_updates) for p in seen} == {(2, 3)}
    assert all(math.isfinite(p.loss) for p in seen)


def test_the_library_prints_nothing(capsys):
    train(TrainerConfig(max_epochs=1))
    assert capsys.readouterr() == ("", "")


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


def test_a_class_weight_moves_the_class_bias():
    light, _ = train(TrainerConfig(max_epochs=3, learning_rate=1e-2), class_weight=[1, 1, 1, 1])
    heavy, _ = train(TrainerConfig(max_epochs=3, learning_rate=1e-2), class_weight=[9, 1, 1, 1])
    assert heavy.label_bias[0] > light.label_bias[0]


def test_missing_labels_and_annotations_drop_their_terms():
    counts = np.random.default_rng(0).integers(0, 4, (30, 10))
    labels = np.where(np.arange(30) < 15, np.arange(30) % 2, -1)
    tags = np.eye(3, dtype=int)[np.arange(30) % 3]
    known = np.arange(30) % 2 == 0
    corpus = Documents.from_counts(
        counts, annotations=tags, annotation_mask=known, labels=labels, n_classes=2
    )
    config = TrainerConfig(max_epochs=2)
    network, history = train(config, corpus=corpus, validation=None)
    assert math.isfinite(history.epochs[-1].loss)
    unlabelled = corpus.take(np.arange(15, 30))
    alone, _ = train(config, corpus=unlabelled, validation=None)
    prior = torch.log_softmax(torch.zeros(2), dim=0)
    torch.testing.assert_close(torch.log_softmax(alone.label_bias.detach(), dim=0), prior)
    assert not torch.equal(network.label_weight, alone.label_weight)


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        ({"early_stopping": True}, {"validation": None}, "early_stopping needs a validation set"),
        (
            {"early_stopping": True, "metric": "accuracy"},
            {"network": {"supervised": False}},
            r"metric must be one of \('loss', 'perplexity', 'f_measure'\) .* got 'accuracy'",
        ),
        ({"generative_weight": 0}, {"network": {"supervised": False}}, "must be above 0"),
        ({}, {"corpus": CORPUS.take([])}, "corpus must have a document"),
        ({}, {"validation": Documents.from_counts([[1]])}, "validation must have 60 visual and 12"),
        ({}, {"class_weight": [1, 2]}, r"class_weight must have shape \(4,\), got \(2,\)"),
        ({}, {"class_weight": [1, 1, 1, -1]}, "class_weight must be finite and not negative"),
    ],
)
def test_invalid_training_is_refused(config, options, message):
    with pytest.raises(InvalidArgument, match=message):
        train(TrainerConfig(max_epochs=1, **config), **options)


def test_class_weights_are_on_the_device_of_the_network():
    network = network_for(CORPUS)
    assert check_class_weight(network, [1, 2, 3, 4]).tolist() == [1.0, 2.0, 3.0, 4.0]
    # A device that every machine has, in place of a GPU.
    assert check_class_weight(network.to("meta"), [1, 2, 3, 4]).device.type == "meta"


def test_a_run_can_end_before_its_schedule():
    """The parameters are those that the whole run had after that epoch."""
    seen = {}
    whole = network_for(CORPUS)
    Trainer(
        whole,
        TrainerConfig(max_epochs=4),
        on_epoch=lambda epoch: seen.update({epoch: bits(whole)}),
    ).fit(CORPUS)
    part, history = train(TrainerConfig(max_epochs=4, stop_after=3))
    assert sorted(seen) == [1, 2, 3, 4]
    assert len(history.epochs) == 3
    assert bits(part) == seen[3]
    assert seen[3] != seen[4]
