import io
import sys

import pytest

from supdocnade.cli import console
from supdocnade.cli.console import Stages


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "quiet", "shown"),
    [
        (Terminal, False, True),
        (Terminal, True, False),
        (io.StringIO, False, False),
    ],
)
def test_bars_are_for_terminals(monkeypatch, stream, quiet, shown):
    err = stream()
    monkeypatch.setattr(sys, "stderr", err)
    with Stages(quiet=quiet) as stages:
        stages("reading", 1, 2)
        stages("reading", 2, 2)
    assert ("reading" in err.getvalue()) is shown
    assert ("2/2" in err.getvalue()) is shown


@pytest.mark.parametrize("over", [False, True])
def test_a_bar_of_unknown_length_does_not_pretend_to_know_it(monkeypatch, over):
    err = Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    with Stages() as stages:
        stages("predicting", 7, None)
        if over:
            stages("predicting", 7, 7)
    assert ("7/7" in err.getvalue()) is over
    assert ("7/?" in err.getvalue()) is not over


def test_stages_add_up_to_the_whole_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(console.time, "perf_counter", lambda: now[0])
    with Stages() as stages:
        for at, stage in ((1, "words"), (2, "words"), (5, "learning"), (6, "words")):
            now[0] = at
            stages(stage, 0, 1)
        now[0] = 8
    assert stages.seconds == {"words": 5 + 2, "learning": 1}
