import numpy as np
import pytest
from scipy import sparse
from tests.planted_corpus import network_for, parameter_bits, scene_corpus

from supdocnade.corpus import Documents
from supdocnade.errors import InvalidArgument, TrainingDiverged
from supdocnade.likelihood.contract import SPARSE_ROWS
from supdocnade.training.config import TrainerConfig
from supdocnade.training.trainer import Trainer

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
