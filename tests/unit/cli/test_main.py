import subprocess
import sys

import pytest
from tests.commands import HELP, help_texts, supdocnade
from typer.main import get_command

from supdocnade import __version__
from supdocnade.cli.main import app
from supdocnade.errors import StorageError

READ = "supdocnade.cli.about_model.load_scene"


def test_help_is_as_recorded():
    """After a change of commands, write the file again: `python -m tests.commands`."""
    assert help_texts().split() == HELP.read_text().split()


@pytest.mark.parametrize(
    ("command", "most"),
    [("train", 18), ("predict", 12), ("serve", 12), ("topics", 12), ("features", 8)],
)
def test_commands_have_few_options(command, most):
    parameters = get_command(app).commands[command].params
    n_options = sum(each.param_type_name == "option" for each in parameters)
    assert n_options + 1 <= most  # With --help.


def test_without_a_command_there_is_help():
    bare = supdocnade()
    assert (bare.code, bare.out) == (2, supdocnade("--help").out)
    for asked in ("--version", "-V", "version"):
        assert supdocnade(asked).out == f"supdocnade {__version__}\n"
    assert supdocnade("help").out == supdocnade("--help").out
    assert supdocnade("help", "train").out == supdocnade("train", "--help").out


@pytest.mark.parametrize(
    "arguments",
    [
        ["nope"],
        ["train"],
        ["train", "photos", "-o", "m", "--topics", "many"],
        ["predict", "model"],
        ["predict", "model", "a.jpg", "--json", "--csv"],
        ["predict", "model", "a.jpg", "--dry-run"],
        ["train", "photos", "-o", "m", "--set", "n_topic=9"],
        ["train", "photos", "-o", "m", "--set", "mirror"],
        ["topics", "texts", "-o", "m", "--set", "labels=maybe"],
        ["topics", "texts", "-o", "m", "--set", "held_out=2"],
        ["serve", "m", "--set", "max_images=0"],
        ["predict", "model", "photos", "-o", "out.csv"],
        ["explain", "model", "a.jpg", "--label", "a", "--tag", "b"],
        ["features", "--set", "side=224"],
        ["features", "--import", "none.onnx"],
        ["demo", "--jobs", "0"],
    ],
)
def test_invalid_command_line_is_one_line_and_code_2(arguments):
    done = supdocnade(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (StorageError("a\nfile is\n damaged."), "error: a file is damaged.\n"),
        (OSError(28, "No space left on device"), "error: No space left on device.\n"),
        (OSError(13, "Permission denied", "x"), "error: x: Permission denied.\n"),
        (MemoryError(), "error: there is not enough memory for this.\n"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
            "error: there is not enough memory for this.\n",
        ),
        (
            RuntimeError("oh"),
            "error: RuntimeError: oh (a bug in supdocnade; --debug shows the traceback)\n",
        ),
    ],
)
def test_errors_are_one_line_unless_debugging(monkeypatch, error, line):
    def fail(*_):
        raise error

    monkeypatch.setattr(READ, fail)
    done = supdocnade("info", "model")
    assert (done.code, done.out, done.err) == (1, "", line)
    with pytest.raises(type(error)):
        supdocnade("info", "model", "--debug")


def test_ctrl_c_is_code_130(monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(READ, stop)
    assert supdocnade("info", "model").code == 130


def test_main_exits_with_the_code_and_prints_warnings():
    code = """
import warnings
from supdocnade.cli import main as program

program.run = lambda arguments: warnings.warn("a\\nb") or 3
program.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "note: a b\n")
