import numpy as np
import pytest

from supdocnade.demo import planted_scenes
from supdocnade.errors import InvalidArgument


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


def test_sizes_must_be_positive():
    with pytest.raises(InvalidArgument, match="must be positive"):
        planted_scenes(0, np.random.default_rng(0))
