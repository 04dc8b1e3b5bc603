import csv
import io

import pytest
from tests.commands import draw, supdocnade
from tests.scene_model import small_model

from supdocnade.cli.predict import (
    CSV_HEADER,
    format_csv,
    format_text,
    terminal_format,
    write_predictions,
)
from supdocnade.errors import StorageError
from supdocnade.runs import RunOptions
from supdocnade.scene.prediction import Prediction

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


def test_files_have_the_lines_of_the_command(photos, paths, tmp_path, monkeypatch):
    monkeypatch.setattr("supdocnade.unfinished.PART_SIZE", 4)
    model = tmp_path / "scenes"
    small_model().save(model)
    printed = supdocnade("predict", model, photos, "--json", "--top", "2")
    done = supdocnade("predict", model, photos, "-o", tmp_path / "out", "--top", "2")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"predictions of 9 photographs written to {tmp_path / 'out'}\n"
    texts = [path.read_text() for path in sorted((tmp_path / "out").iterdir())]
    assert [text.count("\n") for text in texts] == [4, 4, 1]
    assert "".join(texts) == printed.out
    assert not (tmp_path / "out.partial").exists()


def test_an_existing_folder_is_not_overwritten(fitted, paths, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("keep")
    with pytest.raises(StorageError, match="must be a new or an empty folder"):
        write_predictions(fitted, paths, tmp_path / "out", SKIP)


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


def test_text_has_class_and_tags():
    assert format_text(prediction().to_dict()) == "a.jpg: coast 93 %; sea 90 %, sky 60 %"
    assert format_text(prediction(unsure=True).to_dict(1)) == "a.jpg: coast 93 % (unsure); sea 90 %"
    unlike = prediction(unfamiliar=True)
    expected = "a.jpg: coast 93 %; unlike the training photographs; sea 90 %"
    assert format_text(unlike.to_dict(1)) == expected
    assert format_csv(unlike.to_dict()).endswith(",true")


def test_a_terminal_gets_columns():
    names = ["x/a/1.jpg", "x/a/東京.jpg"]
    folder, format_columns = terminal_format(names, ("coast", "opencountry"), 48)
    assert folder == "x/a/"
    rows = [
        format_columns(prediction(name=names[0], label="opencountry").to_dict()),
        format_columns(prediction(name=names[1], unsure=True).to_dict()),
        format_columns(prediction(name=names[0], tags=(("tag" * 30, 0.9),)).to_dict()),
        format_columns(prediction(name="x/a/of the year 2019/1.jpg", tags=()).to_dict()),
    ]
    assert "\n".join(rows).splitlines() == [
        "1.jpg     opencountry  93 %  sea 90 %, sky 60 %",
        "東京.jpg  coast        93 %  (unsure)  sea 90 %,",
        "                             sky 60 %",
        "1.jpg     coast        93 %",
        "                             " + "tag" * 30 + " 90 %",
        "…9/1.jpg  coast        93 %",
    ]
    assert terminal_format(["x/a.jpg"], (), 60)[0] == ""
    assert terminal_format([], (), 60)[0] == ""


def test_without_classes_or_tags():
    bare = prediction(label=None, probability=None, probabilities={}, tags=(), ranked_tags=())
    assert format_text(bare.to_dict()) == "a.jpg: no tags"
    assert format_csv(bare.to_dict()) == "a.jpg,,,false,,,false"
    assert format_text(prediction(tags=()).to_dict()) == "a.jpg: coast 93 %"


@pytest.mark.parametrize("name", ["a,b.jpg", 'a"b.jpg', "a\nb.jpg", "a b.jpg"])
def test_csv_round_trip(name):
    text = f"{CSV_HEADER}\n{format_csv(prediction(name=name).to_dict())}\n"
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["file"] == name
    assert row["tags"] == "sea|sky"
    assert float(row["probability"]) == 0.934


def test_text_has_no_line_breaks_or_control_characters():
    odd = prediction(name="a\nb.jpg", label="\x1b[31mcoast")
    assert format_text(odd.to_dict(1)).startswith("a b.jpg: [31mcoast 93 %")
