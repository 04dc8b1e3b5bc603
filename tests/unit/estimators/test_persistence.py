"""Saved models are read back bit for bit; damaged and hostile files are refused."""

from dataclasses import replace

import numpy as np
import pytest
from tests.planted_corpus import scene_corpus
from tests.textures import stripes

from supdocnade import BagOfVisualWords, SupDocNADE
from supdocnade.checks import copy_settings
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.bag_of_visual_words import words_of
from supdocnade.schema import load_arrays
from supdocnade.visual_words.settings import VisualWordSettings

FAST = {"n_topics": 3, "max_epochs": 2, "random_state": 0}


@pytest.fixture(scope="module")
def scenes():
    return scene_corpus(20, n_visual_words=9, mean_length=10, n_tags_per_class=1)[0]


def fitted(scenes, **options):
    model = SupDocNADE(**{**FAST, **options})
    labels = np.array(["sea", "city", "wood", "hill"])[scenes.labels]
    names = [f"tag {k}" for k in range(scenes.tags.shape[1])]
    return model.fit(scenes.counts, labels, annotations=scenes.tags, annotation_names=names)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"output": "softmax", "activation": "tanh"},
        {"n_topics": np.int64(6)},
        {"annotation_output": "sigmoid", "output": "softmax"},
        {"tree": "clustered"},
        {"class_weight": "balanced", "class_input": "all"},
        {"class_weight": {"sea": 2.0, "city": 1.0, "wood": 1.0, "hill": 0.5}},
        {"early_stopping": True, "validation_fraction": 0.3, "checkpoint": "x/never-used"},
        {"random_state": np.random.RandomState(3)},
    ],
)
def test_a_model_is_read_back(tmp_path, scenes, options, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = fitted(scenes, **options)
    model.save(tmp_path / "model")
    loaded = SupDocNADE.load(tmp_path / "model")
    X = scenes.counts
    for method in ("transform", "predict", "predict_proba", "annotation_proba", "annotate",
                   "log_prob"):  # fmt: skip
        np.testing.assert_array_equal(getattr(loaded, method)(X), getattr(model, method)(X))
    assert loaded.history_ == model.history_
    assert loaded.top_words(3) == model.top_words(3)
    # A file does not choose where its reader writes.
    expected = {**model.get_params(), "random_state": None, "checkpoint": None}
    assert {**loaded.get_params(), "random_state": None} == expected
    loaded.set_params(class_weight=None).partial_fit(X, ["sea"] * len(X))


@pytest.mark.parametrize("labels", [[0, 1] * 10, [0.5, 2.5] * 10, [True, False] * 10])
def test_classes_keep_their_type(tmp_path, scenes, labels):
    labels = np.array(labels)
    if labels.dtype.kind == "f":
        labels = labels * 2  # Whole numbers: scikit-learn takes others for a regression.
    model = SupDocNADE(**FAST).fit(scenes.counts, labels)
    model.save(tmp_path / "model")
    loaded = SupDocNADE.load(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.classes_, model.classes_)


def test_settings_that_were_changed_after_the_fit_do_not_change_the_model(tmp_path, scenes):
    model = fitted(scenes)
    expected = model.predict_proba(scenes.counts)
    model.set_params(activation="sigmoid", n_topics=9, verbose=True, early_stopping=np.bool_(True))
    model.set_params(class_weight={np.str_("sea"): np.float32(2)})
    model.save(tmp_path / "model")
    loaded = SupDocNADE.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(scenes.counts), expected)
    assert loaded.n_topics == 9
    assert loaded.class_weight == {"sea": 2.0}


def test_a_model_that_could_not_be_loaded_is_not_saved(tmp_path, scenes):
    model = fitted(scenes).set_params(checkpoint=object)
    model.network_.word_embedding.data[0, 0] = np.nan
    with pytest.raises(
        InvalidArgument,
        match=r"this SupDocNADE cannot be saved: network.parameters/word_embedding must be",
    ):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


IMAGES = [stripes(number) for number in range(8)]
OTHERS = {
    "grid": [(1, 1), (2, 3)],
    "patch_size": (16, 24),
    "contrast_percentile": np.float64(20),
    "max_side": 60,
}


def fit_words(**settings):
    return BagOfVisualWords(**{"n_words": 6, "random_state": 0, **settings}).fit(IMAGES)


BAG = fit_words()


@pytest.mark.parametrize("settings", [{}, OTHERS])
def test_loaded_words_are_the_same(tmp_path, settings):
    bag = fit_words(**settings)
    bag.save(tmp_path / "words.safetensors")
    loaded = BagOfVisualWords.load(tmp_path / "words.safetensors")
    np.testing.assert_array_equal(
        loaded.transform(IMAGES).toarray(), bag.transform(IMAGES).toarray()
    )
    assert loaded.encoder_.fingerprint() == bag.encoder_.fingerprint()
    refitted = loaded.fit(IMAGES)
    assert refitted.encoder_.fingerprint() == bag.encoder_.fingerprint()


@pytest.mark.parametrize(
    "change",
    [{"n_words": 5}, {"grid": [3, 3]}, {"step": 4}, {"max_side": 99}],
)
def test_settings_that_are_not_those_of_the_encoder_are_refused(change):
    words = words_of(BAG)
    with pytest.raises(InvalidArgument):
        replace(words, settings=copy_settings(VisualWordSettings, words.settings, **change))


def test_a_file_does_not_choose_where_its_reader_writes(tmp_path, scenes):
    fit_words(cache=str(tmp_path / "cache")).save(tmp_path / "words")
    assert "cache" not in load_arrays(tmp_path / "words")[1]["settings"]
    fitted(scenes, max_epochs=0).save(tmp_path / "model")
    assert "checkpoint" not in load_arrays(tmp_path / "model")[1]["settings"]


def test_classes_of_mixed_types_are_refused(tmp_path, scenes):
    model = fitted(scenes)
    model.classes_ = np.array([1, "a", "b", "c"], object)
    with pytest.raises(InvalidArgument, match="classes must be "):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
