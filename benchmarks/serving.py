"""A model of the usual size, multipart requests and a server process for benchmarks."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from supdocnade import SceneModel
from supdocnade.scene.model import scene_model

TICKS = os.sysconf("SC_CLK_TCK")
BOUNDARY = "supdocnade-boundary"
MEDIA_TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def product_model(paths: list[Path]) -> SceneModel:
    """Return a model as large as one of LabelMe: 500 words, 200 topics, 8 classes, 200 tags."""
    model = scene_model(n_jobs=1, max_epochs=1, held_out=0, min_tag_count=1, random_state=0)
    labels = [f"class {number % 8}" for number in range(len(paths))]
    tags = [[f"tag {4 * number + extra}" for extra in range(4)] for number in range(len(paths))]
    return model.fit(paths, labels, tags)


def multipart(contents: list[bytes]) -> bytes:
    """Return the body of a multipart request."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="images"; filename="{n}.jpg"\r\n'
        "Content-Type: image/jpeg\r\n\r\n".encode()
        + content
        + b"\r\n"
        for n, content in enumerate(contents)
    ]
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


@dataclass(frozen=True)
class ServerProcess:
    """A running server."""

    process: subprocess.Popen[bytes]
    url: str

    def cpu_seconds(self) -> float:
        """Return the CPU time that the server has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_mib(self) -> float:
        """Return the resident memory of the server."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def run_server(model: Path, *options: Any, log: IO[bytes] | None = None) -> Iterator[ServerProcess]:
    """Start a server, and end it with SIGTERM.

    Parameters
    ----------
    log : file for its messages. By default, those of this process.
    """
    program = [sys.executable, "-c", "from supdocnade.cli.main import main; main()"]
    process = subprocess.Popen(
        [*program, "serve", str(model), "--port", "0", "--json", *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=log,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            sys.exit("the server did not start.")
        yield ServerProcess(process, json.loads(line)["url"])
        process.send_signal(signal.SIGTERM)
        if process.wait(60) != 0:
            sys.exit(f"the server ended with {process.returncode}.")
    finally:
        process.kill()
        process.wait()
