"""The loop of suggestions, corrections and a better model, through the command line."""

import csv
import io
import json

import pytest
from tests.commands import SMALL, draw, supdocnade
from tests.serving import run_server

from supdocnade import SceneModel


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    done = supdocnade("train", draw(folder / "photos"), "-o", folder / "scenes", *SMALL)
    assert done.code == 0, done.err
    return folder / "scenes"


@pytest.fixture
def archive(tmp_path):
    """Photographs of a class that the model does not know, and of one that it does."""
    return draw(tmp_path / "archive", 4, seed=7, classes=("street", "coast"))


def test_suggested_photographs_are_labelled_in_a_table(model, archive, tmp_path):
    (archive / "broken.jpg").write_bytes(b"broken")
    done = supdocnade("suggest", model, archive, "-n", "4", "--csv")
    assert done.code == 1
    assert "error: " in done.err
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert len(rows) == 4
    assert all(row["label"] == row["tags"] == "" for row in rows)
    assert {row["predicted_label"] for row in rows} <= {"coast", "forest", "skyline"}
    rows[0] |= {"label": "street", "tags": "car|house"}
    rows[1] |= {"label": "street"}
    table = tmp_path / "labels.csv"
    with open(table, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    (archive / "broken.jpg").unlink()
    better = tmp_path / "better"
    options = ("--add", model, "--corrections", table, "-o", better)
    done = supdocnade("train", archive, *options)
    assert done.code == 0, done.err
    assert "note: corrected: 2 photographs." in done.err
    learned = SceneModel.load(better).fitted_.training_set.photographs
    found = dict(zip(learned.names, zip(learned.labels, learned.tags, strict=True), strict=True))
    assert len(learned) == 18 + 2  # Photographs that nobody has labelled are not learned.
    assert found[rows[0]["file_name"]] == ("street", ["car", "house"])
    assert found[rows[1]["file_name"]][0] == "street"
    again = supdocnade("suggest", better, archive, "-n", "9", "--json").objects
    assert len(again) == 8 - 2
    assert {each["file"] for each in again}.isdisjoint(row["file_name"] for row in rows[:2])


def test_corrections_of_the_server_reach_the_next_model(model, archive, tmp_path):
    uploaded, kept = archive / "street" / "street_0002.jpg", tmp_path / "kept.jsonl"
    with run_server(model, "--corrections", kept) as (process, client):
        files = {"images": ("renamed.jpg", uploaded.read_bytes())}
        (predicted,) = client.post("/v1/predict", files=files).json()["predictions"]
        sent = {"key": predicted["key"], "file": "renamed.jpg", "label": "street", "tags": []}
        assert client.post("/v1/corrections", json=sent).status_code == 200
        process.terminate()
        assert process.wait() == 0
    assert len(kept.read_text().splitlines()) == 1
    done = supdocnade(
        *("train", archive, "--add", model, "--corrections", kept, "-o", tmp_path / "new"),
        "--json",
    )
    assert done.code == 0, done.err
    assert done.objects[0]["data"]["images_of_class"]["street"] == 1
    assert SceneModel.load(tmp_path / "new").fitted_.training_set.photographs.names[-1] == str(
        uploaded
    )


def test_errors_are_sentences(model, archive, tmp_path):
    table = tmp_path / "labels.jsonl"
    table.write_text(json.dumps({"file_name": "elsewhere.jpg", "label": "coast"}) + "\n")
    target = ("-o", tmp_path / "x", "--corrections", table)
    assert "--corrections needs --add" in supdocnade("train", archive, *target).err
    done = supdocnade("train", archive, *target, "--add", model)
    assert (done.code, done.err) == (
        1,
        f"error: {table} must give a class or tags to photographs of {archive}, "
        "got none of them.\n",
    )
    learned = supdocnade("suggest", model, model.parent / "photos")
    assert (learned.code, learned.out) == (0, "")
    note = "note: the model has learned from all of the 18 photographs.\n"
    assert learned.err == note
    damaged = tmp_path / "damaged.jpg"
    damaged.write_text("not a photograph")
    partly = supdocnade("suggest", model, model.parent / "photos", damaged)
    assert (partly.code, partly.out, partly.err.count("\n")) == (1, "", 2)
    assert partly.err.endswith(note)
    assert "learned" not in supdocnade("suggest", model, damaged).err
