import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.scene_model import SETTINGS, columns, scenes, small_model

from supdocnade import SceneModel
from supdocnade.errors import InvalidArgument
from supdocnade.model.config import DocNADEConfig
from supdocnade.model.inference import NetworkArrays, annotation_log_proba, topic_features
from supdocnade.scene.onnx import export_onnx

onnxruntime = pytest.importorskip("onnxruntime")
IMAGES, LABELS, TAGS = columns(scenes(3, 5))


def run(model, path):
    model.export_onnx(path)
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    counts = model.fitted_.bag.transform(IMAGES).toarray().astype(np.float32)
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"counts": counts}), strict=True))
    return found, session.get_modelmeta().custom_metadata_map


def test_several_labels(tmp_path):
    several = [[scene.label, *scene.tags[:1]] for scene in scenes()]
    model = SceneModel(**{**SETTINGS, "max_epochs": 2})
    model.fit([scene.image for scene in scenes()], several)
    found, names = run(model, tmp_path / "model.onnx")
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(IMAGES), atol=1e-5)
    assert json.loads(names["classes"]) == list(model.classes_)


@pytest.mark.parametrize("settings", [("svm",), ("softmax",), ("softmax", "sigmoid")], ids="-".join)
def test_it_predicts_as_the_model_does(tmp_path, settings):
    model = small_model(*settings)
    found, names = run(model, tmp_path / "model.onnx")
    np.testing.assert_allclose(found["topics"], model.transform(IMAGES), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(IMAGES), atol=1e-5)
    hidden = model.transform(IMAGES)
    among_all = "sigmoid" not in settings
    log_p = annotation_log_proba(model.fitted_.network, hidden, normalize=among_all)
    np.testing.assert_allclose(found["tag_log_proba"], log_p, atol=1e-4)
    scores = model.fitted_.tag_scores(hidden, model.predict_proba(IMAGES))
    assert model.fitted_.choices.class_tag_weight > 0
    np.testing.assert_allclose(found["tag_scores"], scores, atol=1e-4)
    np.testing.assert_allclose(
        found["tag_probabilities"], model.fitted_.tag_proba(hidden), atol=1e-5
    )
    assert json.loads(names["classes"]) == model.classes_.tolist()
    assert json.loads(names["tags"]) == model.tag_names_.tolist()


def test_global_features_and_logistic_outputs(tmp_path):
    fitted = small_model("softmax").fitted_
    rng, before = np.random.default_rng(0), fitted.network
    config = DocNADEConfig(
        n_visual_words=before.config.n_visual_words,
        n_annotation_words=before.config.n_annotation_words,
        n_topics=before.config.n_topics,
        output="softmax",
        n_global_features=3,
        annotation_output="sigmoid",
    )
    shapes = {
        "word_embedding": (config.n_words, config.n_topics),
        "hidden_bias": (config.n_topics,),
        "node_weight": (config.n_words, config.n_topics),
        "node_bias": (config.n_words,),
        "global_weight": (config.n_topics, 3),
        "tag_weight": (config.n_annotation_words, config.n_topics),
        "tag_bias": (config.n_annotation_words,),
    }
    drawn = {name: rng.normal(0, 0.1, shape) for name, shape in shapes.items()}
    features = rng.normal(size=(len(IMAGES), 3))
    network = NetworkArrays(config, {n: a.astype(np.float32) for n, a in drawn.items()}, None)
    choices = replace(fitted.choices, tags=None)
    fitted = replace(fitted, classes=(), class_tag_share_CA=None, choices=choices)
    export_onnx(replace(fitted, network=network), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(
        (tmp_path / "model.onnx").read_bytes(), providers=["CPUExecutionProvider"]
    )
    counts = fitted.bag.transform(IMAGES)
    inputs = {"counts": counts.toarray().astype(np.float32)}
    inputs["global_features"] = features.astype(np.float32)
    topics, log_p, proba = session.run(["topics", "tag_log_proba", "tag_probabilities"], inputs)
    expected = topic_features(network, fitted.damp(counts), inputs["global_features"])
    np.testing.assert_allclose(topics, expected, rtol=1e-4, atol=1e-5)
    expected = annotation_log_proba(network, expected)
    np.testing.assert_allclose(log_p, expected, atol=1e-4)
    np.testing.assert_allclose(proba, np.exp(expected), atol=1e-4)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_other_models_are_exported_too(tmp_path, activation):
    settings = {**SETTINGS, "n_words": 10, "max_epochs": 1, "min_tag_count": 1, "damping": None}
    model = SceneModel(**settings, activation=activation).fit(IMAGES, None, TAGS)
    found, _ = run(model, tmp_path / "model.onnx")
    assert "probabilities" not in found
    np.testing.assert_array_equal(found["tag_scores"], found["tag_log_proba"])
    np.testing.assert_allclose(found["topics"], model.transform(IMAGES), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        found["tag_probabilities"], model.fitted_.tag_proba(model.transform(IMAGES)), atol=1e-5
    )


def test_the_extra_is_named_where_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InvalidArgument, match=r"pip install '.*\[onnx\]'"):
        small_model().export_onnx(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
