import logging
import re
import socket
from contextlib import ExitStack

import pytest
from tests.serving import run_threaded_server

from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.serving import server
from supdocnade.serving import service as service_module


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org"])
def test_other_machines_are_served_only_with_a_token_or_allow_open(host):
    with pytest.raises(InvalidArgument, match=r"SUPDOCNADE_TOKEN.*--allow-open"):
        server.check_access(host, None, allow_open=False)
    server.check_access(host, "secret", allow_open=False)
    server.check_access(host, None, allow_open=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_token(host):
    server.check_access(host, None, allow_open=False)


def test_error_names_a_port_in_use():
    with server.bind("127.0.0.1", 0) as bound:
        bound.listen()
        port = bound.getsockname()[1]
        with pytest.raises(StorageError, match=f"port {port} is already in use; choose"):
            server.bind("127.0.0.1", port)
        assert server.server_url(bound) == f"http://127.0.0.1:{port}/"
    with pytest.raises(StorageError, match="no-such-host"):
        server.bind("no-such-host.invalid", 0)


@pytest.fixture
def full_server(monkeypatch):
    monkeypatch.setattr(service_module, "REFUSAL_SECONDS", 0.0)
    with run_threaded_server(n_workers=1) as (client, address):
        client.service.n_waiting = client.service.settings.max_waiting
        yield client, address


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_refused_client_sees_the_response_whatever_it_is_sending(version, full_server):
    """Even a client that reads nothing before it has sent the whole request."""
    length = 3_000_000
    head = (
        f"POST /v1/predict HTTP/{version}\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {length}\r\n\r\n"
    ).encode()
    client, address = full_server
    for n_sent in (0, 1000, length):
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(head + b"x" * n_sent)
            response = connection.recv(100)
            assert response.startswith(b"HTTP/1.1 503 ")
            connection.sendall(b"x" * (length - n_sent))
            while part := connection.recv(10_000):
                response += part
        assert b'"code": "overloaded"' in response
    assert client.service.memory.used == 0


def test_refused_client_that_keeps_sending_is_disconnected(full_server, monkeypatch):
    monkeypatch.setattr(server, "DRAIN_SECONDS", 0.1)
    head = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n"
    with socket.create_connection(full_server[1], timeout=20) as connection:
        connection.sendall(head)
        with pytest.raises(OSError, match=r"reset|[Bb]roken"):
            send_forever(connection)


def send_forever(connection):
    while True:
        connection.sendall(b"x" * 100_000)


def test_connection_is_reused_after_an_early_response():
    """The rest of the body is discarded, and the next request is read from the right place."""
    body = b"GET /readyz HTTP/1.1\r\n\r\n" * 40_000
    first = b"POST /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    second = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    with (
        run_threaded_server() as (_, address),
        socket.create_connection(address, timeout=20) as connection,
    ):
        connection.sendall(first + body + second)
        response = b""
        while part := connection.recv(10_000):
            response += part
    assert re.findall(rb"HTTP/1.1 (\d+)", response) == [b"404", b"200"]


def test_connection_that_waits_for_its_response_is_not_closed(monkeypatch):
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", 0.05)
    monkeypatch.setattr(service_module, "REFUSAL_SECONDS", 0.5)
    with run_threaded_server(n_workers=1) as (client, _):
        client.service.n_waiting = client.service.settings.max_waiting
        assert client.post("/v1/predict", content=b"").status_code == 503


def test_connection_without_another_request_is_closed(monkeypatch):
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", 0.1)
    with (
        run_threaded_server() as (_, address),
        socket.create_connection(address, timeout=20) as connection,
    ):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        response = b""
        while part := connection.recv(10_000):
            response += part
    assert response.startswith(b"HTTP/1.1 200 ")


def test_health_is_answered_while_connections_are_idle():
    with run_threaded_server() as (client, address), ExitStack() as stack:
        for start in (b"", b"GET / HT") * 100:
            held = stack.enter_context(socket.create_connection(address, timeout=20))
            held.sendall(start)
        for path in ("/healthz", "/readyz", "/v1/model"):
            assert client.get(path).status_code == 200


def test_a_repeated_message_is_logged_once_a_minute():
    repeats = server.RepeatFilter()
    first, second, other = (
        logging.LogRecord("asyncio", logging.ERROR, "", 1, text, (), None)
        for text in ("out of descriptors\nsocket 1", "out of descriptors\nsocket 2", "else")
    )
    assert [repeats.filter(each) for each in (first, second, other)] == [True, False, True]
    second.created += server.WARNING_SECONDS
    assert repeats.filter(second)


@pytest.mark.parametrize("start", ["GET / ", "GET /no-such-page ", "POST /v1/predict "])
def test_a_request_that_breaks_the_protocol_is_not_logged(start, caplog):
    head = "HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    with run_threaded_server() as (_, address), socket.create_connection(address, 20) as connection:
        connection.sendall((start + head).encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
    assert "Traceback" not in caplog.text
