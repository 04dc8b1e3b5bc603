import numpy as np
import pytest

from supdocnade.scene.tags import CLASS_TAG_WEIGHTS, rank_tags, tag_scores

RNG = np.random.default_rng(0)
LOG_P = np.log(RNG.dirichlet(np.ones(12), 30))
SHARE = RNG.dirichlet(np.ones(12), 3)
PROBA = RNG.dirichlet(np.ones(3), 30)


def best_five(scores):
    present = np.zeros(scores.shape, np.bool_)
    np.put_along_axis(present, np.argsort(-scores, axis=1)[:, :5], True, axis=1)
    return present


@pytest.mark.parametrize("weight", CLASS_TAG_WEIGHTS)
def test_the_weight_that_names_the_right_tags_is_found(weight):
    scores = tag_scores(LOG_P, PROBA, SHARE, weight)
    found = rank_tags(LOG_P, PROBA, SHARE, best_five(scores))
    assert (found.weight, found.f_measure) == (weight, 1.0)
    np.testing.assert_array_equal(found.scores_BA, scores)
    np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1)


def test_without_need_tags_are_ranked_as_in_the_paper():
    alike = np.ones((3, 12)) / 12
    found = rank_tags(LOG_P, PROBA, alike, best_five(-LOG_P))
    assert found.weight == 0
    assert found.scores_BA is LOG_P


@pytest.mark.parametrize(("proba", "share"), [(None, None), (PROBA, None), (None, SHARE)])
def test_where_there_are_no_classes_they_say_nothing(proba, share):
    wanted = best_five(tag_scores(LOG_P, PROBA, SHARE, 2.0))
    assert rank_tags(LOG_P, proba, share, wanted).weight == 0


def test_where_no_tags_are_known_nothing_is_chosen():
    found = rank_tags(LOG_P, PROBA, SHARE, np.zeros(LOG_P.shape, np.bool_))
    assert (found.weight, found.f_measure) == (0, 0)
