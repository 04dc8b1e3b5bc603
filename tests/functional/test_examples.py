"""Scripts of `examples/`: the model in one file, and recipes for other programs."""

import json
import re
import runpy
import sys
from contextlib import nullcontext
from itertools import pairwise
from types import SimpleNamespace
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from tests.commands import draw, supdocnade
from tests.functional.test_documentation import ROOT
from tests.planted_corpus import network_for
from tests.scene_model import CLASSES, SETTINGS, small_model

from supdocnade import BagOfVisualWords, SupDocNADE
from supdocnade.corpus.documents import Documents
from supdocnade.likelihood.contract import Batch
from supdocnade.likelihood.operations import use_backend
from supdocnade.scene.corrections import Correction, read_corrections
from supdocnade.threads import limit_threads
from supdocnade.training.objective import batch_loss, make_batch

QUICK = {
    "n_topics": SETTINGS["n_topics"],
    "words": BagOfVisualWords.for_photographs(n_words=30, max_side=128, mirror=False),
    "topics": SupDocNADE.for_photographs(max_epochs=SETTINGS["max_epochs"]),
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("photos"))


def recipe(name):
    return runpy.run_path(str(ROOT / "examples" / name))


PAPER_NAMES = {
    **{"W": "word_embedding", "c": "hidden_bias", "V": "node_weight", "b": "node_bias"},
    **{"U": "label_weight", "d": "label_bias"},
}


@pytest.fixture
def two_models():
    """The model in one file and the package's, with the same parameters and tree."""
    counts, tags = [[2, 0, 1, 0, 1], [0, 3, 0, 1, 0], [1, 1, 1, 2, 3]], [[1, 0], [0, 1], [1, 1]]
    corpus = Documents.from_counts(counts, annotations=tags, labels=[2, 0, 1], n_classes=3)
    network = network_for(corpus, n_topics=4).double()
    script = recipe("docnade_in_one_file.py")
    model = script["SupDocNADE"](5, 2, 3, n_topics=4).double()
    leaves = torch.tensor(network.output.tree.leaf_of_word_K)
    model.nodes, model.turns = script["tree_paths"](leaves)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        parameter.data.normal_(0, 0.5, generator=generator)
        network.get_parameter(PAPER_NAMES[name]).data.copy_(parameter.data)
    with use_backend("reference"):
        yield model, network, corpus


def log_prob(network, rows):
    lengths = torch.tensor([0, *map(len, rows)])
    return network.log_prob(Batch(torch.cat(rows), lengths.cumsum(0)))


def test_the_model_in_one_file_computes_the_numbers_of_the_package(two_models):
    model, network, corpus = two_models
    shuffled, bounds = np.random.default_rng(0), pairwise([0, *np.cumsum(corpus.length_B)])
    order = np.concatenate([shuffled.permutation(np.arange(*bound)) for bound in bounds])
    batch = make_batch(corpus, np.arange(3), order, annotation_weight=3.0, n_summary_words=5)
    rows = batch.word_ids_N.long().split(corpus.length_B.tolist())
    words = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
    # Training shuffles the padding, too, which then stands between words.
    words = torch.cat([words[:, :2], torch.full((3, 1), -1), words[:, 2:]], dim=1)
    log_p_B = network.log_prob(batch._replace(loss_weight_N=None))
    visual = [row[row < 5] for row in rows]
    with_tags = [
        log_prob(network, [torch.cat([row, torch.tensor([tag])]) for row in visual])
        for tag in (5, 6)
    ]
    tags_BA = torch.stack(with_tags, dim=1) - log_prob(network, visual)[:, None]
    pairs = [
        (model.log_likelihood(words).sum(dim=1), log_p_B),
        (model.class_log_prob(words), network.class_logits(network.summary(batch)).log_softmax(1)),
        (model.tag_log_prob(words), tags_BA),
        (model.loss(words, batch.label_B, 0.3, tag_weight=3.0), batch_loss(network, batch, 0.3)),
    ]
    for ours, expected in pairs:
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    for loss in pairs[-1]:
        loss.backward()
    for name, parameter in model.named_parameters():
        expected = network.get_parameter(PAPER_NAMES[name]).grad
        assert expected.abs().max() > 1e-3
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-5, atol=1e-5)


def test_the_model_in_one_file_stays_short_and_plain():
    code = (ROOT / "examples/docnade_in_one_file.py").read_text()
    assert len(code.splitlines()) < 250
    imported = set(re.findall(r"^(?:import|from) ([\w]+)", code, re.MULTILINE))
    assert imported == {"torch"}


def test_the_model_in_one_file_learns(capsys):
    with torch.random.fork_rng(), limit_threads():
        recipe("docnade_in_one_file.py")["main"]()
    printed = capsys.readouterr().out
    losses = [float(loss) for loss in re.findall(r"^epoch .*loss ([\d.]+)$", printed, re.MULTILINE)]
    assert len(losses) == 20
    assert losses[-1] < losses[0] - 1
    accuracy, tags = map(float, re.search(r"accuracy ([\d.]+)%, tags ([\d.]+)%", printed).groups())
    # Three of nine tags at random: 33 %.
    assert accuracy > 95
    assert tags > 80


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
    assert accuracy.value == pytest.approx(model.fitted_.held_out.metrics["accuracy"])
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
    assert results["held out/accuracy"] == model.fitted_.held_out.metrics["accuracy"]


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


def test_word_vectors_are_the_start_of_W(tmp_path):
    script = recipe("word_vectors.py")
    random = np.random.default_rng(0)
    share_CK = np.kron(np.eye(3), np.full(10, 0.09)) + 0.01 / 3
    short = np.array([random.multinomial(4, share_CK[number % 3]) for number in range(60)])
    words = [f"w{number}" for number in range(30)]
    lines = [f"w{k} {' '.join(map(str, row))}" for k, row in enumerate(share_CK.T[:, [0, 1, 2, 0]])]
    (tmp_path / "vectors.txt").write_text("\n".join(lines[:-1]))
    vectors = script["read_vectors"](tmp_path / "vectors.txt")
    assert (len(vectors), vectors["w0"].shape) == (29, (4,))
    started = script["fit_from_vectors"](short, words, vectors, max_epochs=1, random_state=0)
    known = started.components_[:, :29]
    assert np.sqrt(np.square(known).mean()) == pytest.approx(script["SCALE"], rel=1e-5)
    np.testing.assert_allclose(known[:, 0], known[:, 9], rtol=1e-5)
    learned = script["fit_from_vectors"](short, words, vectors, max_epochs=40, random_state=0)
    assert learned.completion_perplexity(short) < started.completion_perplexity(short)
