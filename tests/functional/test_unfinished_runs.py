"""Folders of unfinished runs: whose they are, who may write to them, and what has changed since."""

import shutil

import pytest
from tests.commands import SMALL, draw, learned, supdocnade
from tests.scene_model import small_model

from supdocnade.cli.console import ProgressBars


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "scenes"
    small_model().save(path)
    return path


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("photos"), n_per_class=2)


@pytest.fixture
def photos(scenes, tmp_path):
    return shutil.copytree(scenes, tmp_path / "photos")


@pytest.mark.parametrize("by_link", [False, True])
@pytest.mark.parametrize("command", ["predict", "encode", "train", "topics"])
def test_a_folder_of_the_user_is_never_emptied(command, by_link, model, photos, tmp_path):
    mine = tmp_path / ("mine" if by_link else "results.partial")
    (mine / "words").mkdir(parents=True)
    for name in ("thesis.tex", "part-00000.jsonl", "words/thesis.tex"):
        (mine / name).write_text("the only copy")
    if by_link:
        (tmp_path / "results.partial").symlink_to(mine)
    models = [model] if command in ("predict", "encode") else []
    done = supdocnade(command, *models, photos, "-o", tmp_path / "results")
    assert done.code == 1
    assert "results.partial is in the way" in done.err
    assert sorted(path.name for path in mine.rglob("*")) == [
        *("part-00000.jsonl", "thesis.tex", "thesis.tex", "words"),
    ]
    assert not (tmp_path / "results").exists()


def test_a_second_training_leaves_the_first_alone(photos, tmp_path, monkeypatch):
    arguments = ("train", photos, "-o", tmp_path / "m", *SMALL)
    report, refused = ProgressBars.__call__, []

    def start_another(self, stage, done, total):
        report(self, stage, done, total)
        if stage == "learning from all" and done > total / 2:
            monkeypatch.setattr(ProgressBars, "__call__", report)
            others = (("--topics", "9"), ("--topics", "9", "--restart"), ("--resume",))
            refused.extend(supdocnade(*arguments, *options) for options in others)
            raise KeyboardInterrupt

    monkeypatch.setattr(ProgressBars, "__call__", start_another)
    assert supdocnade(*arguments).code == 130
    assert [each.code for each in refused] == [1, 1, 1]
    assert all("another process is writing to it" in each.err for each in refused)
    assert supdocnade("train", photos, "-o", tmp_path / "m", "--resume").code == 0
    assert supdocnade("train", photos, "-o", tmp_path / "whole", *SMALL).code == 0
    assert learned(tmp_path / "m") == learned(tmp_path / "whole")
