import numpy as np
import pytest
from scipy import sparse
from tests.planted_corpus import scene_corpus

from supdocnade import make_annotation_scorer
from supdocnade.baselines import MMLDA, SLDA
from supdocnade.baselines.dirichlet import Bags, States, Topics, infer_topics
from supdocnade.baselines.dirichlet_kernels import MARGIN, TEMPERATURE
from supdocnade.corpus.documents import NO_LABEL
from supdocnade.errors import InvalidArgument

SCENES = scene_corpus(120, n_visual_words=40, mean_length=60)[0]
X, LABELS, TAGS = sparse.csr_array(SCENES.counts), SCENES.labels, SCENES.tags
NAMES = [f"tag {k}" for k in range(TAGS.shape[1])]
FAST = {"n_topics": 6, "max_iter": 30, "random_state": 0}


@pytest.fixture(scope="module")
def model():
    return SLDA(**FAST).fit(X, LABELS, annotations=TAGS, annotation_names=NAMES)


def test_classes_and_tags_of_planted_scenes_are_found(model):
    bayes = (SCENES.class_posterior().argmax(axis=1) == LABELS).mean()
    assert model.score(X, LABELS) > bayes - 0.05
    assert make_annotation_scorer(top=2)(model, X, annotations=TAGS) > 0.6
    assert model.annotate(X, top=2).shape == (120, 2)
    assert set(model.annotate(X).ravel()) <= set(NAMES)


def test_the_bound_rises_in_every_iteration():
    for options in ({}, {"penalty": 1e-6, "topic_prior": 0.01}, {"annotation_weight": 20.0}):
        model = SLDA(**{**FAST, **options, "tol": 0.0}).fit(X, LABELS, annotations=TAGS)
        assert model.n_iter_ == len(model.bounds_) == 30
        assert (np.diff(model.bounds_) >= 0).all()
        assert model.bounds_[-1] > model.bounds_[0] + 100


def test_an_update_that_lowers_the_bound_is_shortened(model):
    bags = Bags.from_counts(X, sparse.csr_array((120, TAGS.shape[1])), LABELS)
    words_KH, tags_AH = model.components_.T.copy(), model.annotation_components_.T.copy()
    topics = model._topics(words_KH, tags_AH, model.coef_)
    states = States.start(120, 6)
    for _ in range(20):
        bound = model._continue_inference(bags, topics, states)
    worse = model._topics(words_KH[::-1].copy(), tags_AH, model.coef_)
    accepted, _, new_bound = model._accept_update(bags, topics, worse, states, bound)
    assert new_bound >= bound
    change, full = (abs(each.topic_X[0] - words_KH).max() for each in (accepted, worse))
    assert change <= full / 4


def test_a_fit_of_short_documents_goes_on_where_the_bound_hardly_rises_at_first():
    random = np.random.default_rng(0)
    kinds = np.arange(1000) % 20
    base_K = random.dirichlet(np.full(200, 0.3))
    p_CK = 0.5 * (random.dirichlet(np.full(200, 0.05), 20) + base_K)
    short = np.array([random.multinomial(8, p_CK[kind]) for kind in kinds])
    model = SLDA(50, tol=1e-4, random_state=0).fit(short, kinds % 4)
    gains = np.diff(model.bounds_) / abs(model.bounds_[-1])
    assert gains[1] < 1e-4 < gains[5]
    assert model.score(short, kinds % 4) > 0.8


def test_one_topic_is_the_distribution_of_all_words():
    model = SLDA(1, smoothing=1e-9, random_state=0).fit(X, LABELS)
    frequency_K = SCENES.counts.sum(axis=0) / SCENES.counts.sum()
    np.testing.assert_allclose(model.components_[0], frequency_K, atol=1e-9)
    expected = SCENES.counts @ np.log(frequency_K)
    np.testing.assert_allclose(model.log_prob_bound(X), expected, rtol=1e-6)
    assert model.perplexity(X, "corpus") == pytest.approx(
        np.exp(-expected.sum() / SCENES.counts.sum()), rel=1e-6
    )


def test_threads_and_batches_do_not_change_a_bit(model):
    big = sparse.vstack([X] * 3, format="csr")
    labels = np.tile(LABELS, 3)
    tags = np.tile(TAGS, (3, 1))
    options = {"n_topics": 12, "max_iter": 4, "random_state": 0}
    one, three = (SLDA(**options, n_jobs=n).fit(big, labels, annotations=tags) for n in (1, 3))
    for name in ("components_", "annotation_components_", "coef_", "bounds_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))
    for method in ("transform", "predict_proba", "annotation_proba", "log_prob_bound"):
        whole = getattr(three, method)(big)
        np.testing.assert_array_equal(getattr(one, method)(big[5:6]), whole[5:6])


def test_unknown_classes_and_tags_are_left_out():
    some = np.where(np.arange(len(LABELS)) % 2, LABELS, -7).astype(object)
    some[some == -7] = None
    mask = np.arange(len(LABELS)) % 3 > 0
    hidden = np.where(mask[:, None], TAGS, 99)
    model = SLDA(**FAST).fit(X, some, annotations=hidden, annotation_mask=mask)
    other = SLDA(**FAST).fit(X, some, annotations=TAGS * mask[:, None])
    np.testing.assert_array_equal(model.components_, other.components_)
    assert model.classes_.tolist() == sorted(set(LABELS))
    assert model.score(X, LABELS) > 0.7
    assert model.score(X, some) == SLDA.score(model, X[1::2], LABELS[1::2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_topics": 0}, "n_topics must be a whole number of at least 1, got 0"),
        ({"topic_prior": 0.0}, "topic_prior must be a finite number above 0, got 0.0"),
        ({"smoothing": -1}, "smoothing must be a finite number above 0, got -1"),
        ({"n_jobs": 0}, "n_jobs must be None or a whole number other than 0"),
        ({"cost": 0}, "cost must be a finite number above 0, got 0"),
    ],
)
def test_wrong_settings(options, message):
    with pytest.raises(InvalidArgument, match=message):
        MMLDA(**options).fit(X, LABELS)


def test_wrong_arguments(model):
    with pytest.raises(InvalidArgument, match="SLDA requires y to be passed"):
        SLDA().fit(X)
    with pytest.raises(InvalidArgument, match="for each of the 120 documents"):
        SLDA().fit(X, LABELS[:3])
    with pytest.raises(InvalidArgument, match="fitted without annotations"):
        SLDA(2, max_iter=1).fit(X, LABELS).annotate(X)


def test_documents_without_words(model):
    empty = sparse.csr_array((2, X.shape[1]))
    np.testing.assert_array_equal(model.transform(empty), 1 / 6)
    both = sparse.vstack([X[:3], empty], format="csr")
    assert model.perplexity(both) == model.perplexity(X[:3])


def test_classes_are_separated_and_the_objective_rises():
    model = MMLDA(6, max_iter=30, tol=0.0, random_state=0).fit(X, LABELS, annotations=TAGS)
    bayes = (SCENES.class_posterior().argmax(axis=1) == LABELS).mean()
    assert model.score(X, LABELS) > bayes - 0.05
    assert (np.diff(model.bounds_) >= 0).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


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
