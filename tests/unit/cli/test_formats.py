import csv
import io
import json

import pytest

from supdocnade.cli.formats import CSV_HEADER, csv_line, json_line, text_line
from supdocnade.scene.predictions import Prediction


def prediction(**changes):
    tags = (("sea", 0.9), ("sky", 0.6), ("bird", 0.1))
    given = {
        "name": "a.jpg",
        "label": "coast",
        "probability": 0.934,
        "unsure": False,
        "probabilities": {"coast": 0.934, "street": 0.066},
        "ranked_tags": tags,
        "tags": tags[:2],
    }
    return Prediction(**{**given, **changes})


def test_people_read_class_and_tags():
    assert text_line(prediction()) == "a.jpg: coast 93 %; sea 90 %, sky 60 %"
    assert text_line(prediction(unsure=True), 1) == "a.jpg: coast 93 % (unsure); sea 90 %"


def test_without_classes_or_tags():
    bare = prediction(label=None, probability=None, probabilities={}, tags=(), ranked_tags=())
    assert text_line(bare) == "a.jpg: no tags"
    assert json.loads(json_line(bare))["label"] is None
    assert csv_line(bare) == "a.jpg,,,false,,"


def test_json_is_one_line_of_ascii():
    line = json_line(prediction(name="ä\n\udcff.jpg"))
    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line)["file"] == "ä\n\udcff.jpg"
    assert json.loads(line)["tags"][0] == {"tag": "sea", "probability": 0.9}


def test_as_many_tags_as_asked_for():
    assert len(json.loads(json_line(prediction(), 3))["tags"]) == 3
    assert len(json.loads(json_line(prediction(), 1))["tags"]) == 1


@pytest.mark.parametrize("name", ["a,b.jpg", 'a"b.jpg', "a\nb.jpg", "a b.jpg"])
def test_csv_is_read_back(name):
    text = f"{CSV_HEADER}\n{csv_line(prediction(name=name))}\n"
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["file"] == name
    assert row["tags"] == "sea|sky"
    assert float(row["probability"]) == 0.934


def test_names_for_people_stay_on_their_line_and_do_nothing_to_a_terminal():
    odd = prediction(name="a\nb.jpg", label="\x1b[31mcoast")
    assert text_line(odd, 1).startswith("a b.jpg: [31mcoast 93 %")
