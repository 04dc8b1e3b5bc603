import logging
import re
import resource
import socket
import threading
from contextlib import ExitStack, suppress

import pytest
from tests.serving import SMALL_QUEUE, fill_queue, run_threaded_server

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
def no_delay(monkeypatch):
    monkeypatch.setattr(service_module, "REFUSAL_SECONDS", 0.0)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_refused_client_sees_the_response_whatever_it_is_sending(version, no_delay):
    """Even a client that reads nothing before it has sent the whole request."""
    length = 3_000_000
    head = (
        f"POST /v1/predict HTTP/{version}\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {length}\r\n\r\n"
    ).encode()
    with run_threaded_server(**SMALL_QUEUE) as (client, address), fill_queue(client.service):
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


def test_refused_client_that_keeps_sending_is_disconnected(no_delay, monkeypatch):
    monkeypatch.setattr(server, "DRAIN_SECONDS", 0.1)
    head = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n"
    with (
        run_threaded_server(**SMALL_QUEUE) as (client, address),
        fill_queue(client.service),
        socket.create_connection(address, timeout=20) as connection,
    ):
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


def test_connection_without_a_request_is_closed(monkeypatch):
    """This depends on how uvicorn creates protocols; see `TimedConnection`."""
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.2)
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    starts = (b"", b"GET / HT", b"POST /v1/predict HTTP/1.1\r\nHost: x\r\n")
    with run_threaded_server() as (_, address):
        for start in (*starts, request + b"GET / HT"):
            with socket.create_connection(address, timeout=20) as connection:
                connection.sendall(start)
                response = b""
                while part := connection.recv(10_000):
                    response += part
            assert response.count(b"200 OK") == start.count(b"/healthz")


def read_all(connection):
    response = b""
    while part := connection.recv(10_000):
        response += part
    return response


def ask(address, path):
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path)
        return read_all(connection)


def test_health_is_answered_while_one_client_holds_too_many_connections(monkeypatch, caplog):
    monkeypatch.setattr(server, "RESERVED_SECONDS", 20)  # The reserve is full all the time.
    monkeypatch.setattr(server, "N_RESERVED", 16)
    with run_threaded_server(max_connections=20) as (_, address), ExitStack() as stack:
        held = [
            stack.enter_context(socket.create_connection(address, timeout=20)) for _ in range(60)
        ]
        for connection in held[10 : 60 - server.N_RESERVED]:  # The server has closed them.
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        for path in (b"/healthz", b"/readyz") * 5:
            response = ask(address, path)
            assert response.startswith(b"HTTP/1.1 200 ")
            assert b"connection: close" in response
        response = ask(address, b"/v1/model")
        assert response.startswith(b"HTTP/1.1 503 ")
        assert b"too many connections are open" in response
        held[0].sendall(b"GET /v1/model HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert read_all(held[0]).startswith(b"HTTP/1.1 200 ")
        assert ask_until_served(address).startswith(b"HTTP/1.1 200 ")
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["10 connections are open, 10 of them by 127.0.0.1: refusing"]


def ask_until_served(address):
    """Ask until the server has noticed that a connection is closed."""
    request = b"GET /v1/model HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    for _ in range(100):
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(request)
            response = read_all(connection)
        if b" 503 " not in response[:20]:
            break
    return response


@pytest.mark.parametrize("n_requests", [1, 400])
def test_client_that_does_not_read_is_disconnected(n_requests, monkeypatch):
    """Whether its responses fit into the buffers of the server or not."""
    for name in ("HEAD_SECONDS", "SEND_SECONDS"):
        monkeypatch.setattr(server, name, 0.2)
    lost, lose = threading.Event(), server.TimedConnection.connection_lost

    def connection_lost(connection, error):
        lose(connection, error)
        lost.set()

    monkeypatch.setattr(server.TimedConnection, "connection_lost", connection_lost)
    request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with (
        run_threaded_server() as (_, address),
        socket.socket() as connection,
    ):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(address)
        connection.sendall(request * n_requests)
        assert lost.wait(20)


def test_connections_take_half_of_the_descriptors(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (40, 40))
    with run_threaded_server() as (_, address), ExitStack() as stack:
        for _ in range(10):  # A quarter of them for one client.
            stack.enter_context(socket.create_connection(address, timeout=20))
        assert b" 503 " in ask(address, b"/v1/model")[:20]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert server.n_descriptors() == server.DESCRIPTORS


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (("127.0.0.1", 5), "127.0.0.1"),
        (("::ffff:192.0.2.7", 5, 0, 0), "192.0.2.7"),
        (("fe80::1%eth0", 5, 0, 2), "fe80::/64"),
        (("", 5), "unknown"),
        (None, "unknown"),
    ],
)
def test_clients_are_counted_by_address_or_network(address, name):
    assert server.client_name(address) == name


def test_a_repeated_message_is_logged_once_a_minute():
    repeats = server.RepeatFilter()
    first, second, other = (
        logging.LogRecord("asyncio", logging.ERROR, "", 1, text, (), None)
        for text in ("out of descriptors\nsocket 1", "out of descriptors\nsocket 2", "else")
    )
    assert [repeats.filter(each) for each in (first, second, other)] == [True, False, True]
    second.created += server.WARNING_SECONDS
    assert repeats.filter(second)


def test_connection_that_waits_for_its_response_is_not_closed(monkeypatch):
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.05)
    monkeypatch.setattr(service_module, "REFUSAL_SECONDS", 0.5)
    with run_threaded_server(**SMALL_QUEUE) as (client, _), fill_queue(client.service):
        assert client.post("/v1/predict", content=b"").status_code == 503
