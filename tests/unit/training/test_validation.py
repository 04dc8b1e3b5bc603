import numpy as np
import pytest
from tests.planted_corpus import network_for, randomize, scene_corpus

from supdocnade.corpus import Documents
from supdocnade.errors import InvalidArgument
from supdocnade.model.inference import class_log_proba
from supdocnade.training.validation import (
    available_metrics,
    compute_metrics,
    log_prob_over_orderings,
    visual_topics,
)

_, CORPUS = scene_corpus(70, mean_length=20)


@pytest.fixture(scope="module")
def network():
    return randomize(network_for(CORPUS), 0.1)


def test_orderings_differ_and_are_reproducible(network):
    first = log_prob_over_orderings(network, CORPUS, 3)
    assert first.shape == (3, 70)
    assert len(np.unique(first[:, 0])) == 3
    np.testing.assert_array_equal(first[:2], log_prob_over_orderings(network, CORPUS, 2))
    assert not np.array_equal(first, log_prob_over_orderings(network, CORPUS, 3, seed=1))


def test_probabilities_do_not_depend_on_the_other_documents(network):
    one = log_prob_over_orderings(network, CORPUS.take([0]))
    np.testing.assert_allclose(one[0, 0], log_prob_over_orderings(network, CORPUS)[0, 0])


def test_topics_never_see_the_annotations(network):
    hidden = visual_topics(network, CORPUS)[1]
    np.testing.assert_array_equal(hidden, visual_topics(network, CORPUS.without_annotations())[1])
    nothing = CORPUS.take([])
    assert visual_topics(network, nothing)[1].shape == (0, network.config.n_topics)
    assert log_prob_over_orderings(network, nothing, 2).shape == (2, 0)


def test_available_metrics(network):
    words = Documents.from_counts(np.ones((2, 60)), annotations=np.zeros((2, 12)))
    assert available_metrics(network, CORPUS) == ("loss", "perplexity", "accuracy", "f_measure")
    assert available_metrics(network, words) == ("loss", "perplexity")
    assert available_metrics(network, CORPUS.take([])) == ("loss",)
    results = compute_metrics(network, CORPUS, generative_weight=0.1, annotation_weight=1, seed=0)
    assert results["accuracy"] == pytest.approx(
        (class_log_proba(*visual_topics(network, CORPUS)).argmax(axis=1) == CORPUS.label_B).mean()
    )


def test_no_orderings_are_refused(network):
    with pytest.raises(InvalidArgument, match="n_orderings must be a whole number of at least 1"):
        log_prob_over_orderings(network, CORPUS, 0)
