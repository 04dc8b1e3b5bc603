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
    ("line", "message"),
    [
        ("nope", "no such command 'nope'"),
        ("train", "missing argument 'PHOTOS'"),
        ("train photos -o m --topics many", "--topics must be a whole number"),
        ("train photos -o m --set n_topic=9", "--set n_topic: there is no such setting; there are"),
        ("train photos -o m --set grids=1", "there is no such setting; did you mean grid?"),
        ("train photos -o m --set mirror", "--set must be NAME=VALUE, got 'mirror'"),
        ("predict", "missing argument 'MODEL'"),
        ("predict m", "missing argument 'IMAGE'"),
        ("predict m a.jpg --json --csv", "--json and --csv must not both be given"),
        ("suggest m photos --json --csv", "--json and --csv must not both be given"),
        ("predict m a.jpg --dry-run", "no such option: --dry-run"),
        (
            "predict m photos -o out.csv",
            "--output is a folder, got out.csv; --csv and --json print",
        ),
        ("predict m photos -o out --csv", "--csv must not be given with --output"),
        ("tag", "give MODEL and photographs, or --undo"),
        ("tag m", "give MODEL and photographs, or --undo"),
        ("tag m --undo r", "--undo takes no photographs"),
        ("tag --json --undo r", "no option but --dry-run"),
        ("topics texts", "give either --output or --predict"),
        ("topics texts -o m --set labels=maybe", "--set labels must be true or false, got maybe"),
        ("topics texts -o m --set held_out=2", "must be a finite number at least 0 and at most"),
        ("serve m --set max_images=0", "--set max_images must be a whole number of at least 1"),
        ("serve m --set max_megapixels=1e9", "--set max_megapixels must be a finite number at"),
        ("serve m --port 70000", "--port must be at most 65535"),
        ("explain m a.jpg --label a --tag b", "--label and --tag must not both be given"),
        ("card m --strip", "--strip needs --output"),
        ("features --import none.onnx", "--import: file 'none.onnx' does not exist"),
        ("demo --jobs 0", "--jobs must not be 0"),
    ],
)
def test_invalid_command_line_is_one_line_and_code_2(line, message):
    done = supdocnade(*line.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert message in done.err
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
