"""A model that an earlier version saved is read and predicts as it did."""

import json
from pathlib import Path

import numpy as np

from supdocnade import SceneModel
from supdocnade.report.html import render_report
from supdocnade.scene.persistence import DESCRIPTION, SCENE

GOLDEN = Path(__file__).parents[1] / "golden"


def test_a_model_predicts_as_it_did():
    model = SceneModel.load(GOLDEN / "scene_model_format_7")
    answers = json.loads((GOLDEN / "scene_model_format_7.json").read_text())
    pictures = np.load(GOLDEN / "dense_sift.npz")
    images = [pictures[f"picture/{name}"] for name in ("waves", "noise", "disc")]
    # Other versions of numpy and torch, and other processors, round differently.
    np.testing.assert_allclose(model.predict_proba(images), answers["probabilities"], atol=1e-4)
    np.testing.assert_allclose(model.transform(images), answers["topics"], atol=1e-4)
    assert [list(tags) for tags in model.annotate(images, top=3)] == answers["tags"]
    assert "forest" in render_report(model.fitted_)
    assert model.explain(images[0], tag=answers["tags"][0][0]).score.endswith(")")


def test_a_golden_model_is_saved_again(tmp_path):
    before = SceneModel.load(GOLDEN / "scene_model_format_7")
    before.save(tmp_path / "model")
    after = SceneModel.load(tmp_path / "model")
    picture = np.load(GOLDEN / "dense_sift.npz")["picture/waves"]
    assert list(after.iter_predictions([picture])) == list(before.iter_predictions([picture]))
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [DESCRIPTION, SCENE]
