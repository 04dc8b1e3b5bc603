"""A server process: its socket, its signals, and its end."""

import asyncio
import ipaddress
import logging
import signal
import socket
import sys
from types import FrameType
from typing import Any

import h11
import numpy as np
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.images.decode import encode
from supdocnade.serving.app import make_app
from supdocnade.serving.service import Service

# Connections: closed where nothing begins, and read on for a moment where an answer came early.

HEAD_SECONDS = 15.0
"""For the head of a request, from when the connection is there."""

LINGER_SECONDS = 2.0
"""How long what is still sent after the answer is taken, so that the client sees the answer."""


class Connection(H11Protocol):
    """Closes connections on which no request begins; `uploads` watches those that have begun."""

    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch."""
        super().connection_made(transport)
        self.transport = self._lingering = _Lingering(transport, self)  # type: ignore[assignment]
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Read on, unless what comes is not wanted any more."""
        if self._lingering.lingers:
            return
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Watch no more."""
        self._stop_watch()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for another request."""
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Set the alarm while a request's head is waited for, however slowly it comes."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_watch()
        elif self._alarm is None:
            self._alarm = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_watch(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


class _Lingering:
    """A transport that is closed for writing alone while a request is still being sent.

    A request may be answered before its body has come: too much waits, or it is too large. Were the
    connection closed then, the client's system would be told that its bytes were not taken, and
    might throw away the answer. So what comes is taken for a moment, and thrown away unread.
    """

    def __init__(self, transport: asyncio.Transport, connection: Connection):
        self._transport, self._connection = transport, connection
        self.lingers = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.lingers or self._transport.is_closing()

    def close(self) -> None:
        if self._transport.is_closing() or self._connection.conn.their_state is not h11.SEND_BODY:
            self._transport.close()
        elif not self.lingers:
            self.lingers = True
            self._transport.write_eof()
            self._transport.resume_reading()
            self._connection.loop.call_later(LINGER_SECONDS, self._transport.close)


BACKLOG = 512
GRACE_SECONDS = 5.0
"""Beyond the time limit of an answer, until what is still going on is cut off."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

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
    """Refuse to be open to others without a token, unless that is wanted."""
    if token is None and not allow_open and not is_loopback(host):
        raise InvalidArgument(
            f"host {host} can be reached by others, so a token must be set (SUPDOCNADE_TOKEN); "
            "--allow-open serves everyone without one."
        )


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound, before anything slow is done."""
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
        raise StorageError(
            f"{host} port {port} cannot be served at: {error.strerror or error}."
        ) from error
    return bound


def address_of(bound: socket.socket) -> str:
    """Return where a page is."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class Server(uvicorn.Server):
    """Ends as it is told to: what was begun is finished, and the process ends in order."""

    def __init__(self, config: uvicorn.Config, service: Service):
        super().__init__(config)
        self._service = service
        self.interrupted = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take no new work; a second signal does not wait for the old."""
        if self.should_exit:
            self.force_exit = True
        self.interrupted |= sig == signal.SIGINT
        self._service.draining = True
        self.should_exit = True


def make_server(service: Service) -> Server:
    """Return a server of a service, not yet running."""
    config = uvicorn.Config(
        make_app(service),
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=int(service.settings.answer_seconds + GRACE_SECONDS),
        http=Connection,
        ws="none",
    )
    return Server(config, service)


def serve(service: Service, bound: socket.socket) -> bool:
    """Answer requests until a signal ends it; return whether that was Ctrl-C.

    Parameters
    ----------
    service : that answers.
    bound : a socket that `bind` returned.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    # Mistakes are logged by `guard`; what is left is noise about clients and about being ended.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    server = make_server(service)
    server.run(sockets=[bound])
    return server.interrupted


def small_image() -> bytes:
    """Return an image to try a model on."""
    levels = np.arange(64 * 64, dtype=np.int64).reshape(64, 64) * 37 % 251
    return encode(levels.astype(np.uint8), "PNG")
