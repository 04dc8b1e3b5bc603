import numpy as np
import pytest
import torch
from tests.planted_corpus import network_for, scene_corpus

from supdocnade.corpus import Documents
from supdocnade.errors import InvalidArgument
from supdocnade.training.validation import (
    annotation_log_prob,
    available_metrics,
    class_log_prob,
    compute_metrics,
    log_prob_over_orderings,
)

_, CORPUS = scene_corpus(70, mean_length=20)


@pytest.fixture(scope="module")
def network():
    network = network_for(CORPUS)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.1, generator=generator)
    return network


def test_orderings_differ_and_are_reproducible(network):
    first = log_prob_over_orderings(network, CORPUS, 3)
    assert first.shape == (3, 70)
    assert len(np.unique(first[:, 0])) == 3
    np.testing.assert_array_equal(first[:2], log_prob_over_orderings(network, CORPUS, 2))
    assert not np.array_equal(first, log_prob_over_orderings(network, CORPUS, 3, seed=1))


def test_probabilities_do_not_depend_on_the_other_documents(network):
    one = log_prob_over_orderings(network, CORPUS.take([0]))
    np.testing.assert_allclose(one[0, 0], log_prob_over_orderings(network, CORPUS)[0, 0])


def test_joint_probability_is_words_times_class(network):
    joint = log_prob_over_orderings(network, CORPUS, 2, with_labels=True)
    words = log_prob_over_orderings(network, CORPUS, 2)
    classes = class_log_prob(network, CORPUS)[np.arange(70), CORPUS.label_B]
    np.testing.assert_allclose(joint, words + classes, rtol=1e-5)
    unlabelled = Documents.from_counts(np.ones((1, 60)), annotations=np.ones((1, 12)))
    with pytest.raises(InvalidArgument, match="needs a label for every document"):
        log_prob_over_orderings(network, unlabelled, with_labels=True)


def test_predictions_never_see_the_annotations(network):
    visual = CORPUS.without_annotations()
    np.testing.assert_array_equal(class_log_prob(network, CORPUS), class_log_prob(network, visual))
    np.testing.assert_array_equal(
        annotation_log_prob(network, CORPUS), annotation_log_prob(network, visual)
    )


def test_available_metrics(network):
    words = Documents.from_counts(np.ones((2, 60)), annotations=np.zeros((2, 12)))
    assert available_metrics(network, CORPUS) == ("loss", "perplexity", "accuracy", "f_measure")
    assert available_metrics(network, words) == ("loss", "perplexity")
    assert available_metrics(network, CORPUS.take([])) == ("loss",)
    results = compute_metrics(network, CORPUS, generative_weight=0.1, annotation_weight=1, seed=0)
    assert results["accuracy"] == pytest.approx(
        (class_log_prob(network, CORPUS).argmax(axis=1) == CORPUS.label_B).mean()
    )


def test_bits_do_not_depend_on_threads():
    corpus = Documents.from_counts(
        np.random.default_rng(0).poisson(1.0, (64, 50)), annotations=np.ones((64, 9)),
        labels=np.arange(64) % 8, n_classes=8,
    )  # fmt: skip
    network = network_for(corpus, n_topics=1000)
    with torch.no_grad():
        network.label_weight.normal_(0, 0.1, generator=torch.Generator().manual_seed(0))
    before = torch.get_num_threads()
    results = []
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            results.append((class_log_prob(network, corpus), annotation_log_prob(network, corpus)))
    finally:
        torch.set_num_threads(before)
    for classes, tags in results[1:]:
        np.testing.assert_array_equal(classes, results[0][0])
        np.testing.assert_array_equal(tags, results[0][1])


def test_an_empty_corpus_gives_empty_results(network):
    nothing = CORPUS.take([])
    assert log_prob_over_orderings(network, nothing, 2).shape == (2, 0)
    assert class_log_prob(network, nothing).shape == (0, 4)
    assert annotation_log_prob(network, nothing).shape == (0, 12)


def test_no_orderings_are_refused(network):
    with pytest.raises(InvalidArgument, match="n_orderings must be a whole number of at least 1"):
        log_prob_over_orderings(network, CORPUS, 0)
