"""Photographs with the words of their mirror images; other tests have `mirror=False`."""

from copy import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.scene_model import SETTINGS, columns, scenes, small_model

from supdocnade import SceneModel, SupDocNADE
from supdocnade.errors import InvalidArgument
from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.images.decode import encode
from supdocnade.scene import fitting
from supdocnade.scene.model import scene_model
from supdocnade.visual_words.encoder import encode_all

NEW = columns(scenes(4, 7))[0]


def fit(progress=None, **settings):
    model = scene_model(**{**SETTINGS, "mirror": True, **settings})
    return model.fit(*columns(scenes()), progress=progress)


@cache
def both_sides():
    """It must not be changed."""
    return fit()


@pytest.fixture
def fits(monkeypatch):
    """Arguments of the fits of topic models."""
    calls, real = [], fitting.fit_topics

    def record(data, *args, **known):
        calls.append(data)
        return real(data, *args, **known)

    monkeypatch.setattr(fitting, "fit_topics", record)
    return calls


def test_a_held_out_photograph_is_not_used_for_training(fits):
    model = fit(max_epochs=2)
    first, last = fits
    learned = model.fitted_.training_set
    chosen, counts = learned.in_words_B, model.fitted_.damp(learned.counts)
    assert 0 < model.fitted_.held_out.n_images == 24 - int(chosen.sum())
    assert (first.counts != counts[chosen]).nnz == 0
    assert (last.counts != counts).nnz == 0
    assert last.photographs.labels == columns(scenes())[1]


def test_a_photograph_has_the_words_of_both_sides():
    model = both_sides()
    fitted, images = model.fitted_, columns(scenes())[0]
    one_side = replace(fitted.encoder, mirror=False)
    here = encode_all(one_side, images).counts
    there = encode_all(one_side, [np.fliplr(image) for image in images]).counts
    counts = fitted.training_set.counts
    assert counts.sum() == here.sum() + there.sum()
    # On average: patches of a mirror image lie on another grid, counted from the other edge.
    assert abs(counts - here - there).sum() < 0.6 * abs(counts - 2 * here).sum()
    np.testing.assert_array_equal(
        counts.toarray(), encode_all(fitted.encoder, images).counts.toarray()
    )


def test_a_mirror_image_has_almost_the_same_topics():
    model = both_sides()
    here, there = (model.transform(some) for some in (NEW, [np.fliplr(image) for image in NEW]))
    others = model.transform(NEW[::-1])
    assert np.square(here - there).sum() < 0.1 * np.square(here - others).sum()


def test_without_mirror_images_a_topic_model_learns_from_photographs_alone():
    """It has the bits of the estimator fitted to the counts."""
    fitted = fit(mirror=False).fitted_
    assert not fitted.encoder.mirror
    _, labels, tags = columns(scenes())
    vocabulary = AnnotationVocabulary.of(tags, min_count=2)
    topics = SupDocNADE(**vars(fitted.settings.topics)).set_params(random_state=0)
    topics.fit(
        fitted.damp(fitted.training_set.counts),
        labels,
        annotations=vocabulary.encode(tags),
    )
    np.testing.assert_array_equal(topics.components_, fitted.network.components)


def test_an_epoch_has_one_update_per_batch():
    updates = {}
    fit(lambda *now: updates.update({now[0]: now[2]}))
    assert updates["learning"] == 12 * 6  # 21 photographs are 6 batches of 4.
    assert updates["reading photographs"] == 24


def test_an_interrupted_fit_resumes(tmp_path):
    def interrupt(stage, done, total):
        if stage == "learning from all" and done == total - 1:
            raise KeyboardInterrupt

    folders = {"checkpoint": tmp_path / "checkpoint", "cache": tmp_path / "words"}
    with pytest.raises(KeyboardInterrupt):
        fit(interrupt, **folders)
    seen = set()
    model = fit(lambda stage, *_: seen.add(stage), **folders)
    assert "learning" not in seen
    np.testing.assert_array_equal(model.predict_proba(NEW), both_sides().predict_proba(NEW))


def test_prediction_uses_the_cache_of_training(tmp_path):
    model = fit(cache=tmp_path)
    expected = both_sides().transform(NEW)
    for _ in range(2):
        np.testing.assert_array_equal(model.transform(NEW), expected)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_loaded_model_learns_more_from_both_sides(tmp_path):
    both_sides().save(tmp_path / "model")
    loaded = SceneModel.load(tmp_path / "model")
    assert loaded.words.mirror is True
    np.testing.assert_array_equal(loaded.transform(NEW), both_sides().transform(NEW))
    before = loaded.fitted_.training_set.counts
    loaded.fit_more(*columns(scenes(2, 11)))
    after = loaded.fitted_.training_set.counts
    assert after.shape[0] == loaded.fitted_.data["n_images"] == 30
    assert (after[:24] != before).nnz == 0
    assert after[24:].sum(axis=1).tolist() == [before[0].sum()] * 6
    with pytest.raises(InvalidArgument, match="mirror must be as before, True"):
        loaded.set_params(words__mirror=False).fit_more(*columns(scenes(2, 12)))


def test_few_photographs_have_fewer_words(tmp_path):
    images, labels, tags = columns(scenes(2))
    few = [image[:40, :40] for image in images], labels, tags
    settings = {**SETTINGS, "max_epochs": 1, "held_out": 0.0, "n_words": 500}
    model = scene_model(**settings).fit(*few)
    # A 40 × 40 photograph has 16 patches of 16 pixels and 4 of 32, and there are six photographs.
    assert model.fitted_.encoder.n_words == 120 // 4
    model.save(tmp_path / "model")
    loaded = SceneModel.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(NEW), model.transform(NEW))
    assert loaded.fit_more(*few).fitted_.encoder.n_words == 30


def test_near_duplicates_among_added_photographs_stay_together(monkeypatch):
    class Stop(Exception):
        pass

    def stop(photographs, fraction, seed, picture_B, never_B, always_B):
        assert len(photographs) == 24 + 3
        first, second, third = picture_B[24:]
        assert first == third != second
        assert not np.isin([first, second], picture_B[:24]).any()
        raise Stop

    model = copy(small_model()).set_params(on_error="skip")
    monkeypatch.setattr(fitting, "hold_out", stop)
    images = [NEW[0], NEW[1], np.zeros((3, 3), np.uint8), encode(NEW[0], "JPEG", quality=60)]
    with pytest.raises(Stop):
        model.fit_more(images, ["coast"] * 4)


def test_photographs_held_out_before_stay_held_out(monkeypatch):
    """Also those that are given again, with another name."""
    images, labels, _ = columns(scenes())
    before = small_model().fitted_.training_set
    was_held = np.flatnonzero(~before.in_words_B)
    in_words = np.flatnonzero(before.in_words_B)
    again = [*was_held[:1], *in_words]
    added = columns(scenes(7, 5))[0][:7]
    found = []

    def stop(bag, training_set, held_B, *_):
        found.append((training_set, held_B))
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "_fit", stop)
    with pytest.raises(KeyboardInterrupt):
        copy(small_model()).fit_more(
            [*added, *(images[i] for i in again)], ["coast"] * 7 + [labels[i] for i in again]
        )
    ((training_set, held_B),) = found
    keys = training_set.photographs.content_keys()
    held_keys = {key for key, held in zip(keys, held_B, strict=True) if held}
    old_keys = before.photographs.content_keys()
    assert len(was_held) == 3
    assert held_keys >= {old_keys[i] for i in was_held}
    assert len(held_keys - set(old_keys)) == 1  # Of seven new ones.
    assert not held_keys & {old_keys[i] for i in in_words}
    assert training_set.in_words_B.sum() == len(in_words)
