"""A server as a process: load, faults, and its end."""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest
from tests.disks import read_only, seeing
from tests.drawn import small_model
from tests.serving import (
    build_index,
    noise,
    photograph,
    resident_mib,
    run_server,
    run_threaded_server,
    upload_form,
)

from supdocnade.serving import server as connections
from supdocnade.serving import service as service_module

N_PHOTOGRAPHS = 24


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "scenes"
    small_model().save(folder)
    return folder


@pytest.fixture(scope="module")
def server(model):
    # Another address of this machine, by which it then goes.
    with run_server(model, "--host", "127.0.0.2") as (process, client):
        yield process, client


@pytest.fixture(scope="module")
def right_answers():
    files = [photograph(number) for number in range(N_PHOTOGRAPHS)]
    return [(said.label, said.probability) for said in small_model().iter_predictions(files)]


def ask(client, numbers, path="/v1/predict"):
    files = upload_form(
        *[photograph(number) for number in numbers], names=[str(n) for n in numbers]
    )
    return client.post(path, files=files)


def check(response, right_answers):
    """Every answer is the right one for its photograph."""
    assert response.status_code == 200, response.text
    for each in response.json()["predictions"]:
        assert (each["label"], each["probability"]) == right_answers[int(each["file"])]


def test_many_clients_get_their_own_answers(server, right_answers):
    _process, client = server

    def one(start):
        numbers = [(start + step) % N_PHOTOGRAPHS for step in range(1 + start % 5)]
        check(ask(client, numbers), right_answers)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(one, range(64)))
    batches = client.get("/metrics").text
    several = [
        float(line.split()[-1])
        for line in batches.splitlines()
        if line.startswith('supdocnade_batch_images_bucket{le="1.0"}')
    ]
    (count,) = [
        float(line.split()[-1])
        for line in batches.splitlines()
        if line.startswith("supdocnade_batch_images_count")
    ]
    assert several[0] < count, "no two images were ever worked on together"


def test_health_is_told_while_there_is_much_to_do(server):
    _process, client = server
    with ThreadPoolExecutor(8) as pool:
        busy = [pool.submit(ask, client, range(24)) for _ in range(8)]
        asked = 0
        while not all(each.done() for each in busy):
            for path in ("/healthz", "/readyz", "/metrics"):
                assert client.get(path, timeout=5).status_code == 200
            asked += 1
    assert asked > 1
    assert all(each.result().status_code == 200 for each in busy)


def test_overload_is_refused_with_a_time_to_come_back(monkeypatch):
    monkeypatch.setattr(service_module, "REFUSAL_SECONDS", 0.05)
    with run_threaded_server(max_waiting=4, max_images=4, n_workers=1) as (client, _):
        with ThreadPoolExecutor(24) as pool:
            done = list(pool.map(lambda _: ask(client, range(4)), range(48)))
        codes = {response.status_code for response in done}
        assert codes == {200, 503}
        for response in done:
            if response.status_code == 503:
                assert int(response.headers["retry-after"]) >= 1
                assert response.json()["code"] == "overloaded"
        assert ask(client, range(4)).status_code == 200


def connect(process):
    address = urlsplit(process.url)
    return socket.create_connection((address.hostname, address.port), timeout=20)


def head(length):
    return (
        "POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


def test_clients_that_vanish_leave_nothing_behind(server, right_answers):
    process, client = server
    for _ in range(30):
        with connect(process) as lost:
            lost.sendall(head(5_000_000) + b"x" * 200_000)
    # These are gone while their images wait.
    body = client.build_request("POST", "/v1/predict", files=upload_form(*[photograph(0)] * 16))
    content = body.read()
    for _ in range(10):
        with connect(process) as lost:
            sent = head(len(content)).replace(
                b"multipart/form-data; boundary=b", body.headers["content-type"].encode()
            )
            lost.sendall(sent + content)
    check(ask(client, [1, 2]), right_answers)

    def held():
        lines = client.get("/metrics").text.splitlines()
        return float(next(each for each in lines if each.startswith("supdocnade_held")).split()[1])

    deadline = time.monotonic() + 20
    while held() and time.monotonic() < deadline:
        pass
    assert held() == 0


def test_slow_clients_are_told_and_nobody_waits_for_them(right_answers):
    with run_threaded_server(upload_seconds=0.5) as (client, address):
        slow = [socket.create_connection(address, timeout=20) for _ in range(20)]
        for each in slow:
            each.sendall(head(1_000_000) + b"--b\r\n")
        check(ask(client, [3]), right_answers)
        for each in slow:
            with each:
                assert b" 408 " in each.recv(1000).partition(b"\r\n")[0]


def test_connections_on_which_nothing_begins_are_closed(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    with run_threaded_server() as (client, address):
        for beginning in (b"", b"GET / HT", b"POST /v1/predict HTTP/1.1\r\nHost: x\r\n"):
            with socket.create_connection(address, timeout=20) as idle:
                idle.sendall(beginning)
                assert idle.recv(100) == b""
        # One that waits for its answer is not closed.
        for _ in range(3):
            assert ask(client, range(24)).status_code == 200


def test_nothing_on_disk_matters_to_a_server_that_runs(tmp_path, right_answers):
    gallery, _ = build_index(tmp_path)
    folder = tmp_path / "scenes"
    small_model().save(folder)
    with run_server(folder, "--index", tmp_path / "index") as (process, client):
        before = client.get("/v1/model").json()
        small_model("softmax").save(folder)
        check(ask(client, [0, 1, 2]), right_answers)
        for gone in (folder, tmp_path / "index", tmp_path / "photos"):
            shutil.rmtree(gone)
        check(ask(client, [5, 6, 7]), right_answers)
        assert client.get("/v1/model").json() == before
        assert client.get("/v1/gallery/7/picture").content == gallery.picture(7)
        assert client.get("/v1/words/3/picture").status_code == 200
        # As on a full disk: from here on no file of any kind can grow.
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))
        large_photographs_are_answered(client, ("/v1/predict", "/v1/explain", "/v1/similar"))


def large_photographs_are_answered(client, paths):
    photo = noise(2500)
    assert len(photo) > 6e6
    for path in paths:
        response = client.post(path, files=upload_form(photo))
        assert response.status_code == 200, response.text
    body = {"images": [{"name": "a.jpg", "data": b64encode(photo).decode()}]}
    assert client.post("/v1/predict", json=body).status_code == 200


def test_large_photographs_need_no_temporary_folder(model, tmp_path):
    """Where Python would look for one, nothing can be written."""
    places = ["/tmp", "/var/tmp", "/usr/tmp", tmp_path, model.parent]
    before = seeing([read_only(place) for place in places if os.path.isdir(place)])
    names = ("TMPDIR", "TEMP", "TMP")
    options = {
        "cwd": tmp_path,
        "env": {name: value for name, value in os.environ.items() if name not in names},
    }
    options["env"]["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    asked = [*before, sys.executable, "-c", "import tempfile; tempfile.gettempdir()"]
    done = subprocess.run(asked, capture_output=True, text=True, **options)
    assert "No usable temporary directory" in done.stderr
    with run_server(model, before=before, **options) as (_, client):
        large_photographs_are_answered(client, ("/v1/predict", "/v1/explain"))


def test_the_end_waits_for_every_request_that_was_begun(right_answers):
    with run_threaded_server(n_workers=1) as (client, address), ThreadPoolExecutor(8) as pool:
        gate, work = threading.Event(), client.service.workers._work
        client.service.workers._work = lambda tasks: gate.wait() and work(tasks)
        asked = [pool.submit(ask, client, range(number, number + 4)) for number in range(8)]
        # One batch is being worked on, the others wait.
        while client.service.workers.n_waiting + 8 < 32:
            pass
        client.running.handle_exit(signal.SIGTERM, None)
        while True:  # Until the door is closed.
            try:
                socket.create_connection(address).close()
            except OSError:
                break
        assert not any(each.done() for each in asked)
        gate.set()
        for each in asked:
            check(each.result(), right_answers)


def test_sigterm_finishes_what_was_begun(model, right_answers):
    with run_server(model, "--jobs", 1) as (process, client), ThreadPoolExecutor(8) as pool:
        began = client.get("/metrics").text
        assert "supdocnade_images_waiting 0.0" in began
        asked = [pool.submit(ask, client, range(24)) for _ in range(8)]
        while "supdocnade_images_waiting 0.0" in client.get("/metrics").text:
            pass
        process.send_signal(signal.SIGTERM)
        answered = 0
        for each in asked:
            # One that had not begun finds the door closed; a wrong or half answer fails.
            with suppress(httpx.TransportError):
                check(each.result(), right_answers)
                answered += 1
        assert answered >= 1
        assert process.wait(20) == 0
        assert b"ended" in process.stderr.read()
        with pytest.raises(httpx.TransportError):
            client.get("/healthz")


def test_a_server_that_is_killed_gave_no_wrong_answer_and_leaves_its_port(model, right_answers):
    """Nothing in it survives a kill: clients see broken connections, and may start another."""
    with run_server(model) as (process, client), ThreadPoolExecutor(8) as pool:
        some = threading.Semaphore(0)

        def load():
            while True:
                try:
                    check(ask(client, [4, 5]), right_answers)
                except httpx.TransportError:
                    return
                some.release()

        loads = [pool.submit(load) for _ in range(8)]
        for _ in range(10):
            some.acquire()
        process.kill()
        assert process.wait(20) == -signal.SIGKILL
        for each in loads:
            each.result(timeout=20)
        with pytest.raises(httpx.TransportError):
            client.get("/healthz")
        # On the same port, at once.
        with run_server(model, "--port", urlsplit(process.url).port) as (another, again):
            check(ask(again, [4, 5]), right_answers)
            # Ctrl-C ends it in order, too.
            another.send_signal(signal.SIGINT)
            assert another.wait(20) == 130


def test_memory_does_not_grow(server):
    process, client = server

    def one(number):
        assert ask(client, [number % 24, 3]).status_code == 200
        assert client.post("/v1/predict", files=upload_form(noise(60, number))).status_code == 200
        assert client.post("/v1/predict", files=upload_form(b"x")).status_code == 422

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(60)))
        before = resident_mib(process.pid)
        list(pool.map(one, range(150)))
    assert resident_mib(process.pid) - before < 30


def test_everything_but_serving_works_without_the_extra(model, tmp_path):
    (tmp_path / "a.jpg").write_bytes(photograph(0))
    code = (
        "import sys\n"
        "for name in ('fastapi', 'uvicorn', 'starlette', 'multipart', 'prometheus_client'):\n"
        "    sys.modules[name] = None\n"
        "from supdocnade.cli.main import run\n"
        f"sys.exit(run(['index', {str(model)!r}, {str(tmp_path)!r}, '-o', "
        f"{str(tmp_path / 'index')!r}]) or run(['predict', {str(model)!r}, "
        f"{str(tmp_path / 'a.jpg')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 photograph indexed" in done.stdout


def test_who_asks_before_sending_too_much_is_told_at_once():
    asked = head(5000).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    with (
        run_threaded_server(max_request_bytes=1000) as (_, address),
        socket.create_connection(address, timeout=20) as asking,
    ):
        asking.sendall(asked)
        assert asking.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_json_says_where_it_is(server):
    process, client = server
    assert process.url.startswith("http://127.0.0.2:")
    assert json.loads(client.get("/healthz").content) == {"status": "ok"}
