"""Training recovers planted structure: classes, tags, and the likelihood of the true model."""

import numpy as np
import pytest
from examples.planted_scenes import planted_scenes
from tests.planted_corpus import network_for, scene_corpus

from supdocnade.metrics import f_measure, top_ranked
from supdocnade.model.inference import annotation_log_proba, class_log_proba
from supdocnade.training.config import TrainerConfig
from supdocnade.training.trainer import Trainer
from supdocnade.training.validation import (
    log_prob_over_orderings,
    visual_topics,
)

N_TRAIN, N_TEST = 2000, 1000
OPTIONS = {"seed": 4, "contrast": 1.0, "mean_length": 40.0}


def split(corpus):
    return corpus.take(np.arange(N_TRAIN)), corpus.take(np.arange(N_TRAIN, N_TRAIN + N_TEST))


@pytest.mark.parametrize("output", ["tree", "softmax"])
def test_the_likelihood_comes_within_two_hundredths_of_a_nat_of_the_truth(output):
    scenes, corpus = scene_corpus(N_TRAIN + N_TEST, tags=False, **OPTIONS)
    train, test = split(corpus)
    network = network_for(train, supervised=False, n_topics=32, output=output)
    config = TrainerConfig(max_epochs=20, learning_rate=3e-3, batch_size=50)
    Trainer(network, config).fit(train)
    ours = (log_prob_over_orderings(network, test)[0] / test.size_B).mean()
    truth = (scenes.log_prob()[N_TRAIN:] / test.size_B).mean()
    frequency = train.word_counts() / train.word_counts().sum()
    unigram = (scenes.counts[N_TRAIN:] @ np.log(frequency) / test.size_B).mean()
    assert truth - unigram > 0.08  # The possible gain over the unigram, in nats per word.
    assert truth - 0.02 < ours < truth


def test_classes_and_tags_come_within_one_percent_of_the_best_possible():
    scenes, corpus = scene_corpus(N_TRAIN + N_TEST, **OPTIONS)
    train, test = split(corpus)
    network = network_for(train, n_topics=32)
    config = TrainerConfig(
        max_epochs=20, learning_rate=3e-3, batch_size=50, generative_weight=0.1, annotation_weight=5
    )
    Trainer(network, config).fit(train)

    posterior = scenes.class_posterior()[N_TRAIN:]
    best_accuracy = (posterior.argmax(axis=1) == test.label_B).mean()
    found = visual_topics(network, test)
    accuracy = (class_log_proba(*found).argmax(axis=1) == test.label_B).mean()
    assert best_accuracy < 0.99  # Classes overlap: a perfect score would be suspicious.
    assert accuracy > best_accuracy - 0.01

    true = test.annotation_presence()
    best_f = f_measure(top_ranked(posterior @ scenes.tag_probability, 3), true)
    ours_f = f_measure(top_ranked(annotation_log_proba(*found), 3), true)
    assert ours_f > best_f - 0.01


def test_probabilities_sum_to_one():
    scenes = planted_scenes(50, np.random.default_rng(0))
    np.testing.assert_allclose(scenes.word_probability.sum(axis=1), 1.0)
    np.testing.assert_allclose(scenes.class_posterior().sum(axis=1), 1.0)
    assert (scenes.counts.sum(axis=1) > 0).all()
    assert scenes.counts.shape == (50, 60)
    assert scenes.tags.shape == (50, 12)


def test_log_prob_by_enumeration():
    scenes = planted_scenes(5, np.random.default_rng(1), n_classes=2, n_visual_words=3)
    for counts, log_prob in zip(scenes.counts, scenes.log_prob(), strict=True):
        by_class = [np.prod(p**counts) for p in scenes.word_probability]
        assert log_prob == pytest.approx(np.log(np.mean(by_class)))


def test_words_and_tags_follow_their_classes():
    scenes = planted_scenes(20_000, np.random.default_rng(2), n_classes=3)
    for label in range(3):
        own = scenes.labels == label
        words = scenes.counts[own].sum(axis=0)
        np.testing.assert_allclose(words / words.sum(), scenes.word_probability[label], atol=2e-3)
        np.testing.assert_allclose(
            scenes.tags[own].mean(axis=0), scenes.tag_probability[label], atol=0.02
        )
