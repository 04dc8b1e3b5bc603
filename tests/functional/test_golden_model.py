"""A model that an earlier version saved is read, and answers as it did."""

import json
from pathlib import Path

import numpy as np
import pytest

from supdocnade import SceneModel
from supdocnade.evaluation.report import render_report
from supdocnade.scene.saved import DESCRIPTION, SCENE

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("number", [1, 2])
def test_a_model_of_every_format_answers_as_it_did(number):
    model = SceneModel.load(GOLDEN / f"scene_model_format_{number}")
    answers = json.loads((GOLDEN / f"scene_model_format_{number}.json").read_text())
    pictures = np.load(GOLDEN / "dense_sift.npz")
    images = [pictures[f"picture/{name}"] for name in ("waves", "noise", "disc")]
    # Other versions of numpy and torch, and other processors, round otherwise.
    np.testing.assert_allclose(model.predict_proba(images), answers["probabilities"], atol=1e-4)
    np.testing.assert_allclose(model.transform(images), answers["topics"], atol=1e-4)
    assert [list(tags) for tags in model.annotate(images, top=3)] == answers["tags"]
    assert "forest" in render_report(model)
    # They are of before classes had a say in tags: their tags are ranked as in the paper, for ever.
    assert model.fitted_.choices.class_tag_weight == 0
    assert model.explain(images[0], tag=answers["tags"][0][0]).score.endswith(")")


def test_a_model_of_an_earlier_format_is_saved_in_this_one(tmp_path):
    before = SceneModel.load(GOLDEN / "scene_model_format_1")
    before.save(tmp_path / "model")
    after = SceneModel.load(tmp_path / "model")
    picture = np.load(GOLDEN / "dense_sift.npz")["picture/waves"]
    assert list(after.iter_predictions([picture])) == list(before.iter_predictions([picture]))
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [DESCRIPTION, SCENE]
