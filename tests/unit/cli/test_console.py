import csv
import io
import json
import sys
import warnings
from dataclasses import replace

import pytest
from tests.scene_model import small_model

from supdocnade.cli import console
from supdocnade.cli.console import (
    CSV_HEADER,
    ProgressBars,
    format_csv,
    format_held_out,
    format_json,
    format_text,
)
from supdocnade.scene.held_out import HeldOut
from supdocnade.scene.prediction import Prediction


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "quiet", "visible"),
    [
        (Terminal, False, True),
        (Terminal, True, False),
        (io.StringIO, True, False),
    ],
)
def test_bars_are_drawn_only_on_terminals(monkeypatch, stream, quiet, visible):
    err = stream()
    monkeypatch.setattr(sys, "stderr", err)
    with ProgressBars(quiet=quiet) as progress:
        progress("reading", 1, 2)
        progress("reading", 2, 2)
    assert ("reading" in err.getvalue()) is visible
    assert ("2/2" in err.getvalue()) is visible


@pytest.mark.parametrize("over", [False, True])
def test_a_bar_of_unknown_length(monkeypatch, over):
    err = Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    with ProgressBars() as progress:
        progress("predicting", 7, None)
        if over:
            progress("predicting", 7, 7)
    assert ("7/7" in err.getvalue()) is over
    assert ("7/?" in err.getvalue()) is not over


@pytest.mark.parametrize("stage_lines", [True, False])
def test_without_a_terminal_lines_show_stages_and_minutes(monkeypatch, capsys, stage_lines):
    now = [100.0]
    monkeypatch.setattr(console.time, "perf_counter", lambda: now[0])
    with ProgressBars(stage_lines=stage_lines) as progress:
        for at, stage, done, total in (
            (105, "words", 1, 300),
            (130, "words", 50, 300),
            (165, "words", 100, 300),
            (170, "words", 110, 300),
            (200, "learning", 0, None),
            (261, "learning", 7, None),
            (262, "words", 111, 300),  # A stage that goes on is not named again.
        ):
            now[0] = at
            progress(stage, done, total)
    stages = ["[0:00:05] words (300)", "[0:01:40] learning"]
    minutes = ["[0:01:05] words: 100 of 300, 0:02:10 left", "[0:02:41] learning: 7"]
    shown = capsys.readouterr().err.splitlines()
    assert shown == (sorted(stages + minutes) if stage_lines else minutes)


def test_stages_add_up_to_the_whole_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(console.time, "perf_counter", lambda: now[0])
    with ProgressBars() as progress:
        for at, stage in ((1, "words"), (2, "words"), (5, "learning"), (6, "words")):
            now[0] = at
            progress(stage, 0, 1)
        now[0] = 8
    assert progress.seconds == {"words": 5 + 2, "learning": 1}


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
    assert format_text(prediction()) == "a.jpg: coast 93 %; sea 90 %, sky 60 %"
    assert format_text(prediction(unsure=True), 1) == "a.jpg: coast 93 % (unsure); sea 90 %"
    unlike = prediction(unfamiliar=True)
    expected = "a.jpg: coast 93 %; unlike the training photographs; sea 90 %"
    assert format_text(unlike, 1) == expected
    assert json.loads(format_json(unlike))["unfamiliar"] is True
    assert format_csv(unlike).endswith(",true")


def test_without_classes_or_tags():
    bare = prediction(label=None, probability=None, probabilities={}, tags=(), ranked_tags=())
    assert format_text(bare) == "a.jpg: no tags"
    assert json.loads(format_json(bare))["label"] is None
    assert format_csv(bare) == "a.jpg,,,false,,,false"


def test_json_is_one_line_of_ascii():
    line = format_json(prediction(name="ä\n\udcff.jpg"))
    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line)["file"] == "ä\n\udcff.jpg"
    assert json.loads(line)["tags"][0] == {"tag": "sea", "probability": 0.9}


@pytest.mark.parametrize("name", ["a,b.jpg", 'a"b.jpg', "a\nb.jpg", "a b.jpg"])
def test_csv_round_trip(name):
    text = f"{CSV_HEADER}\n{format_csv(prediction(name=name))}\n"
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["file"] == name
    assert row["tags"] == "sea|sky"
    assert float(row["probability"]) == 0.934


def test_text_has_no_line_breaks_or_control_characters():
    odd = prediction(name="a\nb.jpg", label="\x1b[31mcoast")
    assert format_text(odd, 1).startswith("a b.jpg: [31mcoast 93 %")


@pytest.mark.parametrize("quiet", [False, True])
def test_warnings_are_printed_as_notes(capsys, quiet):
    with console.print_warnings(quiet=quiet):
        warnings.warn("two\nlines", stacklevel=1)
    assert capsys.readouterr().err == ("" if quiet else "note: two lines\n")


def test_figures_of_few_photographs_are_counts_and_one_class_has_none():
    fitted = small_model().fitted_

    def describe(n_images, classes=("a", "b"), **figures):
        held_out = HeldOut(n_images=n_images, figures=figures)
        return format_held_out(replace(fitted, classes=classes, held_out=held_out))

    assert "too few photographs to test on" in describe(0)
    many = describe(240, accuracy=0.884, n_labelled=240, f_measure=0.57)
    assert "tested on 240 photographs it had not seen: class right for 88.4 %, F-measure" in many
    assert "class right for 2 of 2;" in describe(2, accuracy=1.0, n_labelled=2)
    assert "right for 95.0 % of the 20 with a class;" in describe(21, accuracy=0.95, n_labelled=20)
    assert "right for 2 of 2 with a class;" in describe(3, accuracy=1.0, n_labelled=2)
    assert "right" not in describe(30, ("a",), accuracy=1.0, n_labelled=30)
