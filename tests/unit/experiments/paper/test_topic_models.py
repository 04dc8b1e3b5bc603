"""Training, choices on held-out photographs, and combination of several models."""

from dataclasses import replace

import numpy as np
import pytest
from experiments.paper import topic_models
from experiments.paper.plans import F_MEASURE, SUP, Setting
from experiments.paper.topic_models import (
    FIT,
    TRAIN,
    Evaluation,
    ModelOutput,
    choose_setting,
    final_evaluations,
    load_outputs,
    rank_tags,
    train_models,
)
from experiments.paper.words import GRIDS, save_words
from scipy import sparse
from tests.photosets import OTHER_NUMBERS, small_study

from supdocnade import SupDocNADE
from supdocnade.runs import RunOptions

pytestmark = pytest.mark.filterwarnings(OTHER_NUMBERS)

SETTING = Setting(
    model=SUP,
    recipe="paper",
    grid="2×2",
    n_topics=6,
    tags="tags_free",
    values={"generative_weight": 0.01, "learning_rate": 3e-3, "annotation_weight": 30.0},
)


def test_outputs_are_those_of_the_estimator(finished):
    job = Evaluation(setting=SETTING, split=1, part=TRAIN)
    train_models(finished, [job], RunOptions(device="cpu"))
    (found,) = load_outputs(finished, job)
    parts = finished.protocol.parts(1)
    (counts,) = finished.counts("paper", 1, "2×2")
    tags, _ = finished.photos.tag_counts("tags_free")
    wanted = SupDocNADE(
        6,
        learning_rate=3e-3,
        annotation_weight=30.0,
        max_epochs=finished.plan.recipes["paper"].max_epochs,
        batch_size=16,
        random_state=1,
    ).fit(
        counts[parts.train],
        finished.label_B[parts.train],
        annotations=tags[parts.train],
    )
    index = np.concatenate([parts.train, parts.test])
    assert found.index_B.tolist() == index.tolist()
    np.testing.assert_array_equal(found.hidden_BH, wanted.transform(counts[index]))
    np.testing.assert_allclose(
        np.exp(found.tag_log_p_BA), wanted.annotation_proba(counts[index]), atol=1e-6
    )
    assert found.class_log_p_BC.shape == (len(index), 8)
    assert set(found.description["classes"]) == set(finished.photos.classes)


def test_training_resumes_where_it_was_stopped(drawn, finished, tmp_path, monkeypatch):
    study = small_study(tmp_path, drawn)
    (tmp_path / "words").symlink_to(finished.folder / "words")
    jobs = [
        Evaluation(setting=replace(SETTING, n_topics=topics), split=0, part=FIT)
        for topics in (3, 4, 5)
    ]
    reports = []

    def stop(stage, done, total):
        reports.append((done, total))
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_models(study, jobs, RunOptions(progress=stop))
    fitted, original = [], topic_models._estimator

    def spy(study, job, *more):
        fitted.append(job.setting.n_topics)
        return original(study, job, *more)

    monkeypatch.setattr(topic_models, "_estimator", spy)
    train_models(study, jobs, RunOptions(progress=lambda _, *now: reports.append(now)))
    assert reports == [(1, 3), (2, 3), (3, 3)]
    assert fitted == [5]


def test_outputs_of_a_photograph_and_its_mirror_image_are_averaged(finished):
    recipe = finished.plan.recipes["paper"]
    recipes = {"paper": replace(recipe, words=replace(recipe.words, mirrored=True), apart=True)}
    study = replace(finished, plan=replace(finished.plan, recipes=recipes))
    plain = finished.words("paper", 1)
    words = replace(plain, length_SB=np.concatenate([plain.length_SB, plain.length_SB]))
    # As if the mirror images were those of the photographs in reverse.
    documents = np.split(plain.ids_N, np.cumsum(plain.length_SB)[:-1])[::-1]
    words = replace(
        words,
        ids_N=np.concatenate([plain.ids_N, *documents]),
        length_SB=np.stack([plain.length_SB[0], plain.length_SB[0][::-1]]),
    )
    left, right = recipes["paper"].counts(words, "2×2")
    np.testing.assert_array_equal(right.toarray(), left.toarray()[::-1])
    both = words.counts(GRIDS["2×2"])
    np.testing.assert_array_equal(both.toarray(), (left + right).toarray())
    save_words(study.words_path("paper", 1), words, study.words_description("paper", 1))
    job = Evaluation(setting=SETTING, split=1, part=TRAIN)
    train_models(study, [job], RunOptions(device="cpu"))
    (found,), parts = load_outputs(study, job), study.protocol.parts(1)
    tags = study.photos.tag_counts("tags_free")[0][parts.train].toarray()
    model = SupDocNADE(
        6,
        learning_rate=3e-3,
        annotation_weight=30.0,
        max_epochs=recipe.max_epochs,
        batch_size=16,
        random_state=1,
    ).fit(
        sparse.vstack([left[parts.train], right[parts.train]]),
        np.tile(study.label_B[parts.train], 2),
        annotations=np.tile(tags, (2, 1)),
    )
    index = found.index_B
    wanted = (model.transform(left[index]) + model.transform(right[index])) / 2
    np.testing.assert_allclose(found.hidden_BH, wanted, rtol=1e-6)
    p = (model.predict_proba(left[index]) + model.predict_proba(right[index])) / 2
    np.testing.assert_allclose(np.exp(found.class_log_p_BC), p, rtol=1e-5)


def output(hidden, tag_log_p=None, class_log_p=None):
    return ModelOutput(np.arange(len(hidden)), np.asarray(hidden), class_log_p, tag_log_p, {})


@pytest.fixture
def variant(finished):
    return next(each for each in finished.plan.variants if each.method == SUP)


class FakeStudy:
    """A study whose candidates have given held-out scores."""

    def __init__(self, study, scores):
        self.study, self.scores = study, scores
        self.plan, self.photos = study.plan, study.photos

    def prediction(self, key):
        return self.scores[key]


def test_the_best_candidate_is_chosen_for_the_metric(finished, variant):
    settings = list(variant.candidates())
    scores = [
        {"svm": [[1.0, 0.5, 0.6], [1.0, 1.0, 0.7]], "f_measure": [[0.0, 0.5]]},
        {"svm": [[10.0, 2.0, 0.65], [10.0, 4.0, 0.6]], "f_measure": [[0.0, 0.6]]},
    ]
    keys = [Evaluation(setting=each, split=0).key(finished) for each in settings]
    study = FakeStudy(finished, dict(zip(keys, scores, strict=True)))
    for_class = choose_setting(study, variant, 0)
    assert (for_class.setting, for_class.C, for_class.gamma) == (settings[0], 1.0, 1.0)
    for_tags = choose_setting(study, replace(variant, chosen_for=F_MEASURE), 0)
    assert (for_tags.setting, for_tags.C, for_tags.gamma) == (settings[1], 10.0, 2.0)
    assert for_tags.held_out == 0.6


def test_the_choice_holds_for_every_number_of_topics(finished, variant):
    evaluations = final_evaluations(finished, variant, 1)
    assert [each.setting.n_topics for each in evaluations] == list(variant.topics)
    chosen = choose_setting(finished, variant, 1)
    for each in evaluations:
        assert replace(each, setting=replace(each.setting, n_topics=10)) == chosen
    params = chosen.params()
    assert {"generative_weight", "learning_rate", "annotation_weight", "C", "gamma"} <= set(params)


def test_predicted_classes_contribute_to_the_ranking_of_tags(finished, variant):
    tags = finished.photos.tag_counts("tags_free")[0].toarray()
    train = finished.protocol.parts(0).train
    n_tags, n_classes = tags.shape[1], len(finished.photos.classes)
    even = np.log(np.full((n_classes, n_tags), 1 / n_tags))
    sure = np.log(np.eye(n_classes) + 1e-9)
    outputs = [output(np.zeros((n_classes, 2)), even, sure)]
    found = rank_tags(finished, next(variant.candidates()), outputs, train, 1.0)
    label = finished.label_B[train]
    for number in range(n_classes):
        frequency = tags[train][label == number].sum(axis=0)
        assert frequency[found[number, 0]] == frequency.max()
