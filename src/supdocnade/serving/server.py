"""The server process: its socket, connections, signals and shutdown."""

import asyncio
import errno
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.serving.app import make_app
from supdocnade.serving.service import Service

BACKLOG = 512

SHUTDOWN_SECONDS = 5.0
"""Time beyond the time limit of a request after which a shutdown closes open connections."""

HEAD_SECONDS = 15.0
"""Time for the head of a request to arrive on a connection that is otherwise idle."""

DRAIN_SECONDS = 2.0
"""Time for which the rest of a request is read and discarded after an early response."""

CONNECTION = "supdocnade.connection"


class TimedConnection(asyncio.Protocol):
    """Connection that is closed when the head of a request does not arrive in time.

    uvicorn limits only the time between two requests: a client could hold a connection forever on
    which it sends nothing, or the head of a request byte by byte. This class passes all events of
    the connection to uvicorn's own protocol, and itself to the application, in the state of the
    request's scope: `ConnectionMiddleware` calls `begin_request` and `end_request`. It relies on
    nothing of uvicorn but the signature by which uvicorn creates protocols.

    Parameters
    ----------
    make_protocol : uvicorn's protocol class.
    app_state : state of the application, which uvicorn copies into the scope of every request.
    """

    def __init__(
        self,
        make_protocol: Callable[..., asyncio.Protocol],
        *,
        app_state: dict[str, Any],
        **options: Any,
    ):
        self._protocol = make_protocol(app_state={**app_state, CONNECTION: self}, **options)
        self._n_requests = 0
        self._timer: asyncio.TimerHandle | None = None
        # These events are passed on unchanged.
        for name in ("data_received", "eof_received", "pause_writing", "resume_writing"):
            setattr(self, name, getattr(self._protocol, name))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the first request."""
        self._transport = transport
        self._start_timer()
        self._protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        self._protocol.connection_lost(exc)

    def begin_request(self) -> None:
        """Stop the timer, since the head of a request has arrived."""
        self._n_requests += 1
        self._stop_timer()

    def end_request(self) -> None:
        """Start the timer for the next request."""
        self._n_requests -= 1
        if self._n_requests == 0 and not self._transport.is_closing():
            self._start_timer()

    def _start_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(HEAD_SECONDS, self._transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ConnectionMiddleware:
    """ASGI middleware that times connections and completes requests that are answered early.

    A request may be answered before its body has arrived, for example because it is too large. If
    the connection were closed then, the client's system would learn that its bytes were refused
    and might discard the response. So the response is sent in full but not ended, the body is read
    and discarded for at most `DRAIN_SECONDS`, and then the response ends.
    """

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        body_pending = "content-length" in headers or "transfer-encoding" in headers
        end_pending = False

        async def receive_body() -> Message:
            nonlocal body_pending
            message = await receive()
            body_pending = message["type"] == "http.request" and message.get("more_body", False)
            return message

        async def send_response(message: Message) -> None:
            nonlocal end_pending
            if message["type"] == "http.response.body" and body_pending:
                end_pending = not message.get("more_body", False)
                message = {**message, "more_body": True}
            await send(message)

        connection: TimedConnection = scope["state"][CONNECTION]
        connection.begin_request()
        try:
            await self._app(scope, receive_body, send_response)
            if end_pending:
                try:
                    async with asyncio.timeout(DRAIN_SECONDS):
                        while body_pending:
                            await receive_body()
                except TimeoutError:
                    pass
                await send({"type": "http.response.body"})
        finally:
            connection.end_request()


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address.

    >>> is_loopback("localhost"), is_loopback("127.0.0.9"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_access(host: str, token: str | None, *, allow_open: bool) -> None:
    """Refuse an address that others can reach, unless there is a token or `allow_open` is set."""
    if token is None and not allow_open and not is_loopback(host):
        raise InvalidArgument(
            f"host {host} can be reached by others, so a token must be set (SUPDOCNADE_TOKEN); "
            "--allow-open serves everyone without one."
        )


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StorageError(
                f"port {port} is already in use; choose another with --port."
            ) from error
        raise StorageError(
            f"{host} port {port} cannot be bound: {error.strerror or error}."
        ) from error
    return bound


def server_url(bound: socket.socket) -> str:
    """Return the URL of the page."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class Server(uvicorn.Server):
    """uvicorn's server with a shutdown that finishes the requests in progress."""

    def __init__(self, config: uvicorn.Config, service: Service):
        super().__init__(config)
        self._service = service
        self.interrupted = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Refuse new requests; a second signal ends the process without waiting."""
        if self.should_exit:
            self.force_exit = True
        self.interrupted |= sig == signal.SIGINT
        self._service.draining = True
        self.should_exit = True


def make_server(service: Service) -> Server:
    """Return a server that is not yet running."""
    config = uvicorn.Config(
        ConnectionMiddleware(make_app(service)),
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=int(service.settings.answer_seconds + SHUTDOWN_SECONDS),
        http="h11",
        ws="none",
    )
    config.load()
    protocol = partial(TimedConnection, config.http_protocol_class)
    config.http_protocol_class = protocol  # type: ignore[assignment]
    return Server(config, service)


def serve(service: Service, bound: socket.socket) -> bool:
    """Handle requests until a signal ends the server; return whether it was Ctrl-C.

    Parameters
    ----------
    bound : the socket returned by `bind`.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    # `SecurityMiddleware` logs errors; uvicorn's messages concern clients and the shutdown.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    server = make_server(service)
    server.run(sockets=[bound])
    return server.interrupted
