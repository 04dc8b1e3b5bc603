from dataclasses import replace

import numpy as np
import pytest
from tests.scene_model import scenes, small_model

from supdocnade.scene.novelty import (
    SHRINKAGE,
    ClassNovelty,
    NeighbourNovelty,
    fit_novelty,
    unfamiliar_above,
)
from supdocnade.scene.persistence import load_scene, save_scene
from supdocnade.scene.prediction import predict_compared
from supdocnade.threads import limit_threads

RNG = np.random.default_rng(0)
KNOWN, NEW = (RNG.normal(size=(n, 4)).astype(np.float32) * [1, 2, 3, 0] for n in (30, 7))


@pytest.mark.parametrize("n_known", [1, 2, 30])
def test_the_distance_is_that_of_the_third_nearest_photograph(n_known):
    known = KNOWN[:n_known]
    scale = known.std(axis=0)
    scale[scale == 0] = 1
    ranked = [sorted(np.linalg.norm((known - row) / scale, axis=1)) for row in NEW]
    neighbours = NeighbourNovelty(known)
    distance_B = neighbours.scores(NEW)
    np.testing.assert_allclose(distance_B, [each[:3][-1] for each in ranked])
    # A row has the same bits alone.
    assert neighbours.scores(NEW[4:5])[0] == distance_B[4]


def mahalanobis(rows, mean, centred):
    """Squared distances of rows by the formula, with a shrunk covariance."""
    covariance = centred.T @ centred / len(centred)
    identity = np.eye(len(covariance)) * np.trace(covariance) / len(covariance)
    shrunk = (1 - SHRINKAGE) * covariance + SHRINKAGE * identity
    away = rows - mean
    return (away @ np.linalg.inv(shrunk) * away).sum(axis=1)


def test_the_score_is_the_distance_to_the_nearest_class_relative_to_all():
    labels = ["sea", "street", None] * 10
    scale = KNOWN.std(axis=0)
    scale[scale == 0] = 1
    known, new = ((each - KNOWN.mean(axis=0)) / scale for each in (KNOWN, NEW))
    means = [known[number::3].mean(axis=0) for number in range(3)]
    within = known - np.tile(means, (10, 1))
    nearest = np.min([mahalanobis(new, mean, within) for mean in means], axis=0)
    novelty = ClassNovelty(KNOWN, labels)
    score_B = novelty.scores(NEW)
    np.testing.assert_allclose(score_B, nearest - mahalanobis(new, 0, known), rtol=1e-5)
    assert novelty.scores(NEW[4:5])[0] == score_B[4]


def test_classes_are_told_from_a_class_that_was_left_out():
    """Its topics lie between two classes, near to the mean of all photographs."""
    centres = {"sea": [8, 0, 0], "street": [-8, 0, 0]}
    labels = ["sea", "street"] * 100
    noise = RNG.normal(size=(240, 3)) * [0.5, 1, 1]
    known = noise[:200] + [centres[label] for label in labels]
    seen, left_out = noise[200:220] + centres["sea"], noise[220:] + np.array([0, 0, 3])
    novelty = fit_novelty(known, labels)
    assert novelty.scores(seen).max() < novelty.scores(left_out).min()


def test_the_number_of_threads_does_not_change_a_bit():
    rng = np.random.default_rng(1)
    known, new = rng.normal(size=(300, 200)), rng.normal(size=(5, 200))
    found = []
    for n_threads in (1, 2, 3):
        with limit_threads(n_threads):
            found.append(ClassNovelty(known, ["a", "b", "c"] * 100).scores(new))
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_one_in_twenty_known_photographs_is_beyond_the_limit():
    assert unfamiliar_above(np.arange(18.0)) is None
    assert unfamiliar_above(np.arange(19.0)[::-1]) == 18
    assert unfamiliar_above(np.arange(99.0)) == 94


def with_limit(limit):
    fitted = small_model().fitted_
    return replace(fitted, choices=replace(fitted.choices, unfamiliar_above=limit))


def photographs():
    return small_model()._compare([scene.image for scene in scenes(2, seed=2)])


def test_photographs_beyond_the_limit_are_unfamiliar(tmp_path):
    some = photographs()
    labels = small_model().fitted_.training_set.photographs.labels
    score_B = ClassNovelty(small_model().fitted_.topics_BH, labels).scores(some.topics_BH)
    fitted = with_limit(float(np.sort(score_B)[-2]))
    save_scene(fitted, tmp_path / "model")
    for model in (fitted, load_scene(tmp_path / "model")):
        predictions = predict_compared(model, ["name"] * 6, some)
        assert [each.unfamiliar for each in predictions] == list(score_B == score_B.max())


def test_without_classes_it_is_the_distance_to_neighbours():
    known_BH = RNG.normal(size=(40, 3))
    for labels in ([None] * 40, ["sea"] * 40):
        assert isinstance(fit_novelty(known_BH, labels), NeighbourNovelty)


def test_without_a_limit_none_is_unfamiliar():
    """As if few photographs were held out."""
    assert small_model().fitted_.choices.unfamiliar_above is None
    assert not small_model().fitted_.is_unfamiliar(1e9 + photographs().topics_BH).any()
    assert with_limit(1.0).is_unfamiliar(1e9 + photographs().topics_BH).all()
