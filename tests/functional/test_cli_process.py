"""The program as a process: Ctrl-C and resuming, terminals and pipes."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from tests.commands import SMALL, draw, learned, supdocnade

from supdocnade.cli.console import ProgressBars
from supdocnade.gallery.photo_index import Gallery
from supdocnade.scene.model import SceneModel

PROGRAM = (sys.executable, "-m", "supdocnade")
SLOW_PROGRAM = (
    *(sys.executable, "-c"),
    """
import time
from supdocnade.cli.main import main
from supdocnade.images.decoder import DecodingProcess

def run(process, work, read=DecodingProcess.run):
    time.sleep(0.1)
    return read(process, work)

DecodingProcess.run = run
main()
""",
)
"""Every photograph takes a tenth of a second."""
BUSY_PROGRAM = (
    *SLOW_PROGRAM[:2],
    """
import torch
from PIL.ImageFile import ImageFile
from supdocnade.cli.main import main

square = torch.ones(500, 500)

def load(image, read=ImageFile.load):
    for _ in range(100):
        torch.mm(square, square)
    return read(image)

ImageFile.load = load
main()
""",
)
"""Threads are within a library in C++ most of the time, as with a pretrained network."""
STUCK_PROGRAM = (
    *SLOW_PROGRAM[:2],
    """
import time
from supdocnade.cli.main import main
from supdocnade.images.decoder import DecodingProcess

def run(process, work):
    while True:
        try:
            time.sleep(1000)
        except KeyboardInterrupt:
            pass

DecodingProcess.run = run
main()
""",
)
"""Photographs are never read, and the threads that read them cannot be ended."""


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("data") / "photos", 5, classes=("coast", "forest"))


@pytest.fixture(scope="module")
def model(photos, tmp_path_factory):
    model = tmp_path_factory.mktemp("models") / "scenes"
    assert supdocnade("train", photos, "-o", model, *SMALL).code == 0
    return model


def start(*arguments, program=PROGRAM, **options):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    # Tests that run in the background of a script inherit that Ctrl-C is ignored.
    return subprocess.Popen(
        [*program, *map(str, arguments)],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **pipes,
    )


@pytest.mark.parametrize(
    "program",
    [
        "signal.raise_signal(signal.SIGINT)",
        # In a callback, whose exceptions are ignored, as those of the import system are.
        "reference = weakref.ref(set(), lambda _: signal.raise_signal(signal.SIGINT))",
    ],
)
def test_interrupting_an_import_ends_the_program_with_one_line(program, tmp_path):
    (tmp_path / "typer.py").write_text(f"import signal, weakref\n{program}\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [*PROGRAM, "--version"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped\n")


@pytest.mark.parametrize(
    ("code", "program"),
    [
        # Ctrl-C while a dataclass is made.
        (130, "try: exec('raise KeyboardInterrupt')\nexcept BaseException: end_process(STOPPED)"),
        # Ctrl-C after a command is done.
        (0, "atexit.register(signal.raise_signal, signal.SIGINT)\nend_process(0)"),
    ],
)
def test_pythons_own_end_does_not_change_the_exit_code(tmp_path, code, program):
    imports = "import atexit, signal\nfrom supdocnade.cli.stopping import STOPPED, end_process\n"
    (tmp_path / "ending.py").write_text(imports + program)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-m", "ending"]
    done = subprocess.run(command, env=environment, check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (code, b"")


@pytest.mark.parametrize("then", ["raise ImportError from error", "return 1"])
def test_an_error_that_a_library_makes_of_ctrl_c_is_not_reported(then):
    program = f"""
import signal
import sys
import typer.main
from supdocnade.cli.main import main

class Command:
    def main(self, *_, **__):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            sys.excepthook(type(error), error, error.__traceback__)  # As PyErr_Print does in C.
            {then}

typer.main.get_command = lambda app: Command()
main()
"""
    done = subprocess.run([sys.executable, "-c", program, "info"], check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (130, b"stopped\n")


def test_ctrl_c_prints_how_to_resume(photos, model, tmp_path):
    output = tmp_path / "m"
    endless = [*SMALL, "--set", "max_epochs=100000"]
    terminal, end = pty.openpty()
    process = start("train", photos, "-o", output, *endless, stderr=end)
    os.close(end)
    shown = b""
    # Checkpoints are written from the first stage of learning on.
    while b"learning " not in shown.replace(b"learning words", b""):
        shown += os.read(terminal, 4096)
    while not list(output.parent.glob("m.partial/checkpoint/*/*.safetensors")):
        shown += os.read(terminal, 4096)
    process.send_signal(signal.SIGINT)
    while chunk := _read(terminal):
        shown += chunk
    os.close(terminal)
    assert process.wait() == 130
    assert process.stdout.read() == b""
    process.stdout.close()
    last = shown.decode().splitlines()[-1]
    assert last.endswith(f"stopped; resume with: supdocnade train {photos} -o {output} --resume")
    assert not output.exists()


def press_ctrl_c(process, stage, seconds):
    """Press Ctrl-C some seconds after a stage began; return the last line on stderr."""
    line = process.stderr.readline()
    while stage not in line:
        assert line, "the process ended"
        line = process.stderr.readline()
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    pressed = time.monotonic()
    _, err = process.communicate(timeout=100)
    assert time.monotonic() - pressed < 5  # Two seconds if nothing else is running.
    assert process.returncode == 130
    return (line + err).splitlines()[-1].decode()


def test_ctrl_c_ends_training_while_photographs_are_read(photos, tmp_path):
    command = ["train", photos, "-o", tmp_path / "m", *SMALL, "--jobs", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    last = press_ctrl_c(start(*command, program=BUSY_PROGRAM, env=environment), b"checking", 0.3)
    assert last.startswith("stopped; resume with: supdocnade train")


def test_ctrl_c_ends_a_command_whatever_its_threads_do(photos, model, tmp_path):
    command = ["index", model, photos, "-o", tmp_path / "index", "--jobs", 2]
    process = start(*command, program=STUCK_PROGRAM)
    while not (tmp_path / "index").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    pressed = time.monotonic()
    _, err = process.communicate(timeout=100)
    assert time.monotonic() - pressed < 5
    assert process.returncode == 130
    assert err.splitlines()[-1] == b"stopped; the same command continues"


def test_photographs_that_were_read_before_ctrl_c_stay_in_an_index(photos, model, tmp_path):
    output = tmp_path / "index"
    command = ["index", model, photos, "-o", output, "--jobs", "1"]
    last = press_ctrl_c(start(*command, program=SLOW_PROGRAM), b"reading", 0.6)
    assert last == "stopped; the same command continues"
    fitted = SceneModel.load(model).fitted_
    n_kept = len(Gallery.load(output, fitted))
    assert 0 < n_kept < 10
    done = supdocnade(*command, "--json")
    assert (done.code, done.objects[0]["n_images"]) == (0, 10)


def test_results_on_stdout_and_progress_on_stderr(photos, model):
    terminal, end = pty.openpty()
    process = start("predict", model, photos, "--json", stderr=end)
    os.close(end)
    shown = b""
    while chunk := _read(terminal):
        shown += chunk
    os.close(terminal)
    out, _ = process.communicate()
    assert process.returncode == 0
    assert len([json.loads(line) for line in out.splitlines()]) == 10
    assert b"predicting" in shown
    assert b"10/10" in shown
    assert b"probability" not in shown


def _read(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # The other end is closed.
        return b""


@pytest.mark.parametrize("stage", ["reading photographs", "learning", "learning from all"])
def test_a_resumed_run_gives_the_same_model(photos, model, tmp_path, monkeypatch, stage):
    output = tmp_path / "m"
    report = ProgressBars.__call__

    def stop(self, name, done, total):
        report(self, name, done, total)
        if name == stage and done > total / 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ProgressBars, "__call__", stop)
        done = supdocnade("train", photos, "-o", output, *SMALL)
    assert done.code == 130
    assert done.err == f"stopped; resume with: supdocnade train {photos} -o {output} --resume\n"
    assert not output.exists()
    refused = supdocnade("train", photos, "-o", output, *SMALL)
    assert refused.code == 1
    assert "--resume" in refused.err
    assert refused.err.endswith("continue it with --resume, or remove it.\n")
    assert supdocnade("train", photos, "-o", output, "--resume").code == 0
    assert learned(output) == learned(model)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_resume_refuses_other_settings(photos, model, tmp_path, monkeypatch):
    output = tmp_path / "m"
    nothing = supdocnade("train", photos, "-o", output, "--resume")
    assert nothing.code == 1
    assert "no run to resume" in nothing.err

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ProgressBars, "__call__", stop)
        assert supdocnade("train", photos, "-o", output, *SMALL).code == 130
    other = supdocnade("train", photos, "-o", output, "--resume", "--words", "21")
    assert other.code == 1
    assert "--words must be as in the run to resume, 20, got 21" in other.err
    added = supdocnade("train", photos, "-o", output, "--resume", "--add", model)
    assert added.code == 1
    assert "--add must be as in the run to resume, where it was not given" in added.err
    elsewhere = supdocnade("train", photos / "coast", "-o", output, "--resume")
    assert "learns from" in elsewhere.err


def test_stdout_closed_early(photos, model):
    process = start("predict", model, photos)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 1


def test_exit_codes_of_the_process():
    for arguments, code in ((["nope"], 2), (["demo", "--device", "cuda"], 1), (["--version"], 0)):
        process = start(*arguments)
        _, err = process.communicate()
        assert process.returncode == code
        assert err.count(b"\n") == (code > 0)
