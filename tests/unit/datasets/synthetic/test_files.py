"""Scenes on disk: the ImageFolder convention, and nothing of anyone else's is touched."""

import json

import numpy as np
import pytest

from supdocnade.datasets.folder import read_folder
from supdocnade.datasets.synthetic import drawn_scenes, write_scenes
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.imaging.decode import DecodeConfig, decode

OPTIONS = {"size": (40, 56), "classes": ("coast", "street")}


def contents(folder):
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


def test_the_same_call_gives_the_same_files(tmp_path):
    write_scenes(tmp_path / "a", 2, 5, **OPTIONS)
    write_scenes(tmp_path / "b", 2, 5, **OPTIONS)
    first = contents(tmp_path / "a")
    assert first == contents(tmp_path / "b")
    assert len(first) == 5
    (tmp_path / "a" / "coast" / "coast_0002.jpg").unlink()
    (tmp_path / "a" / "metadata.jsonl").unlink()
    (tmp_path / "a" / "coast" / ".coast_0002.jpg.partial").write_bytes(b"cut off")
    write_scenes(tmp_path / "a", 2, 5, **OPTIONS)
    assert contents(tmp_path / "a") == first


def test_other_things_are_left_alone(tmp_path):
    (tmp_path / "coast").mkdir()
    (tmp_path / "coast" / "holiday.jpg").write_bytes(b"mine")
    with pytest.raises(StorageError, match=r"nothing but these scenes, got coast/holiday\.jpg"):
        write_scenes(tmp_path, 1, 5, **OPTIONS)
    assert contents(tmp_path) == {"coast/holiday.jpg": b"mine"}


def test_other_scenes_are_not_replaced(tmp_path):
    write_scenes(tmp_path, 1, 5, **OPTIONS)
    before = contents(tmp_path)
    with pytest.raises(StorageError, match="the same scene, got another file"):
        write_scenes(tmp_path, 1, 6, **OPTIONS)
    assert contents(tmp_path) == before


def test_errors(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="must be a folder, got a file"):
        write_scenes(tmp_path / "file", 1, 5, **OPTIONS)
    with pytest.raises(InvalidArgument, match="ending must be one of"):
        write_scenes(tmp_path / "new", 1, 5, ending=".gif", **OPTIONS)
    with pytest.raises(InvalidArgument, match="n_per_class"):
        write_scenes(tmp_path / "new", 0, 5, **OPTIONS)
    assert not (tmp_path / "new").exists()
