import hashlib
import json
import os
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from tests.commands import draw, supdocnade
from tests.scene_model import CLASSES, small_model

from supdocnade.cli.prediction_files import (
    export_fiftyone,
    export_label_studio,
    write_predictions,
)
from supdocnade.errors import StorageError
from supdocnade.run_options import RunOptions
from supdocnade.scene.corrections import Correction, read_corrections
from supdocnade.visual_words.encoder import ImageEncoder

SKIP = RunOptions(on_error="skip")


@pytest.fixture(scope="module")
def fitted():
    return small_model().fitted_


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("photos"), n_per_class=3)


@pytest.fixture
def paths(photos):
    return sorted(photos.rglob("*.jpg"))


def test_files_have_the_lines_of_the_command(photos, paths, tmp_path):
    model = tmp_path / "scenes"
    small_model().save(model)
    printed = supdocnade("predict", model, photos, "--json", "--top", "2")
    done = supdocnade(
        "predict", model, photos, "-o", tmp_path / "out", "--top", "2", "--shard-size", "4"
    )
    assert (done.code, done.err) == (0, "")
    assert done.out == f"predictions of 9 photographs written to {tmp_path / 'out'}\n"
    manifest = json.loads((tmp_path / "out/manifest.json").read_bytes())
    assert (manifest["n_images"], manifest["n_errors"]) == (9, 0)
    assert [each["n_images"] for each in manifest["files"]] == [4, 4, 1]
    text = b""
    for each in manifest["files"]:
        content = (tmp_path / "out" / each["file"]).read_bytes()
        assert each["checksum"] == hashlib.blake2b(content, digest_size=16).hexdigest()
        text += content
    assert text.decode() == printed.out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "manifest.json",
        *(each["file"] for each in manifest["files"]),
    }
    assert not (tmp_path / "out.partial").exists()


def test_an_interrupted_run_resumes(fitted, paths, tmp_path, monkeypatch):
    write_predictions(fitted, paths, tmp_path / "whole", SKIP, shard_size=2)
    encode, seen = ImageEncoder.encode, []

    def killed(self, source, name="", device="cpu"):
        if len(seen) == 5:
            raise KeyboardInterrupt
        seen.append(name)
        return encode(self, source, name, device)

    monkeypatch.setattr(ImageEncoder, "encode", killed)
    with pytest.raises(KeyboardInterrupt):
        write_predictions(fitted, paths, tmp_path / "out", SKIP, shard_size=2)
    assert not (tmp_path / "out").exists()
    with pytest.raises(StorageError, match="other settings"):
        write_predictions(fitted, paths, tmp_path / "out", SKIP, top=1, shard_size=2)
    seen.clear()
    assert write_predictions(fitted, paths, tmp_path / "out", SKIP, shard_size=2) == []
    assert len(seen) == 5  # Two files of two were finished.
    for path in (tmp_path / "whole").iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_photograph_that_cannot_be_read_has_a_row_with_its_error(format, fitted, paths, tmp_path):
    if format == "parquet":
        pytest.importorskip("pyarrow")
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no image")
    sources = [paths[0], broken, paths[1]]
    reasons = write_predictions(fitted, sources, tmp_path / "out", SKIP, format=format)
    (reason,) = reasons
    assert "broken.jpg" in reason
    (file,) = json.loads((tmp_path / "out/manifest.json").read_bytes())["files"]
    assert (file["n_images"], file["n_errors"]) == (3, 1)
    rows = read_rows(tmp_path / "out" / file["file"])
    assert [row["file"] for row in rows] == [str(source) for source in sources]
    assert [row.get("error") for row in rows] == [None, reason, None]
    assert rows[0]["label"] == "coast"
    assert sum(dict(rows[0]["probabilities"]).values()) == pytest.approx(1)
    assert all(tag["probability"] > 0 for tag in rows[0]["tags"])


def read_rows(path):
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    from pyarrow.parquet import read_table

    return read_table(path).to_pylist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cluster", "local"), "--cluster needs --output"),
        (("--format", "parquet"), "--format needs --output"),
        (("-o", "out", "--csv"), "--csv must not be given with --output"),
        (("-o", "out", "--write-xmp"), "--write-xmp must not be given with --output"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message, tmp_path):
    done = supdocnade("predict", tmp_path, tmp_path / "a.jpg", *options)
    assert done.code == 2
    assert message in done.err


def test_an_existing_folder_is_not_overwritten(fitted, paths, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("keep")
    with pytest.raises(StorageError, match="must be a new or an empty folder"):
        write_predictions(fitted, paths, tmp_path / "out", SKIP)


ROW = {
    "file": "a b/ü.jpg",
    "label": "coast",
    "probability": 0.75,
    "unsure": False,
    "unfamiliar": True,
    "probabilities": {"coast": 0.75, "forest": 0.25},
    "tags": [{"tag": "sea", "probability": 0.5}],
}
UNCLASSED = {**ROW, "file": "s3://bucket/b.jpg", "label": None, "probability": None, "tags": []}


def test_fiftyone_gets_classes_and_tags_with_confidence():
    files = {name: json.loads(content) for name, content in export_fiftyone([ROW, UNCLASSED])}
    assert files["data.json"] == {
        "00000000": os.path.abspath("a b/ü.jpg"),
        "00000001": "s3://bucket/b.jpg",
    }
    marks = {"unsure": False, "unfamiliar": True}
    first = {"label": "coast", "confidence": 0.75, "attributes": marks}
    assert files["labels.json"] == {"labels": {"00000000": first, "00000001": None}}
    tags = [{"label": "sea", "confidence": 0.5}]
    assert files["tags.json"] == {"labels": {"00000000": tags, "00000001": []}}


def test_label_studio_gets_tasks_with_predictions_and_a_configuration():
    files = dict(export_label_studio([ROW, UNCLASSED], ["coast", "forest & <lake>"], ["sea"]))
    first, second = json.loads(files["tasks.json"])
    path = os.path.abspath("a b/ü.jpg")
    prefix, address = first["data"]["image"].split("?d=")
    assert (prefix, "/" + unquote(address)) == ("/data/local-files/", path)
    assert first["data"]["file_name"] == path
    (prediction,) = first["predictions"]
    assert prediction["score"] == 0.75
    chosen = {each["from_name"]: each["value"]["choices"] for each in prediction["result"]}
    assert chosen == {"label": ["coast"], "tags": ["sea"]}
    assert second["data"]["image"] == "s3://bucket/b.jpg"
    assert "score" not in second["predictions"][0]
    config = ElementTree.fromstring(files["config.xml"])
    image, *controls = config
    assert (image.tag, image.get("name"), image.get("value")) == ("Image", "image", "$image")
    assert [(each.get("name"), each.get("choice")) for each in controls] == [
        ("label", "single"),
        ("tags", "multiple"),
    ]
    assert [each.get("value") for each in controls[0]] == ["coast", "forest & <lake>"]
    # Every name in a prediction is one of the configuration.
    for each in prediction["result"]:
        assert {each["to_name"], each["from_name"]} <= {"image", *(c.get("name") for c in controls)}


def test_several_labels_are_several_choices():
    several = [{"label": "coast", "probability": 0.75}, {"label": "lake", "probability": 0.6}]
    row = {**ROW, "labels": several}
    labels = json.loads(dict(export_fiftyone([row]))["labels.json"])["labels"]["00000000"]
    assert [(each["label"], each["confidence"]) for each in labels] == [
        ("coast", 0.75),
        ("lake", 0.6),
    ]
    files = dict(export_label_studio([row], ["coast", "lake"], []))
    (task,) = json.loads(files["tasks.json"])
    (result,) = task["predictions"][0]["result"]
    assert result["value"]["choices"] == ["coast", "lake"]
    assert ElementTree.fromstring(files["config.xml"])[1].get("choice") == "multiple"


def write_files(folder, files):
    for name, content in files:
        (folder / name).write_bytes(content)


def test_label_studio_finds_no_mistake(tmp_path):
    interface = pytest.importorskip("label_studio_sdk.label_interface", reason="see `nox -s tools`")
    classes = ["coast", "forest & <lake>"]
    write_files(tmp_path, export_label_studio([ROW, UNCLASSED], classes, ["sea"]))
    config = interface.LabelInterface((tmp_path / "config.xml").read_text())
    config.validate()
    for task in json.loads((tmp_path / "tasks.json").read_text()):
        config.validate_task({"data": task["data"]})
        for prediction in task["predictions"]:
            assert config.validate_prediction(prediction, return_errors=True) == []


def test_fiftyone_reads_what_was_predicted(tmp_path, monkeypatch):
    monkeypatch.setenv(
        "FIFTYONE_DISABLE_SERVICES", "1"
    )  # The database, which importers do not need.
    monkeypatch.setenv("FIFTYONE_DO_NOT_TRACK", "1")
    fiftyone = pytest.importorskip("fiftyone", reason="see `nox -s tools`")
    data = pytest.importorskip("fiftyone.utils.data")
    write_files(tmp_path, export_fiftyone([ROW]))
    kind = fiftyone.types.FiftyOneImageClassificationDataset

    def read(labels):
        importer, _ = data.build_dataset_importer(
            kind, dataset_dir=str(tmp_path), data_path="data.json", labels_path=labels
        )
        with importer:
            ((path, _, label),) = importer
        assert path == os.path.abspath(ROW["file"])
        return label

    label = read("labels.json")
    assert (label.label, label.confidence) == ("coast", 0.75)
    assert (label["unsure"], label["unfamiliar"]) == (False, True)
    tags = read("tags.json").classifications
    assert [(each.label, each.confidence) for each in tags] == [("sea", 0.5)]


@pytest.mark.parametrize(
    ("format", "names"),
    [
        ("fiftyone", {"data.json", "labels.json", "tags.json"}),
        ("label-studio", {"tasks.json", "config.xml"}),
    ],
)
def test_the_command_writes_the_files_beside_json_lines(format, names, tmp_path):
    photos, model, out = draw(tmp_path / "photos", 1), tmp_path / "scenes", tmp_path / "out"
    (photos / "broken.jpg").write_bytes(b"broken")
    small_model().save(model)
    done = supdocnade("predict", model, photos, "-o", out, "--format", format)
    assert done.code == 1  # One photograph cannot be read, and is left out.
    assert {path.name for path in out.iterdir()} == {*names, "manifest.json", "part-00000.jsonl"}
    if format == "fiftyone":
        assert len(json.loads((out / "data.json").read_text())) == len(CLASSES)
    else:
        assert len(json.loads((out / "tasks.json").read_text())) == len(CLASSES)


EXPORTS = {
    # What Label Studio 1.23 writes for the same annotations, without columns that are not read.
    "JSON-MIN.json": """[
{"file_name": "\\/a ü.jpg", "label": "coast", "tags": "sea", "updated_at": "2026-11-18T04:12:14Z"},
{"file_name": "\\/b.jpg", "tags": {"choices": ["a", "sun"]}, "updated_at": "2026-11-18T04:12:15Z"},
{"file_name": "\\/c.jpg", "label": "lake", "updated_at": "2026-11-18T04:12:17Z"},
{"file_name": "\\/c.jpg", "label": "coast", "updated_at": "2026-11-18T04:12:16Z"},
{"file_name": "\\/d.jpg", "updated_at": "2026-11-18T04:12:18Z"}
]""",
    "CSV.csv": """"file_name","id","label","tags","updated_at"
"/a ü.jpg",1,"coast","sea","2026-11-18T04:12:14Z"
"/b.jpg",2,"","{""choices"":[""a"",""sun""]}","2026-11-18T04:12:15Z"
"/c.jpg",3,"lake","","2026-11-18T04:12:17Z"
"/c.jpg",3,"coast","","2026-11-18T04:12:16Z"
"/d.jpg",4,"","","2026-11-18T04:12:18Z"
""",
}


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_of_label_studio_is_a_file_of_corrections(name, tmp_path):
    file = tmp_path / name
    file.write_text(EXPORTS[name])
    assert list(read_corrections(file).values()) == [
        Correction("/a ü.jpg", None, "coast", ("sea",)),
        Correction("/b.jpg", None, None, ("a", "sun")),
        Correction("/c.jpg", None, "lake", None),  # The last annotation, which comes first.
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be JSON"),
        ("{}", "must be a list of objects"),
        ("[1]", "line 1: expected an object"),
        ('[{"id": 1, "data": {}, "annotations": []}]', "choose JSON-MIN instead"),
    ],
)
def test_other_json_is_refused(text, message, tmp_path):
    file = tmp_path / "export.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_corrections(file)
