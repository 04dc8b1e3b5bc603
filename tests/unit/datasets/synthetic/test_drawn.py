"""Scenes follow their seed, hold what they say they hold, and look different every time."""

import collections

import numpy as np
import pytest

from supdocnade.datasets.synthetic import CLASSES, TAGS, draw_scene, drawn_scenes
from supdocnade.datasets.synthetic.plans import PLANS, choose_objects
from supdocnade.errors import InvalidArgument
from supdocnade.seeding import named_generator

SMALL = (48, 64)


@pytest.fixture(scope="module")
def scenes():
    return drawn_scenes(12, 7, size=SMALL)


def test_one_scene():
    scene = draw_scene("coast", 3)
    assert scene.image.shape == (192, 256, 3)
    assert scene.image.dtype == np.uint8
    assert scene.image.flags.c_contiguous
    assert scene.label == "coast"
    assert scene.image.std() > 10


def test_a_scene_depends_on_seed_class_and_number_alone(scenes):
    few = drawn_scenes(2, 7, size=SMALL, classes=("village", "coast"))
    for scene, number in zip(few, [84, 85, 0, 1], strict=True):
        np.testing.assert_array_equal(scene.image, scenes[number].image)
        assert scene[1:] == scenes[number][1:]
    generator = named_generator(7, "scene", CLASSES.index("coast"), 1)
    np.testing.assert_array_equal(draw_scene("coast", generator, SMALL).image, scenes[1].image)
    other = drawn_scenes(1, 8, size=SMALL, classes=("coast",))[0]
    assert (other.image != scenes[0].image).any()


def test_labels_and_tags(scenes):
    assert [scene.label for scene in scenes] == [name for name in CLASSES for _ in range(12)]
    for scene in scenes:
        assert 3 <= len(scene.tags) <= 7
        assert set(scene.tags) <= set(TAGS)
        assert list(scene.tags) == sorted(set(scene.tags))
        assert set(PLANS[scene.label].always) <= set(scene.tags)
        assert not {"sun", "moon"} <= set(scene.tags)
    assert len({scene.image.tobytes() for scene in scenes}) == len(scenes)


def test_most_tags_belong_to_several_classes(scenes):
    holders = collections.defaultdict(set)
    for scene in scenes:
        for tag in scene.tags:
            holders[tag].add(scene.label)
    assert len(holders) >= 20
    assert sum(len(labels) > 1 for labels in holders.values()) >= 15


@pytest.mark.parametrize("size", [(32, 32), (90, 40), (41, 133), (300, 200)])
def test_other_sizes(size):
    for name in CLASSES:
        assert draw_scene(name, 5, size).image.shape == (*size, 3)


def test_a_larger_picture_shows_the_same_scene():
    for name in ("field", "skyline"):
        small, large = draw_scene(name, 1, (96, 128)), draw_scene(name, 1, (192, 256))
        halved = large.image.reshape(96, 2, 128, 2, 3).mean(axis=(1, 3))
        correlation = np.corrcoef(halved.ravel(), small.image.ravel())[0, 1]
        assert correlation > 0.9


@pytest.mark.parametrize("name", CLASSES)
def test_plans(name):
    plan = PLANS[name]
    assert set(plan.always) | set(plan.often) <= set(TAGS)
    for seed in range(50):
        rng = np.random.default_rng(seed)
        day, night = (choose_objects(plan, rng, night=night) for night in (False, True))
        assert 4 <= len(day) <= 7
        assert set(plan.always) <= day & night
        assert not {"moon", "star"} & day
        assert "sun" not in night


def test_errors():
    with pytest.raises(InvalidArgument, match="name must be one of"):
        draw_scene("kitchen", 0)
    with pytest.raises(InvalidArgument, match="size must be a whole number of at least 32"):
        draw_scene("coast", 0, (16, 256))
    with pytest.raises(InvalidArgument, match="size must be a height and a width"):
        draw_scene("coast", 0, (192, 256, 3))
    with pytest.raises(InvalidArgument, match="n_per_class"):
        drawn_scenes(0, 0)
    with pytest.raises(InvalidArgument, match="classes must be one of"):
        drawn_scenes(1, 0, classes=("coast", "kitchen"))
    with pytest.raises(InvalidArgument, match="classes must be different"):
        drawn_scenes(1, 0, classes=("coast", "coast"))
    with pytest.raises(InvalidArgument, match="seed"):
        drawn_scenes(1, -1)
