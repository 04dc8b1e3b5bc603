"""Updates move the right rows, and a run that diverges is stopped."""

import threading

import pytest
import torch
from scipy import sparse
from tests.planted_corpus import network_for, scene_corpus

from supdocnade.corpus import Documents
from supdocnade.errors import TrainingDiverged
from supdocnade.likelihood.contract import SPARSE_ROWS
from supdocnade.threads import limit_threads
from supdocnade.training import updates
from supdocnade.training.trainer import Trainer
from supdocnade.training.trainer_config import TrainerConfig

_, CORPUS = scene_corpus(50, mean_length=20)
_, VALIDATION = scene_corpus(20, seed=1, mean_length=20)


def train(config, corpus=CORPUS, validation=VALIDATION, **options):
    network = network_for(corpus, **options.pop("network", {}))
    history = Trainer(network, config, **options).fit(corpus, validation)
    return network, history


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


def test_batches_are_gathered_ahead_and_change_no_bit(monkeypatch):
    config = TrainerConfig(max_epochs=2, batch_size=20)
    gather, gathered, results = updates.make_batch, [], []

    def make_batch(corpus, rows_B, *args, **options):
        gathered.append((threading.current_thread() is threading.main_thread(), len(rows_B)))
        return gather(corpus, rows_B, *args, **options)

    monkeypatch.setattr(updates, "make_batch", make_batch)
    for n_threads in (1, 2):
        gathered.clear()
        with limit_threads(n_threads):
            network, _ = train(config, validation=None)
        results.append(network)
        # The last batch of an epoch is gathered again to check the objective.
        here = [True, n_threads == 1, n_threads == 1, True]
        assert gathered == 2 * list(zip(here, [20, 20, 10, 10], strict=True))
    for one, two in zip(*(network.parameters() for network in results), strict=True):
        assert torch.equal(one, two)
