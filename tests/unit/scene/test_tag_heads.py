import numpy as np
import pytest
from scipy import sparse

from supdocnade.scene.tag_heads import (
    CLASS_TAG_WEIGHTS,
    LogisticTags,
    WordTags,
    add_class_term,
    choose_class_weight,
    class_tag_shares,
    tag_scores,
)

WORDS, LOGISTIC = WordTags(None), LogisticTags(None)
RNG = np.random.default_rng(0)
LOG_P = np.log(RNG.dirichlet(np.ones(12), 30))
SHARE = RNG.dirichlet(np.ones(12), 3)
PROBA = RNG.dirichlet(np.ones(3), 30)


def best_five(scores):
    present = np.zeros(scores.shape, np.bool_)
    np.put_along_axis(present, np.argsort(-scores, axis=1)[:, :5], True, axis=1)
    return present


@pytest.mark.parametrize("weight", CLASS_TAG_WEIGHTS)
def test_the_weight_with_the_best_tags_is_found(weight):
    scores = tag_scores(WORDS, LOG_P, PROBA, SHARE, weight)
    found, found_scores, f_measure = choose_class_weight(
        WORDS, LOG_P, PROBA, SHARE, best_five(scores)
    )
    assert (found, f_measure) == (weight, 1.0)
    np.testing.assert_array_equal(found_scores, scores)
    np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1)


def test_log_odds_keep_their_level():
    log_odds = 3 * RNG.normal(size=LOG_P.shape)
    scores = tag_scores(LOGISTIC, log_odds, PROBA, SHARE, 2.0)
    np.testing.assert_array_equal(scores, add_class_term(log_odds, PROBA, SHARE, 2.0))
    assert tag_scores(LOGISTIC, log_odds, PROBA, SHARE, 0.0) is log_odds
    present = best_five(scores)
    weight, found, _ = choose_class_weight(LOGISTIC, log_odds, PROBA, SHARE, present)
    assert weight == 2
    np.testing.assert_array_equal(found, scores)


def test_among_equals_tags_are_ranked_as_in_the_paper():
    alike = np.ones((3, 12)) / 12
    weight, scores, _ = choose_class_weight(WORDS, LOG_P, PROBA, alike, best_five(-LOG_P))
    assert weight == 0
    assert scores is LOG_P


def test_without_classes_there_is_no_class_term():
    present = best_five(tag_scores(WORDS, LOG_P, PROBA, SHARE, 2.0))
    assert choose_class_weight(WORDS, LOG_P, PROBA[:, :0], None, present)[0] == 0


def test_without_known_tags_nothing_is_chosen():
    nothing = np.zeros(LOG_P.shape, np.bool_)
    weight, _, f_measure = choose_class_weight(WORDS, LOG_P, PROBA, SHARE, nothing)
    assert (weight, f_measure) == (0, 0)


ANNOTATIONS = sparse.csr_array((RNG.random((40, 9)) < 0.3).astype(np.int64))
LABELS = RNG.integers(-1, 3, size=40)


def test_shares_are_those_of_the_tags_of_a_class():
    share = class_tag_shares(ANNOTATIONS, LABELS, 4)
    np.testing.assert_allclose(share.sum(axis=1), 1)
    for label in range(3):
        counts = ANNOTATIONS.toarray()[label == LABELS].sum(axis=0)
        np.testing.assert_allclose(share[label], (counts + 1 / 9) / (counts.sum() + 1))
    np.testing.assert_allclose(share[3], 1 / 9)  # Of no document.
    assert (share > 0).all()


def test_scores_are_the_formula_and_a_document_does_not_depend_on_the_others():
    share = class_tag_shares(ANNOTATIONS, LABELS, 3)
    log_p, proba = np.log(RNG.random((20, 9))), RNG.dirichlet(np.ones(3), 20)
    scores = add_class_term(log_p, proba, share, 0.5)
    np.testing.assert_allclose(scores, log_p + 0.5 * np.log(proba @ share))
    alone = [add_class_term(log_p[i : i + 1], proba[i : i + 1], share, 0.5)[0] for i in range(20)]
    np.testing.assert_array_equal(scores, alone)
    np.testing.assert_array_equal(add_class_term(log_p, proba, share, 0.0), log_p)
