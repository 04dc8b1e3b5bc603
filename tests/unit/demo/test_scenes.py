"""Drawn scenes: determinism, labels and tags, and image files."""

import collections
import json

import numpy as np
import pytest

from supdocnade import storage
from supdocnade.demo import CLASSES, TAGS, draw_scene, drawn_scenes, write_scenes
from supdocnade.demo.scenes import PLANS, choose_objects
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.folders.photo_folder import read_folder
from supdocnade.images.decode import DecodeConfig, decode
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


def test_a_scene_depends_only_on_seed_class_and_number(scenes):
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
        assert set(PLANS[scene.label].required) <= set(scene.tags)
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
    assert set(plan.required) | set(plan.optional) <= set(TAGS)
    for seed in range(50):
        rng = np.random.default_rng(seed)
        day, night = (choose_objects(plan, rng, night=night) for night in (False, True))
        assert 4 <= len(day) <= 7
        assert set(plan.required) <= day & night
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


OPTIONS = {"size": (40, 56), "classes": ("coast", "street")}


def read_all(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_files_and_metadata(tmp_path):
    paths = write_scenes(tmp_path / "scenes", 2, 5, ending=".png", **OPTIONS)
    names = [f"{name}/{name}_000{number}.png" for name in OPTIONS["classes"] for number in (1, 2)]
    assert [path.relative_to(tmp_path / "scenes").as_posix() for path in paths] == names
    scenes = drawn_scenes(2, 5, **OPTIONS)
    lines = (tmp_path / "scenes" / "metadata.jsonl").read_text().splitlines()
    for path, name, scene, line in zip(paths, names, scenes, lines, strict=True):
        np.testing.assert_array_equal(decode(path, DecodeConfig(color=True)), scene.image)
        assert json.loads(line) == {
            "file_name": name,
            "label": scene.label,
            "tags": list(scene.tags),
        }


def test_the_folder_can_be_read_back(tmp_path):
    write_scenes(tmp_path, 1, 5, **OPTIONS)
    records = read_folder(tmp_path)
    assert [record.label for record in records] == ["coast", "street"]
    scenes = drawn_scenes(1, 5, **OPTIONS)
    assert [set(record.tags) for record in records] == [set(scene.tags) for scene in scenes]


def test_the_same_call_gives_the_same_files(tmp_path, monkeypatch):
    write_scenes(tmp_path / "a", 2, 5, **OPTIONS)
    write_scenes(tmp_path / "b", 2, 5, **OPTIONS)
    first = read_all(tmp_path / "a")
    assert first == read_all(tmp_path / "b")
    assert len(first) == 5
    (tmp_path / "a" / "coast" / "coast_0002.jpg").unlink()
    (tmp_path / "a" / "metadata.jsonl").unlink()
    (tmp_path / "a" / "coast" / ".coast_0002.jpg.0a1b2c3d.partial").write_bytes(b"cut off")
    monkeypatch.setattr(storage, "_swept", set())  # As in a new process.
    write_scenes(tmp_path / "a", 2, 5, **OPTIONS)
    assert read_all(tmp_path / "a") == first


def test_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "coast").mkdir()
    (tmp_path / "coast" / "holiday.jpg").write_bytes(b"private")
    with pytest.raises(StorageError, match=r"nothing but these scenes, got coast/holiday\.jpg"):
        write_scenes(tmp_path, 1, 5, **OPTIONS)
    assert read_all(tmp_path) == {"coast/holiday.jpg": b"private"}


def test_other_scenes_are_not_replaced(tmp_path):
    write_scenes(tmp_path, 1, 5, **OPTIONS)
    before = read_all(tmp_path)
    with pytest.raises(StorageError, match="the same scene, got another file"):
        write_scenes(tmp_path, 1, 6, **OPTIONS)
    assert read_all(tmp_path) == before


def test_invalid_arguments_and_folders_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="must be a folder, got a file"):
        write_scenes(tmp_path / "file", 1, 5, **OPTIONS)
    with pytest.raises(InvalidArgument, match="ending must be one of"):
        write_scenes(tmp_path / "new", 1, 5, ending=".gif", **OPTIONS)
    with pytest.raises(InvalidArgument, match="n_per_class"):
        write_scenes(tmp_path / "new", 0, 5, **OPTIONS)
    assert not (tmp_path / "new").exists()
