from dataclasses import replace

import numpy as np
import pytest
from tests.drawn import scenes, small_model

from supdocnade.scene.novelty import TopicNeighbours, take_references, unfamiliar_above
from supdocnade.scene.persistence import load_scene, save_scene
from supdocnade.scene.prediction import predict_topics

RNG = np.random.default_rng(0)
KNOWN, NEW = (RNG.normal(size=(n, 4)).astype(np.float32) * [1, 2, 3, 0] for n in (30, 7))


@pytest.mark.parametrize("n_known", [1, 2, 30])
def test_the_distance_is_that_of_the_third_nearest_photograph(n_known):
    known = KNOWN[:n_known]
    scale = known.std(axis=0)
    scale[scale == 0] = 1
    ranked = [sorted(np.linalg.norm((known - row) / scale, axis=1)) for row in NEW]
    neighbours = TopicNeighbours(known)
    distance_B = neighbours.distances(NEW)
    np.testing.assert_allclose(distance_B, [each[:3][-1] for each in ranked])
    # A row has the same bits alone.
    assert neighbours.distances(NEW[4:5])[0] == distance_B[4]


def test_many_photographs_are_thinned_out():
    assert len(range(4500)[take_references(4500)]) == 1500
    assert take_references(0) == slice(None, None, 1)


def test_one_in_twenty_known_photographs_is_beyond_the_limit():
    assert unfamiliar_above(np.arange(18.0)) is None
    assert unfamiliar_above(np.arange(19.0)[::-1]) == 18
    assert unfamiliar_above(np.arange(99.0)) == 94


def with_limit(limit):
    fitted = small_model().fitted_
    return replace(fitted, choices=replace(fitted.choices, unfamiliar_above=limit))


def topics():
    return small_model().transform([scene.image for scene in scenes(2, seed=5)])


def test_photographs_beyond_the_limit_are_unfamiliar(tmp_path):
    hidden_BH = topics()
    training_set = small_model().fitted_.training_set
    known_BH = small_model().fitted_.compute_topics(training_set.counts)
    distance_B = TopicNeighbours(known_BH).distances(hidden_BH)
    fitted = with_limit(float(np.median(distance_B)))
    save_scene(fitted, {"random_state": 0}, tmp_path / "model")
    for model in (fitted, load_scene(tmp_path / "model")[0]):
        predictions = predict_topics(model, ["name"] * 6, hidden_BH)
        assert [each.unfamiliar for each in predictions] == list(distance_B > np.median(distance_B))


def test_without_a_limit_none_is_unfamiliar():
    """As in models that are older than it, or with few held-out photographs."""
    assert small_model().fitted_.choices.unfamiliar_above is None
    assert not small_model().fitted_.is_unfamiliar(1e9 + topics()).any()
    assert with_limit(1.0).is_unfamiliar(1e9 + topics()).all()
