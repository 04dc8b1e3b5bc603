"""Training: what a model is asked, what it is given, and that nothing is trained twice."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from tests.photosets import OTHER_NUMBERS, small_study

from supdocnade import DampCounts, DocNADE, SupDocNADE
from supdocnade.paper import topic_models as models
from supdocnade.paper.plans import RECIPES, Setting
from supdocnade.paper.topic_models import FIT, TRAIN, Job, job_key, load_described, train_jobs
from supdocnade.paper.words import TWO, save_words

pytestmark = pytest.mark.filterwarnings(OTHER_NUMBERS)

SETTING = Setting(
    supervised=True,
    recipe="paper",
    grid="2×2",
    n_topics=6,
    generative_weight=0.01,
    learning_rate=3e-3,
    annotation_weight=30.0,
    tags="tags_free",
)


def test_a_model_is_that_of_the_estimator_alone(finished):
    job = Job(setting=SETTING, split=1, part=TRAIN)
    train_jobs(finished, [job], device="cpu", backend="vectorized")
    found = load_described(finished, job)
    parts = finished.protocol.parts(1)
    (counts,) = finished.counts("paper", 1, "2×2")
    tags = finished.photos.annotations("tags_free")
    wanted = SupDocNADE(
        6,
        learning_rate=3e-3,
        annotation_weight=30.0,
        max_epochs=finished.plan.recipes["paper"].max_epochs,
        batch_size=16,
        random_state=1,
        backend="vectorized",
    ).fit(
        counts[parts.train],
        finished.label_B[parts.train],
        annotations=tags.annotations[parts.train],
    )
    places = np.concatenate([parts.train, parts.test])
    assert found.places_B.tolist() == places.tolist()
    np.testing.assert_array_equal(found.hidden_BH, wanted.transform(counts[places]))
    np.testing.assert_allclose(
        np.exp(found.tag_log_p_BA), wanted.annotation_proba(counts[places]), atol=1e-6
    )
    assert found.class_log_p_BC.shape == (len(places), 8)
    assert set(found.description["classes"]) == set(finished.photos.classes)


def test_while_choosing_the_test_part_is_not_even_described(finished):
    job = Job(setting=replace(SETTING, supervised=False, tags=None), split=0, part=FIT)
    train_jobs(finished, [job])
    found = load_described(finished, job)
    assert found.places_B.tolist() == finished.protocol.parts(0).train.tolist()
    assert found.class_log_p_BC is None
    assert found.tag_log_p_BA is None


def test_where_to_compute_is_passed_on(finished):
    job = Job(setting=SETTING, split=0, part=FIT, member=2)
    model = models._estimator(finished, job, device="cuda", backend="vectorized", n_jobs=3)
    assert (model.device, model.backend, model.n_jobs) == ("cuda", "vectorized", 3)
    assert model.random_state == 2000
    other = replace(job, setting=replace(SETTING, supervised=False))
    assert isinstance(models._estimator(finished, other), DocNADE)


def test_a_name_tells_apart_whatever_matters_and_nothing_else(finished):
    job = Job(setting=SETTING, split=0, part=FIT)
    others = [
        replace(job, part=TRAIN),
        replace(job, split=1),
        replace(job, member=1),
        replace(job, setting=replace(SETTING, learning_rate=1e-3)),
        replace(job, setting=replace(SETTING, tags=None)),
    ]
    assert len({job_key(finished, each) for each in [job, *others]}) == 6
    recipe = finished.plan.recipes["paper"]
    for change, same in (({"members": 3}, True), ({"damping": 2.0}, False)):
        plan = replace(finished.plan, recipes={"paper": replace(recipe, **change)})
        assert (job_key(replace(finished, plan=plan), job) == job_key(finished, job)) is same


def test_training_goes_on_where_it_was_stopped(drawn, finished, tmp_path, monkeypatch):
    study = small_study(tmp_path, drawn)
    (tmp_path / "words").symlink_to(finished.folder / "words")
    jobs = [
        Job(setting=replace(SETTING, n_topics=topics), split=0, part=FIT) for topics in (3, 4, 5)
    ]
    seen = []

    def stop(done, total):
        seen.append((done, total))
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_jobs(study, jobs, on_progress=stop)
    fitted, original = [], models._estimator

    def noted(study, job, **where):
        fitted.append(job.setting.n_topics)
        return original(study, job, **where)

    monkeypatch.setattr(models, "_estimator", noted)
    train_jobs(study, jobs, on_progress=lambda *each: seen.append(each))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert fitted == [5]


def test_recipes_damp_counts(finished):
    words = finished.words("paper", 0)
    (plain,) = RECIPES["paper"].counts(words, "2×2")
    (damped,) = replace(RECIPES["paper"], damping=2.0).counts(words, "2×2")
    np.testing.assert_array_equal(damped.toarray(), DampCounts(2.0).fit_transform(plain).toarray())


def test_a_photograph_and_its_mirror_image_are_answered_for_by_their_mean(finished):
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
    both = words.counts(TWO)
    np.testing.assert_array_equal(both.toarray(), (left + right).toarray())
    save_words(study.words_path("paper", 1), words, study.words_made_from("paper", 1))
    job = Job(setting=SETTING, split=1, part=TRAIN)
    train_jobs(study, [job], device="cpu", backend="vectorized")
    found, parts = load_described(study, job), study.protocol.parts(1)
    tags = study.photos.annotations("tags_free").annotations[parts.train].toarray()
    model = SupDocNADE(
        6,
        learning_rate=3e-3,
        annotation_weight=30.0,
        max_epochs=recipe.max_epochs,
        batch_size=16,
        random_state=1,
        backend="vectorized",
    ).fit(
        sparse.vstack([left[parts.train], right[parts.train]]),
        np.tile(study.label_B[parts.train], 2),
        annotations=np.tile(tags, (2, 1)),
    )
    place = found.places_B
    wanted = (model.transform(left[place]) + model.transform(right[place])) / 2
    np.testing.assert_allclose(found.hidden_BH, wanted, rtol=1e-6)
    p = (model.predict_proba(left[place]) + model.predict_proba(right[place])) / 2
    np.testing.assert_allclose(np.exp(found.class_log_p_BC), p, rtol=1e-5)
