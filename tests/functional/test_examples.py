"""Recipes of `examples/` for other programs."""

import runpy
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from tests.commands import draw
from tests.functional.test_documentation import ROOT
from tests.scene_model import SETTINGS

QUICK = {name: value for name, value in SETTINGS.items() if name != "random_state"}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("photos"))


def recipe(name):
    return runpy.run_path(str(ROOT / "examples" / name))


def test_tensorboard_reads_what_its_recipe_wrote(photos, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = recipe("tensorboard_recipe.py")["train"](photos, str(tmp_path), **QUICK)
    events = EventAccumulator(str(tmp_path)).Reload()
    losses = [each.value for each in events.Scalars("learning from all/loss")]
    history = model.fitted_.topics.history_
    np.testing.assert_allclose(losses, [each.loss for each in history.epochs], rtol=1e-6)
    assert len(events.Scalars("learning/learning_rate")) == SETTINGS["max_epochs"]
    (accuracy,) = events.Scalars("held out/accuracy")
    assert accuracy.value == pytest.approx(model.fitted_.held_out.figures["accuracy"])
    (text,) = events.Tensors("settings/text_summary")
    assert b"n_topics" in text.tensor_proto.string_val[0]


class StandIn(SimpleNamespace):
    """The functions of MLflow that the recipe calls; MLflow is too large to install for a test."""

    def __init__(self):
        super().__init__(called=[], start_run=nullcontext)
        for name in ("set_tracking_uri", "set_experiment", "log_params"):
            setattr(self, name, lambda value, name=name: self.called.append((name, value)))

    def log_metrics(self, metrics, step=None):
        assert all(isinstance(value, int | float) for value in metrics.values())
        self.called.append((step, dict(metrics)))


def test_mlflow_gets_settings_epochs_and_results(photos, monkeypatch):
    mlflow = StandIn()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    model = recipe("mlflow_recipe.py")["train"](photos, "http://localhost:5000", **QUICK)
    address, _, (_, params), *epochs, (step, results) = mlflow.called
    assert address == ("set_tracking_uri", "http://localhost:5000")
    assert params["n_topics"] == SETTINGS["n_topics"]
    assert [step for step, each in epochs if "learning/loss" in each] == list(range(1, 13))
    assert step is None
    assert results["held out/accuracy"] == model.fitted_.held_out.figures["accuracy"]
