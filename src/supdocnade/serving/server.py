"""The server process: its socket, signals and shutdown."""

import asyncio
import errno
import ipaddress
import logging
import math
import signal
import socket
import sys
from contextlib import suppress
from types import FrameType

import uvicorn
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.serving.app import make_app
from supdocnade.serving.service import Service

BACKLOG = 512
"""Most connections that wait to be accepted."""

KEEP_ALIVE_SECONDS = 15
"""Time for the next request on a connection."""

SHUTDOWN_SECONDS = 6
"""Time for requests in progress to be finished after a signal, below the 10 seconds after which
Docker kills a process."""

DRAIN_SECONDS = 2.0
"""Time for which the rest of a request is read and discarded after an early response."""

WARNING_SECONDS = 60.0
"""Time for which a repeated message of asyncio is not logged: hundreds a second say that too many
files are open."""


class DrainMiddleware:
    """ASGI middleware that completes requests that are answered early.

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

        await self._app(scope, receive_body, send_response)
        if end_pending:
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    while body_pending:
                        await receive_body()
            await send({"type": "http.response.body"})


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


class RepeatFilter:
    """Logging filter that drops a message that was logged less than `WARNING_SECONDS` ago."""

    def __init__(self) -> None:
        self._logged: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a message; it is recognised by its first line."""
        line = record.getMessage().partition("\n")[0]
        if record.created < self._logged.get(line, -math.inf) + WARNING_SECONDS:
            return False
        if len(self._logged) > 100:
            self._logged.clear()
        self._logged[line] = record.created
        return True


def make_server(service: Service) -> Server:
    """Return a server that is not yet running."""
    config = uvicorn.Config(
        DrainMiddleware(make_app(service)),
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        http="h11",
        ws="none",
    )
    return Server(config, service)


def serve(service: Service, bound: socket.socket) -> bool:
    """Handle requests until a signal ends the server; return whether it was Ctrl-C."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    # `SecurityMiddleware` logs errors; uvicorn's messages concern clients and the shutdown.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").addFilter(RepeatFilter())
    server = make_server(service)
    server.run(sockets=[bound])
    return server.interrupted
