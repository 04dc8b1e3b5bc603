"""Baselines computed by hand, and in a finished study."""

import numpy as np
from experiments.paper.baselines import (
    _logistic,
    _neighbours,
    baseline_key,
    pyramid_weights,
)
from experiments.paper.plans import BASELINES, TAG_BASELINES
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler


def test_levels_of_the_pyramid_weigh_a_quarter_a_quarter_and_a_half():
    weight = pyramid_weights(3)
    assert len(weight) == 21 * 3
    assert weight[:3].tolist() == [0.25] * 3
    assert weight[3:15].tolist() == [0.25] * 12
    assert weight[15:].tolist() == [0.5] * 48


def test_every_baseline_predicts_all_test_photographs(finished):
    for split in range(2):
        test = finished.protocol.parts(split).test
        for name in BASELINES:
            prediction = finished.prediction(baseline_key(name, "paper", split))
            right = np.array(prediction["predicted"]) == finished.label_B[test]
            assert len(right) == len(test)
            # Drawn scenes of eight classes: 1/8 is luck.
            assert right.mean() > 2 / 8, name
        for name in TAG_BASELINES:
            prediction = finished.prediction(baseline_key(name, "paper", split, "tags_free"))
            assert np.shape(prediction["top_tags"]) == (len(test), 5), name


def test_the_nearest_photographs_give_their_tags():
    learn = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    tags = np.array([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    score = _neighbours(learn, tags, np.array([[1.0, 0.01]]), 2)
    # Both neighbours have the first tag; the nearer one has the third.
    assert np.argsort(-score[0]).tolist() == [0, 2, 1]


def test_a_rotation_does_not_change_a_logistic_regression():
    rng = np.random.default_rng(1)
    values, ask = rng.normal(size=(20, 50)), rng.normal(size=(5, 50))
    tags = (values[:, :1] + 0.5 * rng.normal(size=(20, 1)) > 0).astype(float)
    scaler = StandardScaler().fit(values)
    plain = LogisticRegression(C=0.1, max_iter=1000, tol=1e-8).fit(
        scaler.transform(values), tags[:, 0] > 0
    )
    wanted = plain.decision_function(scaler.transform(ask))
    np.testing.assert_allclose(_logistic(values, tags, ask, 0.1)[:, 0], wanted, atol=1e-3)
