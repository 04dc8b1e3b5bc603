"""Scene models that are trained on a GPU."""

import numpy as np
import pytest
import torch
from tests.answers_without_gpu import answers, answers_elsewhere
from tests.scene_model import SETTINGS, columns, scenes

from supdocnade.scene.model import scene_model
from supdocnade.training.trainer import CHECKPOINT

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU that torch can use"
)


def test_training_writes_a_checkpoint(tmp_path):
    images, labels, tags = columns(scenes())
    model = scene_model(**{**SETTINGS, "device": "cuda"}, checkpoint=tmp_path)
    model.fit(images, labels, tags)
    assert list(tmp_path.rglob(CHECKPOINT))
    assert np.isfinite(model.predict_proba(images)).all()


@pytest.mark.parametrize("output", ["words", "sigmoid"])
def test_a_model_gives_the_same_predictions_without_a_gpu(tmp_path, output):
    settings = {**SETTINGS, "annotation_output": output}
    model = scene_model(**settings, device="cuda").fit(*columns(scenes()))
    images, _, _ = columns(scenes(4, 7))
    with_gpu = answers(model, images)
    # With words from the CPU every bit is the same.
    on_cpu = answers(model.set_params(device="cpu"), images)
    assert answers_elsewhere([model], images, tmp_path) == [on_cpu]
    # On the GPU a patch between two words may get the other one.
    for gpu, cpu in zip(with_gpu["images"], on_cpu["images"], strict=True):
        np.testing.assert_allclose(
            *(_values(each["probabilities"]) for each in (gpu, cpu)), atol=0.05
        )
        here, there = (dict(each["ranked_tags"]) for each in (gpu, cpu))
        np.testing.assert_allclose([here[tag] for tag in there], list(there.values()), atol=0.05)
    labels = [[each["label"] for each in some["images"]] for some in (with_gpu, on_cpu)]
    assert sum(one != other for one, other in zip(*labels, strict=True)) <= 1


def _values(pairs):
    return [value for _, value in pairs]
