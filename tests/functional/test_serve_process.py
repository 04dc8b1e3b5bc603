"""The server as a process: load, faults and shutdown."""

import json
import resource
import shutil
import signal
import socket
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest
from tests.scene_model import small_model
from tests.serving import (
    build_index,
    hold_work,
    noise,
    photograph,
    resident_mib,
    run_server,
    run_threaded_server,
    upload_form,
)

from supdocnade.serving import service as service_module

N_PHOTOGRAPHS = 24


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "scenes"
    small_model().save(folder)
    return folder


@pytest.fixture(scope="module")
def server(model):
    # On another address of this machine, which becomes one of its host names.
    with run_server(model, "--host", "127.0.0.2") as (process, client):
        yield process, client


@pytest.fixture(scope="module")
def expected():
    files = [photograph(number) for number in range(N_PHOTOGRAPHS)]
    return [(each.label, each.probability) for each in small_model().iter_predictions(files)]


def predict(client, numbers):
    files = [photograph(number) for number in numbers]
    return client.post("/v1/predict", files=upload_form(*files, names=list(map(str, numbers))))


def check(response, expected):
    """Check that every prediction is the right one for its photograph."""
    assert response.status_code == 200, response.text
    for each in response.json()["predictions"]:
        assert (each["label"], each["probability"]) == expected[int(each["file"])]


def test_concurrent_clients_get_their_own_predictions(server, expected):
    _process, client = server

    def send(start):
        numbers = [(start + step) % N_PHOTOGRAPHS for step in range(1 + start % 5)]
        check(predict(client, numbers), expected)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(send, range(64)))


def test_overloaded_server_sends_a_retry_time(monkeypatch):
    monkeypatch.setattr(service_module, "REFUSAL_SECONDS", 0.05)
    with run_threaded_server(max_images=4, n_workers=1) as (client, _):
        with ThreadPoolExecutor(24) as pool:
            responses = list(pool.map(lambda _: predict(client, range(4)), range(48)))
        assert {response.status_code for response in responses} == {200, 503}
        for response in responses:
            if response.status_code == 503:
                assert int(response.headers["retry-after"]) >= 1
                assert response.json()["code"] == "overloaded"
        assert predict(client, range(4)).status_code == 200


def connect(process):
    address = urlsplit(process.url)
    return socket.create_connection((address.hostname, address.port), timeout=20)


def request_head(length, content_type="multipart/form-data; boundary=b"):
    return (
        "POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def test_clients_that_disconnect_leave_nothing_behind(expected):
    with run_threaded_server() as (client, address):
        for _ in range(30):
            with socket.create_connection(address, timeout=20) as connection:
                connection.sendall(request_head(5_000_000) + b"x" * 200_000)
        # These disconnect while their images wait.
        form = upload_form(*[photograph(0)] * 16)
        request = client.build_request("POST", "/v1/predict", files=form)
        body = request.read()
        for _ in range(10):
            with socket.create_connection(address, timeout=20) as connection:
                connection.sendall(request_head(len(body), request.headers["content-type"]) + body)
        check(predict(client, [1, 2]), expected)
        deadline = time.monotonic() + 20
        while client.service.memory.used and time.monotonic() < deadline:
            pass
        assert client.service.memory.used == 0


def test_slow_uploads_are_refused_and_delay_nobody(expected):
    with run_threaded_server(seconds=0.5) as (client, address):
        slow = [socket.create_connection(address, timeout=20) for _ in range(20)]
        for connection in slow:
            connection.sendall(request_head(1_000_000) + b"--b\r\n")
        check(predict(client, [3]), expected)
        for connection in slow:
            with connection:
                assert b" 408 " in connection.recv(1000).partition(b"\r\n")[0]


def test_running_server_does_not_depend_on_the_disk(tmp_path, expected):
    gallery, _ = build_index(tmp_path)
    folder = tmp_path / "scenes"
    small_model().save(folder)
    with run_server(folder, "--index", tmp_path / "index") as (process, client):
        before = client.get("/v1/model").json()
        small_model("sigmoid").save(folder)
        check(predict(client, [0, 1, 2]), expected)
        for removed in (folder, tmp_path / "index", tmp_path / "photos"):
            shutil.rmtree(removed)
        check(predict(client, [5, 6, 7]), expected)
        assert client.get("/v1/model").json() == before
        assert client.get("/v1/gallery/7/picture").content == gallery.picture(7)
        assert client.get("/v1/examples/3/picture").status_code == 200
        # From here on no file can grow, as on a full disk.
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))
        check_large_uploads(client, ("/v1/predict", "/v1/explain", "/v1/similar"))
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


def check_large_uploads(client, paths):
    photo = noise(2500)
    assert len(photo) > 6e6
    for path in paths:
        response = client.post(path, files=upload_form(photo))
        assert response.status_code == 200, response.text


def test_shutdown_waits_for_every_request_in_progress(expected, monkeypatch):
    with (
        run_threaded_server(n_workers=1) as (client, address),
        ThreadPoolExecutor(8) as pool,
        hold_work(monkeypatch) as (gate, _),
    ):
        pending = [pool.submit(predict, client, range(start, start + 4)) for start in range(8)]
        # One batch is in progress, the others wait.
        while client.service.n_waiting + 4 < 32:
            pass
        client.running.handle_exit(signal.SIGTERM, None)
        while True:  # Until the port is closed.
            try:
                socket.create_connection(address).close()
            except OSError:
                break
        assert not any(each.done() for each in pending)
        gate.set()
        for each in pending:
            check(each.result(), expected)


STUCK_PROGRAM = (
    *(sys.executable, "-c"),
    """
import sys
import time
from supdocnade.cli.main import main
from supdocnade.images.decoder import DecodingProcess

DecodingProcess.run = lambda *_: print("stuck", file=sys.stderr, flush=True) or time.sleep(1000)
main()
""",
)


@pytest.mark.parametrize(
    ("number", "code", "seconds"), [(signal.SIGTERM, 0, 10), (signal.SIGINT, 130, 2)]
)
def test_a_signal_ends_a_server_whose_workers_never_finish(model, number, code, seconds):
    with (
        run_server(model, "--jobs", "1", program=STUCK_PROGRAM) as (process, client),
        ThreadPoolExecutor(2) as pool,
    ):
        pending = [pool.submit(predict, client, [number]) for number in range(2)]
        assert process.stderr.readline() == b"stuck\n"
        process.send_signal(number)
        started = time.monotonic()
        assert process.wait(60) == code
        assert time.monotonic() - started < 1.5 * seconds  # Other processes may delay it.
        for each in pending:
            with suppress(httpx.TransportError):
                assert each.result().status_code == 500


def test_sigterm_ends_a_server_whose_clients_neither_send_nor_read(model):
    starts = (b"", b"GET / HT", b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 400)
    with run_server(model, "--jobs", "1") as (process, client), ExitStack() as stack:
        for start in starts:
            stack.enter_context(connect(process)).sendall(start)
        assert client.get("/healthz").status_code == 200
        process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        assert process.wait(60) == 0
        assert time.monotonic() - started < 12  # Ten seconds if nothing else is running.


def test_killed_server_gives_no_wrong_prediction_and_frees_its_port(model, expected):
    """Clients of a killed server see broken connections; another server can take the port."""
    with run_server(model) as (process, client), ThreadPoolExecutor(8) as pool:
        n_done = threading.Semaphore(0)

        def load():
            while True:
                try:
                    check(predict(client, [4, 5]), expected)
                except httpx.TransportError:
                    return
                n_done.release()

        loads = [pool.submit(load) for _ in range(8)]
        for _ in range(10):
            n_done.acquire()
        process.kill()
        assert process.wait(20) == -signal.SIGKILL
        for each in loads:
            each.result(timeout=20)
        with pytest.raises(httpx.TransportError):
            client.get("/healthz")
        port = urlsplit(process.url).port
        with run_server(model, "--port", port, "--jobs", 1) as (another, client):
            check_sigterm(another, client, pool, expected)


def check_sigterm(process, client, pool, expected):
    """Check that SIGTERM finishes the requests in progress and ends the process."""
    pending = [pool.submit(predict, client, range(24)) for _ in range(8)]
    wait(pending, return_when=FIRST_COMPLETED)
    process.send_signal(signal.SIGTERM)
    n_done = 0
    for each in pending:
        # A request that was not yet accepted fails to connect; a wrong response is an error.
        with suppress(httpx.TransportError):
            check(each.result(), expected)
            n_done += 1
    assert n_done > 1
    assert process.wait(20) == 0
    assert b"stopped" in process.stderr.read()
    with pytest.raises(httpx.TransportError):
        client.get("/healthz")


def test_memory_does_not_grow(server):
    process, client = server

    def send(number):
        assert predict(client, [number % 24, 3]).status_code == 200
        assert client.post("/v1/predict", files=upload_form(noise(60, number))).status_code == 200
        assert client.post("/v1/predict", files=upload_form(b"x")).status_code == 422

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(send, range(60)))
        before = resident_mib(process.pid)
        list(pool.map(send, range(150)))
    assert resident_mib(process.pid) - before < 30


def test_json_option_prints_the_url(server):
    process, client = server
    assert process.url.startswith("http://127.0.0.2:")
    assert json.loads(client.get("/healthz").content) == {"status": "ok"}
