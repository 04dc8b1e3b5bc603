"""One seed gives the same bits for any number of threads."""

import hashlib

import pytest
import torch
from tests.planted_corpus import network_for, scene_corpus

from supdocnade.training.config import TrainerConfig
from supdocnade.training.trainer import Trainer

CASES = [
    ("tree", 0.01),
    ("softmax", 0.01),
    ("tree", 0.0),
]


@pytest.fixture
def _threads():
    """Restore the number of torch's threads, which the package's threads follow."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def digest(corpus, output, generative_weight):
    """Train; return a digest of the history and the parameters."""
    network = network_for(corpus, n_topics=64, output=output)
    config = TrainerConfig(
        max_epochs=2, batch_size=24, learning_rate=1e-2, clip_norm=0.5,
        generative_weight=generative_weight, early_stopping=True, metric="f_measure",
    )  # fmt: skip
    history = Trainer(network, config).fit(corpus, corpus)
    found = hashlib.sha256(repr(history.epochs).encode())
    for parameter in network.parameters():
        found.update(parameter.detach().numpy().tobytes())
    return found.hexdigest()


@pytest.mark.usefixtures("_threads")
def test_threads_do_not_change_a_bit():
    # Long documents and many classes, so that work is split over threads.
    _, corpus = scene_corpus(48, n_classes=20, n_visual_words=600, mean_length=500)
    found = []
    for n_threads in (1, 3):
        torch.set_num_threads(n_threads)
        found.append([digest(corpus, *case) for case in CASES])
    alone, together = found
    assert len(set(alone)) == len(CASES)
    assert together == alone
