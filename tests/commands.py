"""Commands run inside this process, and small photographs for them."""

import io
import json
import re
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.scene_model import first_scene

from supdocnade.cli.console import ProgressBars
from supdocnade.cli.demo import write_scenes
from supdocnade.cli.main import COMMANDS, run
from supdocnade.scene.persistence import SCENE
from supdocnade.schema import load_arrays

HELP = Path(__file__).parent / "golden" / "help.txt"
"""The help of the program and of every command."""

MAX_SIDE = 128
CLASSES = ("coast", "forest", "skyline")
SMALL = (
    *("--features", "sift", "--topics", "8", "--words", "20", "--set", "max_epochs=6"),
    *("--set", "learning_rate=0.003", "--set", "min_tag_count=2"),
)

_PROGRESS = re.compile(r"(?:\[\d+:\d\d:\d\d\]|features:) .*\n")


class Done(NamedTuple):
    """Exit code and output of a command; lines about features and progress are apart."""

    code: int
    out: str
    err: str
    progress: str = ""

    @property
    def objects(self):
        return [json.loads(line) for line in self.out.splitlines()]


def supdocnade(*arguments) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run([str(argument) for argument in arguments])
    shown = err.getvalue()
    progress = "".join(_PROGRESS.findall(shown))
    return Done(code, out.getvalue(), _PROGRESS.sub("", shown), progress)


def draw(folder, n_per_class=6, seed=0, classes=CLASSES):
    first = first_scene(seed)
    write_scenes(folder, n_per_class, first=first, classes=classes, max_side=MAX_SIDE)
    return folder


def learned(model):
    """Return everything in a saved model that a seed determines."""
    arrays, description = load_arrays(model / SCENE)
    found = {name: (array.shape, array.tobytes()) for name, array in arrays.items()}
    return found, description


def help_texts():
    """Return the help of the program and of every command."""
    commands = ((), *((each.command_name(),) for each in COMMANDS))
    return "\n".join(supdocnade(*command, "--help").out for command in commands)


@contextmanager
def stopped_while(stage):
    """Press Ctrl-C when a stage begins."""
    report = ProgressBars.__call__

    def stop(self, name, done, total):
        report(self, name, done, total)
        if name == stage:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ProgressBars, "__call__", stop)
        yield


if __name__ == "__main__":
    HELP.write_text(help_texts())
