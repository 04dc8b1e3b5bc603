"""Scenes are those of the archive, at every size, with the objects of their class."""

import numpy as np
import pytest
from tools.draw_scenes.__main__ import draw_numbered, encode
from tools.draw_scenes.scenes import PLANS, TAGS, choose_objects, draw_scene

from supdocnade.cli.demo import CLASSES, drawn_scenes
from supdocnade.images.decode import DecodeConfig, decode


@pytest.mark.parametrize(("label", "number"), [("coast", 0), ("forest", 41), ("street", 12)])
def test_the_archive_holds_these_scenes(label, number):
    (stored,) = drawn_scenes(1, first=number, classes=(label,))
    drawn = draw_numbered(label, number)
    assert drawn[1:] == stored[1:]
    image = decode(encode(drawn), DecodeConfig(color=True))
    # Processors round differently.
    assert np.abs(image.astype(int) - stored.image).mean() < 0.5


def test_a_larger_picture_shows_the_same_scene():
    for label in CLASSES:
        small, large = (draw_scene(label, 0, 1, size).image for size in ((96, 128), (192, 256)))
        halved = large.reshape(96, 2, 128, 2, 3).mean(axis=(1, 3))
        assert np.corrcoef(halved.ravel(), small.ravel())[0, 1] > 0.9


@pytest.mark.parametrize("label", CLASSES)
def test_plans(label):
    plan = PLANS[label]
    assert set(plan.required) | set(plan.optional) <= set(TAGS)
    for seed in range(50):
        rng = np.random.default_rng(seed)
        day, night = (choose_objects(plan, rng, night=night) for night in (False, True))
        assert 4 <= len(day) <= 7
        assert set(plan.required) <= day & night
        assert not {"moon", "star"} & day
        assert "sun" not in night
