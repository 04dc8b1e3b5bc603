import io
import sys
import warnings

import pytest

from supdocnade.cli import console
from supdocnade.cli.console import ProgressBars


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
    assert (" took " in err.getvalue()) is visible


def test_a_narrow_terminal_shows_counts_and_times_without_a_bar(monkeypatch):
    err = Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setenv("COLUMNS", "40")
    with ProgressBars() as progress:
        progress("reading photographs", 400, 400)
    assert "400/400" in err.getvalue()
    assert "took " in err.getvalue()
    assert "…" not in err.getvalue()
    assert "━" not in err.getvalue()


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
            (105, "words", 1, 3000),
            (130, "words", 500, 3000),
            (165, "words", 1000, 3000),
            (170, "words", 1100, 3000),
            (200, "learning", 0, None),
            (261, "learning", 7, None),
            (262, "words", 1110, 3000),  # A stage that goes on is not named again.
        ):
            now[0] = at
            progress(stage, done, total)
    stages = ["[0:00:05] words (3,000)", "[0:01:40] learning"]
    minutes = ["[0:01:05] words: 1,000 of 3,000, 0:02:10 left", "[0:02:41] learning: 7"]
    shown = capsys.readouterr().err.splitlines()
    assert shown == (sorted(stages + minutes) if stage_lines else minutes)


@pytest.mark.parametrize("quiet", [False, True])
def test_warnings_are_printed_as_notes(capsys, quiet):
    with console.print_warnings(quiet=quiet):
        warnings.warn("two\nlines", stacklevel=1)
    assert capsys.readouterr().err == ("" if quiet else "note: two lines\n")
