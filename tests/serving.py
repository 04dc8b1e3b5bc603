"""Servers for tests, inside this process and as processes of their own."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import httpx2 as httpx
import numpy as np
from PIL import Image
from starlette.testclient import TestClient
from tests.scene_model import scenes, small_model

from supdocnade.gallery.build import build_gallery
from supdocnade.images.decode import encode
from supdocnade.serving import service as service_module
from supdocnade.serving.app import make_app
from supdocnade.serving.problems import MEDIA_TYPE, PROBLEM_TYPES
from supdocnade.serving.service import ServeSettings, Service

PROGRAM = (sys.executable, "-c", "from supdocnade.cli.main import main; main()")


@cache
def photograph(number=0, kind="JPEG"):
    """A drawn scene as a file."""
    return encode(scenes()[number].image, kind)


@cache
def noise(side, seed=0):
    """A large JPEG file."""
    levels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)
    return encode(levels, "JPEG", quality=95)


def huge_png(width, height):
    """A small file with many pixels."""
    buffer = io.BytesIO()
    Image.new("1", (width, height)).save(buffer, "PNG", compress_level=9)
    return buffer.getvalue()


def tiff(content):
    """An image file as a TIFF file, which browsers do not show."""
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(content)) as image:
        image.save(buffer, "TIFF")
    return buffer.getvalue()


def upload_form(*contents, names=None):
    """The files of a multipart request."""
    names = names or [f"{number}.jpg" for number in range(len(contents))]
    return [
        ("images", (name, content, "image/jpeg"))
        for name, content in zip(names, contents, strict=True)
    ]


def check_problem(response, status, code, file=None):
    """Check that a response is a problem (RFC 9457); return its detail."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == MEDIA_TYPE
    problem = response.json()
    assert (problem["status"], problem["code"], problem.get("file")) == (status, code, file)
    assert problem["type"] == f"/docs#{code}"
    assert PROBLEM_TYPES[code] == (status, problem["title"])
    assert problem["detail"].endswith(".")
    return problem["detail"]


@contextmanager
def make_client(gallery=None, fitted=None, corrections=None, photos=(), **settings):
    """A client of a server inside this process."""
    fitted = small_model().fitted_ if fitted is None else fitted
    options = {"gallery": gallery, "corrections": corrections, "photos": photos}
    service = Service(fitted, ServeSettings(**settings), folder=Path("scenes"), **options)
    with TestClient(make_app(service), base_url="http://127.0.0.1:8000") as client:
        client.service = service
        yield client


def build_index(folder):
    """Index drawn scenes; return the gallery and the folder of the photographs."""
    photos = folder / "photos"
    for number, scene in enumerate(scenes()):
        path = photos / scene.label / f"{number:02d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(photograph(number))
    gallery, skipped, _ = build_gallery(small_model().fitted_, photos, folder / "index")
    assert not skipped
    return gallery, photos


@contextmanager
def run_server(model: Path, *arguments, before=(), program=PROGRAM, **options):
    """A server as a process of its own; yields the process and a client.

    Parameters
    ----------
    before : prefix of the command, such as `disks.seeing`.
    """
    process = subprocess.Popen(
        [*before, *program, "serve", str(model), "--port", "0", "--json", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,
    )
    try:
        line = process.stdout.readline()
        if not line:
            raise AssertionError(process.stderr.read().decode())
        process.url = json.loads(line)["url"]
        with httpx.Client(base_url=process.url, timeout=60) as client:
            yield process, client
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@contextmanager
def run_threaded_server(gallery=None, corrections=None, photos=(), **settings):
    """A server in a thread of this process, on a real socket; yields a client and the address.

    The client has the server as `running` and its `service`.
    """
    from supdocnade.serving import server

    bound = server.bind("127.0.0.1", 0)
    bound.listen()
    address = bound.getsockname()
    options = {"gallery": gallery, "corrections": corrections, "photos": photos}
    service = Service(
        small_model().fitted_, ServeSettings(**settings), folder=Path("scenes"), **options
    )
    running = server.make_server(service)
    thread = threading.Thread(target=running.run, args=([bound],))
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{address[1]}", timeout=60) as client:
            client.running, client.service = running, service
            yield client, address
    finally:
        running.should_exit = True
        thread.join()


@contextmanager
def hold_work(monkeypatch):
    """Let workers wait; yields two events: one to let them go on, one that is set at a start."""
    gate, started = threading.Event(), threading.Event()
    work = service_module.process_images

    def wait(*arguments):
        started.set()
        gate.wait()
        return work(*arguments)

    monkeypatch.setattr(service_module, "process_images", wait)
    try:
        yield gate, started
    finally:
        gate.set()


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
