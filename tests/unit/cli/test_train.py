from collections import Counter
from pathlib import Path

import pytest
from tests.commands import SMALL, draw, supdocnade
from tests.scene_model import columns, scenes, small_model

from supdocnade.cli.train import describe_records, model_to_dict, print_summary
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.scene.persistence import load_scene


@pytest.mark.parametrize("command", [["train", "none", "-o", "m", "--quiet"], ["demo"]])
def test_features_are_checked_before_anything_is_done(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    done = supdocnade(*command, "--features", "dinov3")
    assert done.err.startswith("error: the network 'dinov3' is not installed; ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("max_epochs=-1", "--set max_epochs must be a whole number of at least 0, got -1."),
        ("learning_rate=fast", "--set learning_rate must be a finite number above 0, got 'fast'."),
        ("activation=gelu", "--set activation must be one of 'relu', 'tanh', 'sigmoid', got"),
        ("mirror=1", "--set mirror must be true or false, got 1."),
    ],
)
def test_settings_are_checked_before_photographs_are_looked_for(tmp_path, given, message):
    done = supdocnade("train", tmp_path / "none", "-o", tmp_path / "m", "--set", given)
    assert done.code in (1, 2)
    assert message in done.err
    assert not list(tmp_path.iterdir())


def test_a_setting_of_several_numbers_is_kept_when_a_run_is_resumed(tmp_path):
    photos = draw(tmp_path / "photos")
    small = (*SMALL, "--set", "grid=3,1")
    (tmp_path / "photos/coast/bad.jpg").write_bytes(b"no image")
    stopped = supdocnade("train", photos, "-o", tmp_path / "m", *small)
    assert "resume with: " in stopped.err
    again = ("train", photos, "-o", tmp_path / "m", "--resume", "--skip-unreadable")
    odd = supdocnade(*again, "--set", "grid=1,3")
    assert "--set grid must be as in the run to resume, [3, 1], got [1, 3]" in odd.err
    assert supdocnade(*again, "--set", "grid=3,1").code == 0
    assert load_scene(tmp_path / "m").words.settings.grid == (3, 1)


def test_the_one_class_of_added_photographs_is_not_unusual():
    photos = Path("photos")
    records = [ImageRecord(photos / "coast" / name, "coast", None) for name in ("a.jpg", "b.jpg")]
    assert "every photograph will be called coast" in describe_records(records)[0]
    assert describe_records(records, extends=True) == []
    assert describe_records(records[:1], extends=True) == []


def test_rare_tags_are_named(capsys):
    model = small_model()
    counts = Counter(tag for tags in columns(scenes())[2] for tag in set(tags))
    rare = sorted(tag for tag, count in counts.items() if count < 2)
    assert model_to_dict(model, Path("m"), {})["rare_tags"] == rare
    assert len(rare) + len(model.tag_names_) == len(counts)
    print_summary(model, Path("m"))
    out = capsys.readouterr().out
    expected = f"{len(rare)} tag{'s' * (len(rare) > 1)} not learned: on fewer than 2 photographs"
    assert (expected in out) == bool(rare)
