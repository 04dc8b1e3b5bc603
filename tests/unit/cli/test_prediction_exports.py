import json
import os
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from tests.commands import draw, supdocnade
from tests.scene_model import CLASSES, small_model

from supdocnade.cli.prediction_exports import export_fiftyone, export_label_studio
from supdocnade.scene.corrections import Correction, read_corrections

ROW = {
    "file": "a b/ü.jpg",
    "label": "coast",
    "probability": 0.75,
    "unsure": False,
    "unfamiliar": True,
    "small": False,
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
    marks = {"unsure": False, "unfamiliar": True, "small": False}
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


def test_an_export_of_label_studio_is_a_file_of_corrections(tmp_path):
    file = tmp_path / "export.json"
    rows = [
        {"id": 1, "image": "x", "file_name": "/a.jpg", "label": "coast", "tags": "sea"},
        {"id": 2, "file_name": "/b.jpg", "label": "lake", "tags": {"choices": ["sea", "sky"]}},
        {"id": 3, "file_name": "/c.jpg", "annotator": 1},
    ]
    file.write_text(json.dumps(rows))
    assert list(read_corrections(file).values()) == [
        Correction("/a.jpg", None, "coast", ("sea",)),
        Correction("/b.jpg", None, "lake", ("sea", "sky")),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be JSON"),
        ("{}", "must be a list of objects"),
        ("[1]", "line 1: expected an object"),
    ],
)
def test_other_json_is_refused(text, message, tmp_path):
    file = tmp_path / "export.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_corrections(file)
