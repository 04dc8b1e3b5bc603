"""A model that an earlier version saved is read, and answers as it did."""

import json
from pathlib import Path

import numpy as np

from supdocnade import SceneModel
from supdocnade.evaluation.report import render_report

GOLDEN = Path(__file__).parents[1] / "golden"


def test_a_model_of_format_1_answers_as_it_did():
    model = SceneModel.load(GOLDEN / "scene_model_format_1")
    answers = json.loads((GOLDEN / "scene_model_format_1.json").read_text())
    pictures = np.load(GOLDEN / "dense_sift.npz")
    images = [pictures[f"picture/{name}"] for name in ("waves", "noise", "disc")]
    # Other versions of numpy and torch, and other processors, round otherwise.
    np.testing.assert_allclose(model.predict_proba(images), answers["probabilities"], atol=1e-4)
    np.testing.assert_allclose(model.transform(images), answers["topics"], atol=1e-4)
    assert [list(tags) for tags in model.annotate(images, top=3)] == answers["tags"]
    assert "forest" in render_report(model)
