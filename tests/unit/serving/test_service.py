"""What is refused costs little: it is not read, and clients that ask again at once are slowed."""

import asyncio
import json
import socket
from types import SimpleNamespace

import pytest
from tests.drawn import small_model
from tests.serving import fill_queue, make_client, photograph, run_threaded_server, upload_form

from supdocnade.serving import service as service_module
from supdocnade.serving.app import make_app
from supdocnade.serving.limits import ServeSettings
from supdocnade.serving.security import IMAGE_ROUTES
from supdocnade.serving.service import Service

FEW = {"max_waiting": 2, "max_images": 2, "n_workers": 1}


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(service_module, "REFUSAL_SECONDS", 0.0)


@pytest.mark.parametrize("path", sorted(IMAGE_ROUTES))
def test_nothing_of_a_request_that_is_refused_is_read(path, at_once):
    service = Service(small_model().fitted_, ServeSettings(**FEW))
    sent = []

    async def receive():
        raise AssertionError("it was read")

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }
    app = make_app(service)
    with fill_queue(service):
        asyncio.run(app(scope, receive, send))
    while service.workers.n_waiting:
        pass
    assert sent[0]["status"] == 503
    assert json.loads(sent[1]["body"])["code"] == "overloaded"
    headers = dict(sent[0]["headers"])
    assert int(headers[b"retry-after"]) >= 1
    assert headers[b"connection"] == b"close"
    assert f'route="{path}",status="503"'.encode() in service.metrics.text()
    # With room the same request is read, or told that there is no gallery.
    sent.clear()
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == (404 if path == "/v1/similar" else 500)
    service.close()


def test_all_routes_that_take_images_are_known():
    with make_client() as local:
        paths = local.get("/openapi.json").json()["paths"]
    assert {path for path, verbs in paths.items() if "requestBody" in verbs.get("post", {})} == (
        IMAGE_ROUTES
    )


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_who_is_refused_sees_the_answer_whatever_it_is_sending(version, at_once):
    """Also a client that does not look before it has sent all of it."""
    length = 3_000_000
    head = (
        f"POST /v1/predict HTTP/{version}\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {length}\r\n\r\n"
    ).encode()
    with run_threaded_server(**FEW) as (local, address), fill_queue(local.service):
        for sent_before in (0, 1000, length):
            with socket.create_connection(address, timeout=20) as asking:
                asking.sendall(head + b"x" * sent_before)
                answer = asking.recv(100)
                assert answer.startswith(b"HTTP/1.1 503 ")
                asking.sendall(b"x" * (length - sent_before))
                while part := asking.recv(10_000):
                    answer += part
            assert b'"code": "overloaded"' in answer
        assert local.service.memory.used == 0


def send_for_ever(connection):
    while True:
        connection.sendall(b"x" * 100_000)


def test_a_client_that_never_ends_is_left_after_a_moment(at_once, monkeypatch):
    monkeypatch.setattr("supdocnade.serving.server.DRAIN_SECONDS", 0.1)
    head = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n"
    with (
        run_threaded_server(**FEW) as (local, address),
        fill_queue(local.service),
        socket.create_connection(address, timeout=20) as endless,
    ):
        endless.sendall(head)
        with pytest.raises(OSError, match=r"reset|[Bb]roken"):
            send_for_ever(endless)


def test_who_finds_room_after_a_moment_is_let_in(monkeypatch):
    service = Service(small_model().fitted_, ServeSettings(**FEW))
    waited = []

    async def sleep(seconds):
        waited.append(seconds)
        gate.set()
        while service.workers.n_waiting:
            pass

    monkeypatch.setattr(service_module, "asyncio", SimpleNamespace(sleep=sleep))
    with fill_queue(service) as gate:
        asyncio.run(service.admit())
    assert waited == [service_module.REFUSAL_SECONDS]
    asyncio.run(service.admit())
    assert len(waited) == 1
    service.close()


def test_only_so_many_are_held_back(monkeypatch):
    monkeypatch.setattr(service_module, "MAX_DELAYED", 0)
    monkeypatch.setattr(service_module, "REFUSAL_SECONDS", 1e9)
    with make_client(**FEW) as local, fill_queue(local.service):
        assert local.post("/v1/predict", files=upload_form(photograph(0))).status_code == 503
