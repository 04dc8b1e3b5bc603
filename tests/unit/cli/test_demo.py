"""The archive of drawn scenes: classes, tags, sizes, and folders that are written from it."""

import pytest

from supdocnade import storage
from supdocnade.cli.demo import ARCHIVE, CLASSES, METADATA, N_PER_CLASS, drawn_scenes, write_scenes
from supdocnade.errors import InvalidArgument

OPTIONS = {"classes": ("coast", "street"), "max_side": 48}


def read_all(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_archive_is_small_and_holds_different_scenes_of_every_class():
    assert ARCHIVE.stat().st_size < 3_000_000
    scenes = drawn_scenes(N_PER_CLASS, max_side=32)
    assert [scene.label for scene in scenes] == [name for name in CLASSES for _ in range(50)]
    assert len({scene.image.tobytes() for scene in scenes}) == len(scenes)
    holders = {}
    for scene in scenes:
        assert 3 <= len(scene.tags) <= 7
        assert list(scene.tags) == sorted(set(scene.tags))
        for tag in scene.tags:
            holders.setdefault(tag, set()).add(scene.label)
    # Most tags belong to several classes.
    assert len(holders) == 25
    assert sum(len(labels) > 1 for labels in holders.values()) >= 15


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_per_class": 0}, "n_per_class must be a whole number of at least 1"),
        ({"n_per_class": 1, "first": -1}, "first must be"),
        ({"n_per_class": 11, "first": 40}, "must be at most 50, got 40 \\+ 11"),
        ({"n_per_class": 1, "classes": ("coast", "kitchen")}, "classes must be one of"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        drawn_scenes(**arguments)


def test_an_interrupted_call_is_resumed(tmp_path, monkeypatch):
    write_scenes(tmp_path / "a", 2, **OPTIONS)
    assert len(first := read_all(tmp_path / "a")) == 5
    (tmp_path / "a" / "coast" / "coast_0002.jpg").unlink()
    (tmp_path / "a" / METADATA).unlink()
    (tmp_path / "a" / "coast" / ".coast_0002.jpg.0a1b2c3d.partial").write_bytes(b"cut off")
    monkeypatch.setattr(storage, "_swept", set())  # As in a new process.
    write_scenes(tmp_path / "a", 2, **OPTIONS)
    assert read_all(tmp_path / "a") == first
