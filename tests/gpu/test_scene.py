"""A scene model that learns on a GPU, with everything that it keeps meanwhile."""

import numpy as np
import pytest
import torch
from tests.drawn import SETTINGS, columns, scenes

from supdocnade import SceneModel

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU that torch can use"
)


def test_it_learns_with_a_checkpoint(tmp_path):
    images, labels, tags = columns(scenes())
    model = SceneModel(**{**SETTINGS, "device": "cuda"}, checkpoint=tmp_path)
    model.fit(images, labels, tags)
    assert list(tmp_path.rglob("epoch-*.safetensors"))
    assert np.isfinite(model.predict_proba(images)).all()
