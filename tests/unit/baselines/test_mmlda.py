"""`MMLDA`: the margin, the objective and storage."""

import numpy as np
import pytest
from scipy import sparse
from tests.planted_corpus import scene_corpus

from supdocnade.baselines import MMLDA
from supdocnade.baselines.dirichlet import Bags, States, Topics, infer_topics
from supdocnade.baselines.dirichlet_kernels import MARGIN, TEMPERATURE
from supdocnade.corpus.documents import NO_LABEL
from supdocnade.errors import InvalidArgument

SCENES = scene_corpus(120, n_visual_words=40, mean_length=60)[0]
X, LABELS, TAGS = sparse.csr_array(SCENES.counts), SCENES.labels, SCENES.tags


def test_classes_are_separated_and_the_objective_rises(tmp_path):
    model = MMLDA(6, max_iter=30, tol=0.0, random_state=0).fit(X, LABELS, annotations=TAGS)
    bayes = (SCENES.class_posterior().argmax(axis=1) == LABELS).mean()
    assert model.score(X, LABELS) > bayes - 0.05
    assert (np.diff(model.bounds_) >= 0).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    model.save(tmp_path / "model")
    loaded = MMLDA.load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.annotate(X), model.annotate(X))


def test_the_loss_is_the_hinge_loss():
    random = np.random.default_rng(0)
    words_KH, eta_CH = random.dirichlet(np.ones(3), 5), random.normal(0, 4, (4, 3))
    counts = sparse.csr_array(random.poisson(3.0, (6, 5)) + 1)
    no_tags = (sparse.csr_array((6, 0)), np.zeros((0, 3)))
    bounds = []
    for labels in (np.array([0, 1, 2, 3, 0, 1]), np.full(6, NO_LABEL)):
        states = States.start(6, 3)
        bags = Bags.from_counts(counts, no_tags[0], labels)
        topics = Topics(1.0, (words_KH, no_tags[1]), eta_CH, MARGIN, 2.0)
        infer_topics(bags, topics, states, n_trials=1, tolerance=0.0)
        bounds.append(states.bound_B)
    shares_BH = states.expected_XBH[0] / bags.size_XB[0][:, None]
    scores_BC = shares_BH @ eta_CH.T
    right_B = scores_BC[np.arange(6), [0, 1, 2, 3, 0, 1]]
    margin_BC = 1 - np.eye(4)[[0, 1, 2, 3, 0, 1]]
    hinge_B = (margin_BC + scores_BC - right_B[:, None]).max(axis=1)
    loss_B = (bounds[1] - bounds[0]) / 2.0
    assert (loss_B >= hinge_B - 1e-12).all()
    assert (loss_B <= hinge_B + TEMPERATURE * np.log(4)).all()


def test_a_wrong_cost():
    with pytest.raises(InvalidArgument, match="cost must be a finite number above 0, got 0"):
        MMLDA(cost=0).fit(X, LABELS)
