"""Recipes of `examples/` for other programs."""

import json
import runpy
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.commands import draw, supdocnade
from tests.functional.test_documentation import ROOT
from tests.scene_model import CLASSES, SETTINGS, small_model

from supdocnade.scene.corrections import Correction, read_corrections

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
    history = model.fitted_.history
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


@pytest.fixture(scope="module")
def predicted(tmp_path_factory):
    """A folder with photographs, a model and its predictions, of which one is an error."""
    folder = tmp_path_factory.mktemp("predicted")
    draw(folder / "photos a&ü", 1)
    (folder / "photos a&ü" / "broken.jpg").write_bytes(b"broken")
    small_model().save(folder / "scenes")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert supdocnade("predict", "scenes", "photos a&ü", "-o", "predictions").code == 1
    return folder


@pytest.fixture
def rows(predicted, monkeypatch):
    """The predictions; the recipes run in the folder of `predict`."""
    monkeypatch.chdir(predicted)
    lines = (predicted / "predictions/part-00000.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "error" not in row]


def test_fiftyone_gets_classes_and_tags_with_confidence(predicted, rows, tmp_path):
    recipe("to_fiftyone.py")["convert"]("predictions", tmp_path / "review")
    paths, labels, tags = (
        json.loads((tmp_path / "review" / f"{name}.json").read_text())
        for name in ("data", "labels", "tags")
    )
    assert list(paths.values()) == [str(predicted / row["file"]) for row in rows]
    assert list(paths) == list(labels["labels"]) == list(tags["labels"])
    for row, name in zip(rows, paths, strict=True):
        assert labels["labels"][name] == {
            "label": row["label"],
            "confidence": row["probability"],
            "attributes": {"unsure": row["unsure"], "unfamiliar": row["unfamiliar"]},
        }
        assert tags["labels"][name] == [
            {"label": each["tag"], "confidence": each["probability"]} for each in row["tags"]
        ]


def test_fiftyone_reads_what_was_predicted(predicted, rows, tmp_path, monkeypatch):
    # Without the database, which importers do not need.
    monkeypatch.setenv("FIFTYONE_DISABLE_SERVICES", "1")
    monkeypatch.setenv("FIFTYONE_DO_NOT_TRACK", "1")
    fiftyone = pytest.importorskip("fiftyone", reason="see `nox -s tools`")
    data = pytest.importorskip("fiftyone.utils.data")
    recipe("to_fiftyone.py")["convert"]("predictions", tmp_path / "review")
    kind = fiftyone.types.FiftyOneImageClassificationDataset
    for file in ("labels.json", "tags.json"):
        importer, _ = data.build_dataset_importer(
            kind, dataset_dir=str(tmp_path / "review"), data_path="data.json", labels_path=file
        )
        with importer:
            found = list(importer)
        assert [path for path, _, _ in found] == [str(predicted / row["file"]) for row in rows]
        if file == "labels.json":
            assert [label.label for _, _, label in found] == [row["label"] for row in rows]


def test_label_studio_gets_tasks_with_predictions_and_a_configuration(predicted, rows, tmp_path):
    recipe("to_label_studio.py")["convert"]("predictions", "scenes", tmp_path / "review")
    tasks = json.loads((tmp_path / "review/tasks.json").read_text())
    image, *controls = ElementTree.parse(tmp_path / "review/config.xml").getroot()
    assert (image.tag, image.get("value")) == ("Image", "$image")
    assert [each.get("choice") for each in controls] == ["single", "multiple"]
    offered = {each.get("name"): {choice.get("value") for choice in each} for each in controls}
    assert offered["label"] == set(CLASSES)
    for row, task in zip(rows, tasks, strict=True):
        path = str(predicted / row["file"])
        prefix, address = task["data"]["image"].split("?d=")
        assert (prefix, "/" + unquote(address)) == ("/data/local-files/", path)
        assert task["data"]["file_name"] == path
        (prediction,) = task["predictions"]
        assert prediction["score"] == row["probability"]
        chosen = {each["from_name"]: each["value"]["choices"] for each in prediction["result"]}
        assert chosen["label"] == [row["label"]]
        assert chosen.get("tags", []) == [each["tag"] for each in row["tags"]]
        assert all(set(names) <= offered[control] for control, names in chosen.items())


def test_label_studio_finds_no_mistake(rows, tmp_path):
    interface = pytest.importorskip("label_studio_sdk.label_interface", reason="see `nox -s tools`")
    recipe("to_label_studio.py")["convert"]("predictions", "scenes", tmp_path / "review")
    config = interface.LabelInterface((tmp_path / "review/config.xml").read_text())
    config.validate()
    for task in json.loads((tmp_path / "review/tasks.json").read_text()):
        config.validate_task({"data": task["data"]})
        for prediction in task["predictions"]:
            assert config.validate_prediction(prediction, return_errors=True) == []


def test_a_photograph_in_a_tar_file_is_not_one_beside_it():
    """A name in a stranger's tar file must not become the path of another file."""
    row = {"file": "photos.tar/../../private.jpg", "label": None, "probability": None, "tags": []}
    task = recipe("to_label_studio.py")["make_task"](row)
    assert task["data"]["file_name"].endswith("photos.tar/../../private.jpg")


EXPORT = """[
{"file_name": "/a ü.jpg", "label": "coast", "tags": "sea", "updated_at": "2026-11-18T04:12:14Z"},
{"file_name": "/b.jpg", "tags": {"choices": ["a", "sun"]}, "updated_at": "2026-11-18T04:12:15Z"},
{"file_name": "/c.jpg", "label": "lake", "updated_at": "2026-11-18T04:12:17Z"},
{"file_name": "/c.jpg", "label": "coast", "updated_at": "2026-11-18T04:12:16Z"},
{"file_name": "/d.jpg", "updated_at": "2026-11-18T04:12:18Z"}
]"""
"""What Label Studio 1.23 writes, without columns that are not read."""


def test_annotations_of_label_studio_become_corrections(tmp_path, capsys):
    (tmp_path / "project-1.json").write_text(EXPORT, encoding="utf-8")
    recipe("from_label_studio.py")["convert"](tmp_path / "project-1.json")
    corrections = tmp_path / "corrections.jsonl"
    corrections.write_text(capsys.readouterr().out)
    assert list(read_corrections(corrections).values()) == [
        Correction("/a ü.jpg", None, "coast", ("sea",)),
        Correction("/b.jpg", None, None, ("a", "sun")),
        Correction("/c.jpg", None, "lake", None),  # The last annotation, which comes first.
    ]


def test_pandas_reads_the_table_of_predictions(rows, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    recipe("to_parquet.py")["convert"]("predictions", tmp_path / "predictions.parquet")
    table = pandas.read_parquet(tmp_path / "predictions.parquet")
    assert table["error"].notna().sum() == 1
    known = table[table["error"].isna()]
    assert known["label"].tolist() == [row["label"] for row in rows]
    assert known["probability"].tolist() == [row["probability"] for row in rows]
