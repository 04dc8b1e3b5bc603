"""Models replaced while they are read or the power fails: a reader gets the old or the new one."""

import os
import threading
from functools import cache
from pathlib import Path

import pytest
from tests.scene_model import SETTINGS, columns, scenes

from supdocnade import SceneModel, schema
from supdocnade.scene.model import scene_model
from supdocnade.scene.persistence import DESCRIPTION, SCENE


@cache
def two_models():
    """Two models that differ in every part."""
    settings = {**SETTINGS, "n_words": 10, "n_topics": 4, "max_epochs": 2}
    return [
        scene_model(**{**settings, "random_state": seed}).fit(*columns(scenes(5, seed)))
        for seed in (1, 2)
    ]


def parts_of(model):
    """Return something of every part of a model."""
    fitted = model.fitted_
    return (
        model.random_state,
        fitted.encoder.fingerprint(),
        fitted.network.components.tobytes(),
        fitted.class_head.coefficient_CN.tobytes(),
        fitted.held_out.images,
        fitted.thumbnails.pictures,
        fitted.training_set.counts.toarray().tobytes(),
    )


def begin(folder):
    """Make a folder with a model in it; return the model."""
    two_models()[0].save(folder)
    return SceneModel.load(folder)


def test_a_reader_gets_one_of_the_models_that_replace_each_other(tmp_path):
    models = two_models()
    wanted = [parts_of(model) for model in models]
    assert all(one != other for one, other in zip(*wanted, strict=True))
    models[0].save(tmp_path / "model")
    stop = threading.Event()
    n_saved = 0

    def replace_again_and_again():
        nonlocal n_saved
        while not stop.is_set():
            n_saved += 1
            models[n_saved % 2].save(tmp_path / "model")

    writer = threading.Thread(target=replace_again_and_again)
    writer.start()
    try:
        found = []
        while len(found) < 20 or n_saved < 10:
            found.append(parts_of(SceneModel.load(tmp_path / "model")))
    finally:
        stop.set()
        writer.join()
    assert all(each in wanted for each in found)


def test_a_model_may_be_replaced_before_every_file_is_read(tmp_path, monkeypatch):
    folder = tmp_path / "model"
    begin(folder)
    read, seen = schema.read_file, []

    def replace_and_read(path, **options):
        seen.append(path.name)
        with monkeypatch.context() as patch:
            patch.setattr(schema, "read_file", read)
            two_models()[len(seen) % 2].save(folder)
        return read(path, **options)

    wanted = [parts_of(model) for model in two_models()]
    monkeypatch.setattr(schema, "read_file", replace_and_read)
    assert parts_of(SceneModel.load(folder)) in wanted
    assert seen


class Killed(BaseException):
    """A kill, which no program can catch."""


def save_until(model, folder, n_steps, monkeypatch):
    """Save a model, but be killed after some steps; return whether it was over by then."""
    left = n_steps
    replace, unlink = os.replace, Path.unlink

    def step():
        nonlocal left
        if left == 0:
            raise Killed
        left -= 1

    def replace_one(source, target):
        step()
        replace(source, target)

    def unlink_one(path, missing_ok=False):
        if not path.name.endswith(".partial"):  # Nobody cleans up after a kill.
            step()
            unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", replace_one)
        patch.setattr(Path, "unlink", unlink_one)
        try:
            model.save(folder)
        except Killed:
            return False
    return True


@pytest.mark.parametrize("start", ["a model", "nothing"])
def test_a_kill_at_any_step_leaves_a_model_that_can_be_replaced(tmp_path, monkeypatch, start):
    new = two_models()[1]
    n_steps, done = 0, False
    while not done:
        folder = tmp_path / f"{n_steps}"
        wanted = [parts_of(new)]
        if start != "nothing":
            wanted.append(parts_of(begin(folder)))
        done = save_until(new, folder, n_steps, monkeypatch)
        if done or start != "nothing":
            assert parts_of(SceneModel.load(folder)) in wanted
        new.save(folder)
        assert sorted(path.name for path in folder.iterdir()) == [DESCRIPTION, SCENE]
        n_steps += 1
    assert n_steps > 2
