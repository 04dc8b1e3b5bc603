"""Estimators with several hidden layers."""

import copy

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from tests.planted_corpus import global_features, scene_corpus

from supdocnade import DocNADE, SupDocNADE
from supdocnade.errors import BackendUnavailable, InvalidArgument, StorageError
from supdocnade.model.inference import topic_features
from supdocnade.model.topic_rotation import find_rotation
from supdocnade.storage import load_arrays, save_arrays

FAST = {"n_topics": (10, 8), "learning_rate": 0.01, "max_epochs": 40, "random_state": 0}


@pytest.fixture(scope="module")
def scenes():
    return scene_corpus(80, n_visual_words=40, mean_length=40)[0]


@pytest.fixture(scope="module")
def X(scenes):
    return sparse.csr_array(scenes.counts)


@pytest.fixture(scope="module", params=["tree", "softmax"])
def model(request, scenes, X):
    return SupDocNADE(**FAST, output=request.param, annotation_weight=10.0).fit(
        X, scenes.labels, annotations=scenes.tags
    )


def test_planted_classes_are_found(model, scenes, X):
    assert model.score(X, scenes.labels) > 0.9
    epochs = model.history_.epochs
    assert epochs[-1].loss < 0.8 * epochs[0].loss
    assert model.perplexity(X) < 0.9 * X.shape[1]


def test_a_row_gives_the_same_bits_alone_in_any_batch_and_for_any_threads(model, X):
    def answers(part):
        return [model.transform(part), model.predict_proba(part), model.annotation_proba(part)]

    order = np.random.default_rng(0).permutation(X.shape[0])
    for whole, shuffled, one in zip(answers(X), answers(X[order]), answers(X[[17]]), strict=True):
        np.testing.assert_array_equal(whole[order], shuffled)
        np.testing.assert_array_equal(whole[[17]], one)
    model.set_params(n_jobs=3)
    np.testing.assert_array_equal(model.transform(X), answers(X)[0])
    model.set_params(n_jobs=None)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", torch.nn.functional.gelu])
def test_inference_agrees_with_the_network(scenes, X, activation):
    features = global_features(scenes.labels, 3)
    options = {"max_epochs": 2, "activation": activation, "annotation_output": "sigmoid"}
    model = SupDocNADE(**{**FAST, **options}).fit(
        X, scenes.labels, annotations=scenes.tags, global_features=features
    )
    documents = model._without_annotations(X, features)
    from supdocnade.training.validation import annotation_log_prob, class_log_prob

    found = model.predict_log_proba(X, global_features=features)
    np.testing.assert_allclose(found, class_log_prob(model.network_, documents), atol=1e-5)
    found = model.annotation_log_proba(X, normalize=True, global_features=features)
    np.testing.assert_allclose(found, annotation_log_prob(model.network_, documents), atol=1e-4)


def test_likelihoods_and_samples(model, scenes, X):
    log_v, log_vy = model.log_prob(X), model.log_prob(X, scenes.labels)
    log_y = model.predict_log_proba(X)[np.arange(80), scenes.labels]
    np.testing.assert_allclose(log_vy, log_v + log_y, rtol=1e-5)
    np.testing.assert_allclose(log_v[[5]], model.log_prob(X[[5]]), rtol=1e-5)
    assert model.sample(3, [2, 0, 5], random_state=0).sum(axis=1).tolist() == [2, 0, 5]


def test_topics_are_the_units_of_the_top_layer(model, X):
    n_joint = model.network_.config.n_words
    assert model.transform(X).shape == (80, 8)
    assert len(model.get_feature_names_out()) == 8
    assert model.components_.shape == (10, n_joint)
    assert model.class_topics(2).max() < 8
    assert len(model.top_words(3)) == len(model.coherence(X)) <= 8
    alone = topic_features(model.network_.arrays(), sparse.eye_array(n_joint, format="csr"))
    np.testing.assert_array_equal(model.topic_rotation().axes_HR, find_rotation(alone).axes_HR)
    assert len(model.top_words(3, documents=X)) == len(model.topic_rotation(X).strength_R) <= 8


def test_one_layer_in_a_tuple_gives_the_bits_of_a_number(scenes, X, tmp_path):
    options = {**FAST, "max_epochs": 2}
    first, second = (
        SupDocNADE(**{**options, "n_topics": n}).fit(X, scenes.labels) for n in (6, (6,))
    )
    np.testing.assert_array_equal(first.transform(X), second.transform(X))
    assert first.history_.epochs == second.history_.epochs
    second.history_ = first.history_  # Which has the seconds of its epochs.
    contents = []
    for model in (first, second):
        model.save(tmp_path / "model")
        contents.append(load_arrays(tmp_path / "model"))
    (arrays, description), (other_arrays, other_description) = contents
    assert description == other_description
    assert arrays.keys() == other_arrays.keys()
    assert all(np.array_equal(arrays[name], other_arrays[name]) for name in arrays)


def test_settings_and_partial_fit(scenes, X):
    model = clone(DocNADE(**{**FAST, "max_epochs": 2}))
    assert model.get_params()["n_topics"] == (10, 8)
    before = DocNADE(**{**FAST, "max_epochs": 1}).partial_fit(X).perplexity(X)
    for _ in range(10):
        model.partial_fit(X)
    assert model.perplexity(X) < before


def test_early_stopping_measures_exact_likelihoods(scenes, X):
    model = DocNADE(
        **{**FAST, "max_epochs": 3}, early_stopping=True, metric="perplexity"
    ).fit(X)  # fmt: skip
    assert all(each.validation["perplexity"] > 1 for each in model.history_.epochs)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_topics": ()}, InvalidArgument, "n_topics must be a number, or 1 to 16 of them, got 0"),
        ({"n_topics": (3, -1)}, InvalidArgument, "n_topics must be a whole number of at least 1"),
        ({"backend": "cpu"}, BackendUnavailable, "cannot serve several hidden layers; use 'auto'"),
    ],
)
def test_bad_settings_get_one_sentence(X, options, error, message):
    with pytest.raises(error, match=message):
        DocNADE(**{**FAST, **options}).fit(X)


def test_hostile_layers_are_refused(model, tmp_path):
    path = tmp_path / "model"
    model.save(path)
    arrays, description = load_arrays(path)
    for sizes in (10, [10], [10, 7], [10, 8, 8], [8, 10], [10, 8.5], [10, -8], [], [10**12] * 2,
                  [1] * 10**5, [[10], 8], "10", {"0": 10, "1": 8}):  # fmt: skip
        changed = copy.deepcopy(description)
        changed["network"]["n_topics"] = sizes
        save_arrays(path, arrays, changed)
        with pytest.raises(StorageError):
            SupDocNADE.load(path)
    for name in ("layer_weights.0", "layer_biases.0"):
        wrong = (arrays[name][:-1], np.full_like(arrays[name], np.nan), arrays[name].astype("f8"))
        for array in wrong:
            save_arrays(path, {**arrays, name: array}, description)
            with pytest.raises(StorageError, match=name):
                SupDocNADE.load(path)
        rest = {key: array for key, array in arrays.items() if key != name}
        save_arrays(path, rest, description)
        with pytest.raises(StorageError, match=name):
            SupDocNADE.load(path)
