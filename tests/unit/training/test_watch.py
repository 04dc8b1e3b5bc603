import json
import os

import numpy as np
import pytest
from tests.scene_model import SETTINGS, columns, scenes, small_model

from supdocnade import SceneModel, SupDocNADE
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.training.watch import MLflowWatch, TensorBoardWatch, open_watch

COUNTS = np.random.default_rng(0).poisson(2, (20, 10))
LABELS = ["a", "b"] * 10


class Recorder:
    """A watch that keeps everything."""

    def __init__(self):
        self.calls = []

    def log_settings(self, settings):
        self.calls.append(("settings", dict(settings)))

    def log_epoch(self, stage, epoch, figures):
        self.calls.append((stage, epoch, dict(figures)))

    def log_results(self, figures):
        self.calls.append(("results", dict(figures)))

    def log_file(self, path):
        self.calls.append(("file", path.name))


def test_a_scene_model_tells_settings_epochs_and_results():
    watch = Recorder()
    model = SceneModel(classifier="svm", annotation_output="words", **SETTINGS)
    model.fit(*columns(scenes()), watch=watch)
    (first, settings), *epochs, (last, figures) = watch.calls
    assert (first, last) == ("settings", "results")
    assert settings["n_topics"] == SETTINGS["n_topics"]
    assert figures == model.fitted_.held_out.figures
    stages = [stage for stage, *_ in epochs]
    assert stages.count("learning") == SETTINGS["max_epochs"]
    assert stages.count("learning from all") == model.fitted_.choices.n_epochs
    assert [epoch for stage, epoch, _ in epochs if stage == "learning"] == list(range(1, 13))
    assert all(set(figures) == {"loss", "learning_rate"} for *_, figures in epochs)
    # To be watched does not change a model.
    images = [scene.image for scene in scenes()[:3]]
    np.testing.assert_array_equal(model.predict_proba(images), small_model().predict_proba(images))
    watch.calls.clear()
    model.fit_more(*columns(scenes()[:3]), watch=watch)
    assert (watch.calls[0][0], watch.calls[-1][0]) == ("settings", "results")


def read_scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    scalars = {
        tag: [each.value for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]
    }
    texts = [
        each.tensor_proto.string_val[0].decode() for each in events.Tensors("settings/text_summary")
    ]
    return scalars, texts


def test_tensorboard_reads_what_an_estimator_did(tmp_path):
    pytest.importorskip("tensorboard")
    watch = open_watch(f"tensorboard:{tmp_path / 'runs'}")
    assert isinstance(watch, TensorBoardWatch)
    model = SupDocNADE(n_topics=4, max_epochs=3, early_stopping=True, random_state=0)
    model.fit(COUNTS, LABELS, on_epoch=watch)
    watch.log_results({"accuracy": 0.5})
    report = tmp_path / "report.html"
    report.write_text("report")
    watch.log_file(report)
    watch.close()
    scalars, (text,) = read_scalars(tmp_path / "runs")
    epochs = model.history_.epochs
    np.testing.assert_allclose(scalars["learning/loss"], [each.loss for each in epochs], rtol=1e-6)
    assert len(scalars["learning/validation_loss"]) == 3
    assert scalars["held out/accuracy"] == [0.5]
    assert json.loads(text.strip("`\n"))["n_topics"] == 4
    assert (tmp_path / "runs/report.html").read_text() == "report"


def test_mlflow_records_what_an_estimator_did(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "false")
    with pytest.raises(StorageError, match="runs cannot be used by MLflow: "):
        open_watch(f"mlflow:{tmp_path / 'runs'}")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # A folder instead of a server.
    watch = open_watch(f"mlflow:{tmp_path / 'runs'}")
    assert isinstance(watch, MLflowWatch)
    for name in ("MLFLOW_DISABLE_TELEMETRY", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"):
        assert os.environ[name] == "true"
    model = SupDocNADE(n_topics=4, max_epochs=3, random_state=0)
    model.fit(COUNTS, LABELS, on_epoch=watch)
    watch.log_results({"accuracy": 0.5})
    report = tmp_path / "report.html"
    report.write_text("report")
    watch.log_file(report)
    watch.close()
    client = mlflow.MlflowClient()
    run = client.get_run(watch._run_id)
    assert run.data.params["n_topics"] == "4"
    assert run.data.metrics["held out/accuracy"] == 0.5
    losses = client.get_metric_history(watch._run_id, "learning/loss")
    assert [each.value for each in losses] == [each.loss for each in model.history_.epochs]
    assert [each.path for each in client.list_artifacts(watch._run_id)] == ["report.html"]


@pytest.mark.parametrize("target", ["tensorboard", "tensorboard:", "wandb:here", "runs"])
def test_other_targets_are_refused(target):
    with pytest.raises(InvalidArgument, match="--log-to must be tensorboard:FOLDER or mlflow"):
        open_watch(target)


@pytest.mark.parametrize(
    ("target", "module"), [("tensorboard:x", "torch.utils.tensorboard"), ("mlflow:x", "mlflow")]
)
def test_a_missing_package_names_its_extra(target, module, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    extra = target.partition(":")[0]
    with pytest.raises(ValueError, match=rf"needs an extra that is not installed: .*\[{extra}\]"):
        open_watch(target)
