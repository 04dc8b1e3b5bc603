from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from tests.scene_model import SETTINGS, columns, scenes, small_model

from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.scene import tag_heads
from supdocnade.scene.class_heads import Score
from supdocnade.scene.dataset import Photographs
from supdocnade.scene.model import scene_model
from supdocnade.scene.prediction import predict_compared
from supdocnade.scene.tag_heads import (
    FREQUENCY_WEIGHT,
    TAG_HEADS,
    LogisticTags,
    TagVotes,
    WordTags,
    fit_votes,
)

RNG = np.random.default_rng(0)
LOG_P = np.log(RNG.dirichlet(np.ones(12), 30))
SHARE = RNG.dirichlet(np.ones(12), 30)


def test_votes_for_words_are_a_geometric_mean_of_distributions():
    found = np.exp(WordTags.add_votes(LOG_P, SHARE, 0.3))
    mean_BA = np.exp(LOG_P) ** 0.7 * SHARE**0.3
    np.testing.assert_allclose(found, mean_BA / mean_BA.sum(axis=1, keepdims=True))


def test_votes_for_logistic_tags_are_a_mean_of_log_odds():
    log_odds = 3 * RNG.normal(size=LOG_P.shape)
    found = LogisticTags.add_votes(log_odds, SHARE, 0.3)
    np.testing.assert_allclose(found, 0.7 * log_odds + 0.3 * np.log(SHARE / (1 - SHARE)))
    # Of equal opinions, either is the mean.
    np.testing.assert_allclose(
        expit(LogisticTags.add_votes(found, expit(found), 0.3)), expit(found)
    )


@pytest.mark.parametrize("head", [WordTags, LogisticTags])
def test_votes_without_weight_change_nothing(head):
    np.testing.assert_allclose(head.add_votes(LOG_P, SHARE, 0.0), LOG_P, atol=1e-12)


@pytest.mark.parametrize("annotation_output", ["words", "sigmoid"])
def test_a_model_ranks_tags_by_outputs_and_votes(annotation_output):
    model = small_model(annotation_output)
    fitted, images = model.fitted_, columns(scenes(4, 7))[0]
    photographs = model._compare(images)
    votes = fit_votes(
        fitted.training_set.photographs, AnnotationVocabulary(fitted.tag_names), 0.2, 0.4
    )
    fitted = replace(fitted, votes=votes)
    share_BA = votes.shares(photographs.distance_BN, fitted.tag_frequency_A)
    outputs_BA = fitted.tag_head.scores(photographs.topics_BH)
    expected = fitted.tag_head.add_votes(outputs_BA, share_BA, 0.4)
    scores_BA = fitted.tag_scores(photographs)
    np.testing.assert_array_equal(scores_BA, expected)
    assert (scores_BA.argsort(axis=1) != outputs_BA.argsort(axis=1)).any()
    for row, each in enumerate(predict_compared(fitted, [""] * len(images), photographs)):
        best = model.tag_names_[np.argsort(-scores_BA[row], kind="stable")]
        assert [tag for tag, _ in each.ranked_tags] == best.tolist()
    chances = fitted.choices.tags.probability(scores_BA, fitted.tag_frequency_A)
    np.testing.assert_array_equal(fitted.tag_proba(photographs), chances)


N_REFERENCES, N_TAGS = 30, 5
ROWS = np.sort(RNG.permutation(N_REFERENCES)[:20])
HAS = RNG.random((20, N_TAGS)) < 0.4
FREQUENCY = RNG.random(N_TAGS)
DISTANCES = RNG.random((6, N_REFERENCES)).astype(np.float32)


def votes(rows=ROWS, has=HAS, spread=0.2):
    has_TA = sparse.csr_array(has.astype(np.int64))
    return TagVotes(row_T=rows, has_TA=has_TA, spread=spread, weight=0.5)


def brute_force(distance_N, n_nearest, spread=0.2):
    """Return the weight of every voter."""
    ranked = sorted((float(distance_N[row]), voter) for voter, row in enumerate(ROWS))[:n_nearest]
    width = spread * np.median([distance for distance, _ in ranked])
    weight_T = np.zeros(len(ROWS))
    for distance, voter in ranked:
        weight_T[voter] = np.exp(-(distance - ranked[0][0]) / width)
    return weight_T / weight_T.sum()


@pytest.mark.parametrize("n_neighbours", [1, 7, 20, 200])
def test_shares_are_those_of_the_formula(monkeypatch, n_neighbours):
    """Also with fewer photographs than neighbours."""
    monkeypatch.setattr(tag_heads, "N_NEIGHBOURS", n_neighbours)
    weight_BT = np.array([brute_force(each, n_neighbours) for each in DISTANCES])
    expected = (1 - FREQUENCY_WEIGHT) * weight_BT @ HAS + FREQUENCY_WEIGHT * FREQUENCY
    found = votes().shares(DISTANCES, FREQUENCY)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_array_equal(votes().shares(DISTANCES[2:3], FREQUENCY), found[2:3])


def test_voters_are_the_neighbours_with_the_tag_best_first():
    found = votes().voters(DISTANCES[0], 3)
    weight_T = brute_force(DISTANCES[0], 20)
    expected = [(int(ROWS[t]), weight_T[t]) for t in np.argsort(-weight_T) if HAS[t, 3]]
    assert found == [(row, pytest.approx(weight)) for row, weight in expected]
    assert votes(has=np.zeros_like(HAS)).voters(DISTANCES[0], 3) == []


@pytest.mark.parametrize("distance", [0.0, 0.3])
def test_neighbours_at_the_same_distance_have_equal_votes(distance):
    """They may be copies of the photograph."""
    same = np.full((1, N_REFERENCES), distance, np.float32)
    found = votes().shares(same, FREQUENCY)[0]
    expected = (1 - FREQUENCY_WEIGHT) * HAS.mean(axis=0) + FREQUENCY_WEIGHT * FREQUENCY
    np.testing.assert_allclose(found, expected)
    assert votes().weights(same[0])[0].tolist() == list(range(20))


def test_copies_outvote_others():
    """Most neighbours are copies, so that the median of the distances is 0."""
    distance_N = np.ones(N_REFERENCES, np.float32)
    distance_N[ROWS[:15]] = 0
    np.testing.assert_allclose(votes().weights(distance_N)[1], [1 / 15] * 15 + [0] * 5)


def test_photographs_with_known_tags_vote():
    tags = [["sea"], None, ["sea", "owl"], [], ["rare"]]
    photographs = Photographs(
        sources=[None] * 5, names=list("abcde"), labels=[None] * 5, tags=tags, keys=None
    )
    found = fit_votes(photographs, AnnotationVocabulary(("owl", "sea")), 0.3, 0.4)
    assert found.row_T.tolist() == [0, 2, 3, 4]
    assert found.has_TA.toarray().tolist() == [[0, 1], [1, 1], [0, 0], [0, 0]]
    assert (found.spread, found.weight) == (0.3, 0.4)
    assert fit_votes(photographs, AnnotationVocabulary(())) is None
    assert fit_votes(photographs.take(np.array([1])), AnnotationVocabulary(("sea",))) is None


IMAGES, _, TAGS = columns(scenes(4, 2))


class FlatTags(WordTags):
    """Tags whose scores are half as far apart."""

    def scores(self, topics_BH):
        return super().scores(topics_BH) / 2

    @staticmethod
    def describe(tag):
        return f"half of log p({tag})"

    def explain(self, number):
        score = super().explain(number)
        return Score(lambda h_QH: score.value(h_QH) / 2, lambda h_QH: score.gradient(h_QH) / 2)


def test_another_output_of_tags_is_one_class(monkeypatch):
    monkeypatch.setitem(TAG_HEADS, "words", FlatTags)
    model = scene_model(**SETTINGS).fit(*columns(scenes()))
    found = [
        set(tags) & set(given) for tags, given in zip(TAGS, model.annotate(IMAGES), strict=True)
    ]
    assert np.mean([bool(each) for each in found]) > 0.7
    explanation = model.explain(IMAGES[0], tag=TAGS[0][0])
    assert explanation.score == f"half of log p({TAGS[0][0]})"
    rise = explanation.whole - explanation.empty
    assert explanation.share_S.sum() == pytest.approx(rise, abs=1e-3)


@pytest.mark.parametrize("annotation_output", ["words", "sigmoid"])
def test_explained_scores_are_those_that_decide(annotation_output):
    """Those of tags may differ by a number that is the same for all tags."""
    model = small_model(annotation_output)
    fitted, photographs = model.fitted_, model._compare(IMAGES[:3])
    scores_BC = [
        fitted.class_head.explain(number, fitted.references).value(photographs.vector_BX)
        for number in range(3)
    ]
    expected = fitted.class_head.scores(photographs)
    np.testing.assert_allclose(np.transpose(scores_BC), expected, atol=1e-6)
    topics_BH, n_tags = photographs.topics_BH, len(fitted.tag_names)
    scores_BA = [fitted.tag_head.explain(a).value(topics_BH) for a in range(n_tags)]
    away_BA = np.transpose(scores_BA) - fitted.tag_head.scores(topics_BH)
    assert np.ptp(away_BA, axis=1).max() < 1e-4
