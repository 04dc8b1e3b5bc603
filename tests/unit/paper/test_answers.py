"""Choosing on photographs held out, and what is done with several models."""

from dataclasses import replace

import numpy as np
import pytest

from supdocnade.paper.answers import Question, choose, questions_of, side_by_side, top_tags
from supdocnade.paper.plans import F_MEASURE, SUP
from supdocnade.paper.topic_models import Described


def described(hidden, tag_log_p=None, class_log_p=None):
    places = np.arange(len(hidden))
    return Described(places, np.asarray(hidden), class_log_p, tag_log_p, {})


@pytest.fixture
def variant(finished):
    return next(each for each in finished.plan.variants if each.method == SUP)


class Faked:
    """A study whose candidates have the scores that a test gives them."""

    def __init__(self, study, scores):
        self.study, self.scores = study, scores
        self.plan, self.photos = study.plan, study.photos

    def answer(self, key):
        return self.scores[key]


def test_the_best_candidate_is_chosen_for_what_is_measured(finished, variant):
    settings = list(variant.candidates())
    scores = [
        {"svm": [[1.0, 0.5, 0.6], [1.0, 1.0, 0.7]], "f_measure": [[0.0, 0.5]]},
        {"svm": [[10.0, 2.0, 0.65], [10.0, 4.0, 0.6]], "f_measure": [[0.0, 0.6]]},
    ]
    keys = [Question(setting=each, split=0).key(finished) for each in settings]
    study = Faked(finished, dict(zip(keys, scores, strict=True)))
    for_class = choose(study, variant, 0)
    assert (for_class.setting, for_class.C, for_class.gamma) == (settings[0], 1.0, 1.0)
    for_tags = choose(study, replace(variant, chosen_for=F_MEASURE), 0)
    assert (for_tags.setting, for_tags.C, for_tags.gamma) == (settings[1], 10.0, 2.0)
    assert for_tags.held_out == 0.6


def test_what_was_chosen_is_kept_for_every_number_of_topics(finished, variant):
    questions = questions_of(finished, variant, 1)
    assert [each.setting.n_topics for each in questions] == list(variant.topics)
    chosen = choose(finished, variant, 1)
    for each in questions:
        assert each.chosen == chosen
        assert replace(each.setting, n_topics=10) == chosen.setting
    params = chosen.params()
    assert {"generative_weight", "learning_rate", "annotation_weight", "C", "gamma"} <= set(params)
    plain = replace(chosen, setting=replace(chosen.setting, supervised=False, tags=None))
    assert set(plain.params()) == {"learning_rate", "C", "gamma", "held_out"}


def test_answers_are_told_apart_by_the_svm_they_use(finished, variant):
    question = questions_of(finished, variant, 0)[0]
    other = replace(question, chosen=replace(question.chosen, C=777.0))
    assert question.key(finished) != other.key(finished)


def test_topics_of_several_models_are_standardised_side_by_side():
    rng = np.random.default_rng(0)
    first, second = rng.normal(5, 2, (30, 3)), rng.normal(-1, 100, (30, 2))
    learned = np.arange(30) < 20
    both = side_by_side([described(first), described(second)], learned)
    assert both.shape == (30, 5)
    np.testing.assert_allclose(both[learned].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(both[learned].std(axis=0), 1)


def test_tags_of_several_models_are_averaged_as_probabilities(finished, variant):
    names = finished.photos.annotations("tags_free").names
    p = np.full((2, 1, len(names)), 1e-6)
    p[0, 0, :3], p[1, 0, :3] = [0.5, 0.3, 0.1], [0.05, 0.3, 0.6]
    members = [described(np.zeros((1, 2)), np.log(each)) for each in p]
    question = Question(setting=next(variant.candidates()), split=0)
    found = top_tags(finished, question, members, np.arange(5), 0.0)
    assert found[0, :3].tolist() == [2, 1, 0]


def test_the_posterior_of_the_classes_speaks_for_their_tags(finished, variant):
    tags = finished.photos.annotations("tags_free").annotations.toarray()
    learned = finished.protocol.parts(0).train
    question = Question(setting=next(variant.candidates()), split=0)
    n_tags, n_classes = tags.shape[1], len(finished.photos.classes)
    even = np.log(np.full((n_classes, n_tags), 1 / n_tags))
    sure = np.log(np.eye(n_classes) + 1e-9)
    members = [described(np.zeros((n_classes, 2)), even, sure)]
    found = top_tags(finished, question, members, learned, 1.0)
    label = finished.label_B[learned]
    for number in range(n_classes):
        frequency = tags[learned][label == number].sum(axis=0)
        assert frequency[found[number, 0]] == frequency.max()
