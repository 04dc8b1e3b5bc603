"""The Dockerfile: its files exist, it does not run as root, and its commands work here."""

import json
import re
import socket
import subprocess
import sys
from itertools import chain
from pathlib import Path

import httpx2 as httpx
from tests.scene_model import small_model
from tests.serving import PROGRAM

ROOT = Path(__file__).parents[2]


def instructions():
    """Return the instructions with their arguments, in order."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def command_of(name):
    """Return the command of an instruction in its JSON form."""
    (text,) = [arguments for instruction, arguments in instructions() if instruction == name]
    return json.loads(text[text.index("[") :])


def test_it_copies_files_that_exist_and_are_not_ignored():
    copied = [arguments.split()[:-1] for name, arguments in instructions() if name == "COPY"]
    kept = (ROOT / ".dockerignore").read_text().split()
    for name in chain.from_iterable(copied):
        assert (ROOT / name).exists()
        assert f"!{name}" in kept


def test_nothing_runs_as_root():
    names = [name for name, _ in instructions()]
    (user,) = [arguments for name, arguments in instructions() if name == "USER"]
    assert int(user) > 0
    assert f"--uid {user}" in (ROOT / "Dockerfile").read_text()
    assert names.index("USER") > max(number for number, name in enumerate(names) if name == "RUN")


def test_the_server_starts_and_is_healthy(tmp_path, monkeypatch):
    small_model().save(tmp_path / "scenes")
    monkeypatch.setenv("SUPDOCNADE_TOKEN", "secret")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    program, *start = [part.replace("8000", port) for part in command_of("ENTRYPOINT")]
    python, *check = [part.replace("8000", port) for part in command_of("HEALTHCHECK")]
    assert (program, python, command_of("CMD")) == ("supdocnade", "python", ["/models/scenes"])
    unhealthy = subprocess.run([sys.executable, *check], capture_output=True, check=False)
    assert unhealthy.returncode != 0
    server = subprocess.Popen(
        [*PROGRAM, *start, tmp_path / "scenes", "--json"], stdout=subprocess.PIPE
    )
    try:
        assert json.loads(server.stdout.readline())["model"] == "scenes"
        subprocess.run([sys.executable, *check], check=True)
        response = httpx.get(f"http://127.0.0.1:{port}/v1/model")
        assert response.status_code == 401  # Others need the token.
    finally:
        server.terminate()
        assert server.wait() == 0
        server.stdout.close()
