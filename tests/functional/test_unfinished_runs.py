"""Folders of unfinished runs: whose they are, who may write to them, and what has changed since."""

import json
import shutil
import signal
import subprocess
import sys

import pytest
from tests.commands import SMALL, draw, supdocnade
from tests.scene_model import small_model

from supdocnade.cli.console import ProgressBars
from supdocnade.corpus.disk import Corpus
from supdocnade.visual_words.encoder import ImageEncoder


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


def stop_after(monkeypatch, n_images, command, *arguments):
    """Run a command that is interrupted after some images."""
    encode, seen = ImageEncoder.encode, []

    def stop(self, *args, **options):
        if len(seen) == n_images:
            raise KeyboardInterrupt
        seen.append(None)
        return encode(self, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(ImageEncoder, "encode", stop)
        done = supdocnade(command, *arguments)
    assert done.code != 0


def exchange(photos):
    """Exchange two photographs of different classes: the first and the last."""
    paths = sorted(photos.rglob("*.jpg"))
    first, last = paths[0].read_bytes(), paths[-1].read_bytes()
    paths[0].write_bytes(last)
    paths[-1].write_bytes(first)


def predictions(folder):
    lines = b"".join(path.read_bytes() for path in sorted(folder.glob("part-*"))).splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("command", ["predict", "encode"])
def test_what_was_read_before_ctrl_c_is_not_read_again(
    command, model, photos, tmp_path, monkeypatch
):
    arguments = (command, model, photos, "-o", tmp_path / "out", "-j", "1")
    stop_after(monkeypatch, 5, *arguments)
    read = count_reads(monkeypatch)
    assert supdocnade(*arguments).code == 0
    assert len(read) == len([*photos.rglob("*.jpg")]) - 5
    assert not (tmp_path / "out.partial").exists()


KILLED = """
import os, signal, sys
from supdocnade import unfinished
from supdocnade.cli.main import run
from supdocnade.visual_words.encoder import ImageEncoder

encode, seen = ImageEncoder.encode, []

def kill(*arguments):
    seen.append(None)
    if len(seen) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return encode(*arguments)

ImageEncoder.encode, unfinished.PART_SIZE = kill, 2
run(sys.argv[1:])
"""


@pytest.mark.parametrize("command", ["predict", "encode"])
def test_a_killed_run_is_resumed_to_the_same_output(command, model, photos, tmp_path, monkeypatch):
    monkeypatch.setattr("supdocnade.unfinished.PART_SIZE", 2)
    output, whole = tmp_path / "output", tmp_path / "whole"
    arguments = [command, str(model), str(photos), "-o", str(output)]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments, "-j", "1"])
    assert killed.returncode == -signal.SIGKILL
    assert not output.exists()
    (part,) = tmp_path.rglob("part-*")
    n_images, read = len([*photos.rglob("*.jpg")]), count_reads(monkeypatch)
    assert supdocnade(*arguments, "-j", "2").code == 0
    assert part.name == "part-00000" + part.suffix
    assert len(read) == n_images - 3
    assert supdocnade(command, model, photos, "-o", whole).code == 0
    if command == "encode":
        assert Corpus.open(output).fingerprint() == Corpus.open(whole).fingerprint()
    assert predictions(output) == predictions(whole)


def count_reads(monkeypatch):
    """Return a list that grows by each image that is encoded."""
    encode, read = ImageEncoder.encode, []

    def count(self, *args, **options):
        read.append(None)
        return encode(self, *args, **options)

    monkeypatch.setattr(ImageEncoder, "encode", count)
    return read


def test_changed_photographs_are_predicted_again(model, photos, tmp_path, monkeypatch):
    monkeypatch.setattr("supdocnade.unfinished.PART_SIZE", 2)
    arguments = (model, photos)
    stop_after(monkeypatch, 5, "predict", *arguments, "-o", tmp_path / "out", "-j", "1")
    exchange(photos)
    done = supdocnade("predict", *arguments, "-o", tmp_path / "out")
    assert done.code == 0
    assert "1 of 3 parts that were finished are made again" in done.err
    assert supdocnade("predict", *arguments, "-o", tmp_path / "fresh").code == 0
    assert predictions(tmp_path / "out") == predictions(tmp_path / "fresh")


def test_photographs_of_another_folder_are_not_those_of_the_run(
    model, photos, tmp_path, monkeypatch
):
    shutil.copytree(photos, tmp_path / "elsewhere" / "photos")
    exchange(tmp_path / "elsewhere" / "photos")
    arguments = (model, "photos", "-o", tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    stop_after(monkeypatch, 5, "predict", *arguments, "-j", "1")
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = supdocnade("predict", *arguments)
    assert done.code == 1
    assert "other photographs" in done.err


def test_a_training_is_kept_out_while_another_reads_its_photographs(photos, tmp_path, monkeypatch):
    (photos / "metadata.jsonl").unlink()  # So that the files are searched for keywords.
    arguments = ("train", photos, "-o", tmp_path / "m", *SMALL)
    report, refused = ProgressBars.__call__, []

    def start_another(self, stage, done, total):
        monkeypatch.setattr(ProgressBars, "__call__", report)
        refused.append(supdocnade(*arguments, "--topics", "9"))
        report(self, stage, done, total)

    monkeypatch.setattr(ProgressBars, "__call__", start_another)
    assert supdocnade(*arguments).code == 0
    (other,) = refused
    assert other.code == 1
    assert "another process is writing to it" in other.err
