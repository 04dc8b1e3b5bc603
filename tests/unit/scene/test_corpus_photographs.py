"""Scene models that are fitted on a corpus on disk."""

from dataclasses import replace

import numpy as np
import pytest
from tests.networks import install_network
from tests.scene_model import SETTINGS, columns, scenes, small_model

from supdocnade import BagOfVisualWords, Corpus, SceneModel
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.runs import RunOptions
from supdocnade.scene import corpus_photographs, references
from supdocnade.scene.corpus_photographs import hash_keys, hold_out_by_place
from supdocnade.scene.dataset import Photographs, TrainingSet
from supdocnade.scene.fitting import fit_topics
from supdocnade.scene.model import scene_model
from supdocnade.scene.settings import WORD_SETTINGS
from supdocnade.schema import save
from supdocnade.visual_words import to_corpus
from supdocnade.visual_words.encoder import encode_all
from supdocnade.visual_words.to_corpus import encode_corpus

IMAGES, LABELS, TAGS = columns(scenes())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoded") / "corpus"
    return encode(small_model(), folder)


def encode(model, folder):
    words, labelled = model.fitted_.words, {"labels": LABELS, "tags": TAGS}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("supdocnade.unfinished.PART_SIZE", 5)
        return encode_corpus(words.encoder, IMAGES, folder, **labelled, stored_words=words)[0]


def fit(corpus, *given, **settings):
    return scene_model(**{**SETTINGS, **settings}).fit(corpus, *given)


def assert_same_topics(fitted, training_set):
    """Topics learned from a training set in memory are those of the model."""
    data, settings = training_set.damp(fitted.settings.damping), fitted.settings
    vocabulary, seed = AnnotationVocabulary(fitted.tag_names), SETTINGS["random_state"]
    in_memory, _ = fit_topics(data, vocabulary, settings, seed, RunOptions(), "learning")
    for name, array in in_memory.parameters.items():
        np.testing.assert_array_equal(fitted.network.parameters[name], array)


def test_a_model_is_fitted_on_a_corpus(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_photographs, "MAX_SAMPLE", 6)
    model = fit(corpus, checkpoint=tmp_path / "checkpoint")
    fitted = model.fitted_
    assert fitted.data == {**small_model().fitted_.data, "fingerprint": fitted.data["fingerprint"]}
    assert fitted.classes == small_model().fitted_.classes
    assert fitted.tag_names == small_model().fitted_.tag_names
    assert 0 < fitted.held_out.n_images < 12
    held_out = {image.name for image in fitted.held_out.images}
    stored = fitted.training_set
    assert 6 <= len(stored.photographs) - len(held_out) <= 8
    assert held_out == set(np.array(stored.photographs.names)[~stored.in_words_B])
    assert set(stored.photographs.labels) == set(LABELS)
    assert (model.predict(IMAGES) == LABELS).mean() > 0.8
    # The same settings give the same model.
    again = fit(corpus)
    np.testing.assert_array_equal(again.predict_proba(IMAGES), model.predict_proba(IMAGES))
    model.save(tmp_path / "model")
    loaded = SceneModel.load(tmp_path / "model")
    assert list(loaded.iter_predictions(IMAGES)) == list(model.iter_predictions(IMAGES))
    with pytest.raises(InvalidArgument, match="was fitted on a corpus of 24 photographs"):
        loaded.fit_more(IMAGES, LABELS, TAGS)


def test_topics_are_those_of_documents_in_memory(corpus):
    model = fit(corpus, held_out=0.0)
    fitted = model.fitted_
    photographs = fitted.training_set.photographs
    rows = [int(name.split()[-1]) for name in photographs.names]
    assert sorted(rows) == list(range(24))
    np.testing.assert_array_equal(
        fitted.training_set.counts.toarray(),
        small_model().fitted_.training_set.counts.toarray()[rows],
    )
    in_words_B = np.ones(24, np.bool_)
    assert_same_topics(fitted, TrainingSet(photographs, fitted.training_set.counts, in_words_B))
    expected = small_model().fitted_.rotation
    assert fitted.rotation.axes_HR.shape == expected.axes_HR.shape


def test_the_words_of_the_corpus_are_used(corpus):
    given = {name: SETTINGS[name] for name in SETTINGS if name not in WORD_SETTINGS}
    model = scene_model(**given).fit(corpus)
    assert model.fitted_.used_settings() == small_model().fitted_.used_settings()
    np.testing.assert_array_equal(model.predict_proba(IMAGES), fit(corpus).predict_proba(IMAGES))


def test_topics_learn_from_the_features_of_a_network(tmp_path, monkeypatch):
    network = install_network(tmp_path / "networks", monkeypatch, side=64, patch=(8, 8))
    given = {**SETTINGS, "features": network, "max_epochs": 4, "held_out": 0.0}
    learned = scene_model(**{**given, "max_epochs": 1}).fit(IMAGES, LABELS, TAGS)
    corpus = encode(learned, tmp_path / "corpus")
    fitted = scene_model(**given).fit(corpus).fitted_
    recipe = SceneModel(min_tag_count=2, random_state=0).fit(corpus).fitted_.settings.topics
    assert (recipe.n_topics, recipe.annotation_output) == (512, "sigmoid")
    rows = [int(name.split()[-1]) for name in fitted.training_set.photographs.names]
    encoded = encode_all(fitted.encoder, [IMAGES[row] for row in rows])
    np.testing.assert_array_equal(fitted.training_set.features_BF, encoded.global_features)
    assert_same_topics(fitted, replace(fitted.training_set, features_BF=encoded.global_features))
    # Held-out photographs come last in the file of features.
    part = scene_model(**{**given, "held_out": 0.3}).fit(corpus).fitted_.training_set
    number = {key: row for row, key in enumerate(encoded.keys)}
    rows = [number[key] for key in part.photographs.keys]
    assert 0 < (~part.in_words_B).sum() < 12
    np.testing.assert_array_equal(part.features_BF, encoded.global_features[rows])


def test_damaged_features_are_refused(tmp_path, monkeypatch):
    network = install_network(tmp_path / "networks", monkeypatch, side=64, patch=(8, 8))
    words = BagOfVisualWords(n_words=4, features=network, random_state=0).fit(IMAGES)
    corpus, _ = words.encode_corpus(IMAGES, tmp_path / "corpus", labels=LABELS)
    path = corpus.folder / to_corpus.FEATURES.format(0)
    wrong = to_corpus.ShardFeatures(np.zeros((24, 2), np.float32))
    save(path, to_corpus.FEATURES_KIND, wrong)
    with pytest.raises(StorageError, match=r"features 0 must have shape \(3,\), got \(2,\)"):
        SceneModel().fit(corpus)
    path.unlink()
    with pytest.raises(StorageError, match=r"features-00000\.safetensors"):
        SceneModel().fit(corpus)


def test_photographs_are_compared_with_some_of_those_in_memory(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(references, "MAX_REFERENCES", 9)
    model = fit(corpus)
    labels = np.array(model.fitted_.training_set.photographs.labels)
    assert len(labels) == 24
    counts = np.unique(labels[model.fitted_.reference_rows], return_counts=True)[1]
    assert counts.tolist() == [3, 3, 3]
    assert model.fitted_.class_head.coefficient_CN.shape == (3, 9)
    assert (model.predict(IMAGES) == LABELS).mean() > 0.8
    model.save(tmp_path / "model")
    loaded = SceneModel.load(tmp_path / "model")
    assert list(loaded.iter_predictions(IMAGES)) == list(model.iter_predictions(IMAGES))
    voters = loaded.explain(IMAGES[0], tag="tree").voters
    assert {name for name, _ in voters} <= {*loaded.fitted_.training_set.photographs.names}


def test_given_labels_and_tags_replace_those_of_the_corpus(corpus):
    labels = [None if number % 2 else "other" for number in range(24)]
    model = fit(corpus, labels, [["sea"]] * 24, max_epochs=1)
    assert model.fitted_.classes == ("other",)
    assert model.fitted_.tag_names == ("sea",)
    assert model.fitted_.data["n_unlabelled"] == 12


def test_wrong_arguments_are_refused(corpus, tmp_path):
    with pytest.raises(InvalidArgument, match="labels must have an entry for each of the 24"):
        fit(corpus, ["coast"])
    other = Corpus.create(tmp_path / "other", n_words=3, encoder="another")
    with pytest.raises(InvalidArgument, match=r"got .*other without words\.safetensors"):
        fit(other)
    small_model().fitted_.words.save(other.folder / to_corpus.WORDS)
    with pytest.raises(InvalidArgument, match="which was made with encoder 'another'"):
        fit(other)


def many(n_photographs, n_classes):
    keys = [f"key {number // 2}" for number in range(n_photographs)]
    return Photographs(
        sources=[b""] * n_photographs,
        names=keys,
        labels=[f"class {number // 2 % n_classes}" for number in range(n_photographs)],
        tags=[None] * n_photographs,
        keys=keys,
    )


def test_a_share_of_the_contents_is_held_out(monkeypatch):
    photographs = many(4000, 10)
    place_B = hash_keys(photographs.keys)
    held_B = hold_out_by_place(photographs, place_B, 0.15)
    assert 0.12 < held_B.mean() < 0.18
    np.testing.assert_array_equal(held_B[::2], held_B[1::2])
    # It does not depend on the others.
    rows = np.arange(1000, 3000)
    fewer_B = hold_out_by_place(photographs.take(rows), place_B[rows], 0.15)
    np.testing.assert_array_equal(fewer_B, held_B[rows])
    monkeypatch.setattr(corpus_photographs, "MAX_HELD_OUT", 100)
    bounded_B = hold_out_by_place(photographs, place_B, 0.15)
    assert 90 <= bounded_B.sum() <= 100
    assert (held_B | ~bounded_B).all()


def test_small_classes_are_not_held_out():
    photographs = many(400, 200)  # Two photographs of each class.
    assert not hold_out_by_place(photographs, hash_keys(photographs.keys), 0.5).any()
    photographs = many(10, 1)
    assert not hold_out_by_place(photographs, np.zeros(10), 0.5).any()
