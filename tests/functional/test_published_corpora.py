"""Real data, where it is at hand: what the experiments read is what was published."""

import os
from pathlib import Path

import numpy as np
import pytest
from experiments.common import unigram_log_prob
from experiments.data import class_slda, newsgroups, tag_my_news

from supdocnade import DocNADE

FOLDER = Path(os.environ.get("SUPDOCNADE_DATA", Path(__file__).parents[3] / "shared" / "data"))

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="no published corpora at hand: set SUPDOCNADE_DATA"
)


def test_shapes_are_the_published_ones():
    train, test = class_slda()
    assert train.counts.shape == test.counts.shape == (800, 158)
    assert set(train.counts.sum(axis=1)) == {2401}
    assert np.bincount(train.labels).tolist() == np.bincount(test.labels).tolist() == [100] * 8
    assert [len(part.labels) for part in tag_my_news()] == [22802, 1999, 7775]
    assert [part.counts.shape[1] for part in newsgroups()] == [1995, 1995]


def test_two_epochs_are_already_better_than_word_frequencies():
    train, test = class_slda()
    unigram = np.exp(-(unigram_log_prob(train.counts, test.counts) / 2401).mean())
    assert unigram == pytest.approx(152.2, abs=0.05)  # A known figure of this corpus.
    settings = {"activation": "tanh", "learning_rate": 1e-3, "batch_size": 4, "max_epochs": 2}
    model = DocNADE(50, random_state=0, **settings).fit(train.counts)
    assert model.perplexity(test.counts[:200]) < 140
