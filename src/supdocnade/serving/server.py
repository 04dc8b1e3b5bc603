"""The server process: its socket, connections, signals and shutdown."""

import asyncio
import errno
import ipaddress
import logging
import math
import signal
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.serving.app import make_app
from supdocnade.serving.problems import ApiError
from supdocnade.serving.service import Service

BACKLOG = 512
"""Most connections that wait to be accepted; an eighth of the descriptors if that is less."""

SHUTDOWN_SECONDS = 8
"""Time for requests in progress to be finished after a signal, below the 10 seconds after which
Docker kills a process."""

HEAD_SECONDS = 15.0
"""Time for the head of a request to arrive on a connection that is otherwise idle."""

DRAIN_SECONDS = 2.0
"""Time for which the rest of a request is read and discarded after an early response."""

SEND_SECONDS = 20.0
"""Time for a client to read what was sent to it: a part of a response, or its end."""

DESCRIPTORS = 8192
"""Files and connections that are counted on where the system sets no limit."""

N_RESERVED, RESERVED_SECONDS = 128, 2.0
"""Connections beyond the limits, which may ask for the health of the server, an eighth of the
descriptors if that is less; and the time for the head of their request."""

HEALTH_ROUTES = ("/healthz", "/readyz")
WARNING_SECONDS = 60.0
"""Time for which a repeated message about connections is not logged."""

CONNECTION = "supdocnade.connection"

log = logging.getLogger(__name__)


class OpenConnections:
    """The connections of all clients, limited in all and per client.

    A connection beyond the limits may only ask for the health of the server, so that one client
    that holds many connections cannot hide the server from its supervisor. The newest of them stay
    open.

    Parameters
    ----------
    most : connections of all clients; one client may have half of them.
    n_reserved : connections beyond these that stay open.
    """

    def __init__(self, most: int, n_reserved: int):
        self._most, self._most_per_client = most, max(most // 2, 1)
        self._n_reserved = n_reserved
        self._n_per_client: Counter[str] = Counter()
        self._reserved: deque[TimedConnection] = deque()
        self._warned = -math.inf

    def add(self, connection: "TimedConnection", client: str) -> bool:
        """Count a connection of a client; return False if it is beyond the limits."""
        total, own = self._n_per_client.total(), self._n_per_client[client]
        if total < self._most and own < self._most_per_client:
            self._n_per_client[client] += 1
            return True
        if time.monotonic() > self._warned + WARNING_SECONDS:
            self._warned = time.monotonic()
            log.warning("%d connections are open, %d of them by %s: refusing", total, own, client)
        self._reserved.append(connection)
        if len(self._reserved) > self._n_reserved:
            self._reserved.popleft().abort()
        return False

    def remove(self, connection: "TimedConnection", client: str) -> None:
        """Forget a connection that was closed."""
        if connection.reserved:
            with suppress(ValueError):  # It was aborted.
                self._reserved.remove(connection)
            return
        self._n_per_client[client] -= 1
        if self._n_per_client[client] == 0:
            del self._n_per_client[client]


def client_name(address: tuple[Any, ...] | None) -> str:
    """Return the name by which connections of a client are counted: its address or IPv6 network.

    >>> client_name(("192.0.2.7", 5000)), client_name(("2001:db8::1:2:3:4", 5000, 0, 0))
    ('192.0.2.7', '2001:db8::/64')
    """
    try:
        found = ipaddress.ip_address(str(address[0]).partition("%")[0]) if address else None
    except ValueError:
        found = None
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        # One client may have all addresses of its network.
        return str(ipaddress.IPv6Network((found, 64), strict=False))
    return "unknown" if found is None else str(found)


class TimedConnection(asyncio.Protocol):
    """Connection that is closed when its client is too slow.

    uvicorn limits only the time between two requests: a client could hold a connection forever on
    which it sends nothing, or the head of a request byte by byte, or of which it does not read the
    response. This class passes all events of the connection to uvicorn's own protocol, and itself
    to the application, in the state of the request's scope: `ConnectionMiddleware` calls
    `begin_request` and `end_request`. It relies on nothing of uvicorn but the signature by which
    uvicorn creates protocols.

    Parameters
    ----------
    make_protocol : uvicorn's protocol class.
    connections : those of all clients.
    app_state : state of the application, which uvicorn copies into the scope of every request.
    """

    def __init__(
        self,
        make_protocol: Callable[..., asyncio.Protocol],
        connections: OpenConnections,
        *,
        app_state: dict[str, Any],
        **options: Any,
    ):
        self._protocol = make_protocol(app_state={**app_state, CONNECTION: self}, **options)
        self._connections = connections
        self._n_requests = 0
        self._timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        self.reserved = False
        """True if it may only ask for the health of the server."""
        # These events are passed on unchanged.
        for name in ("data_received", "eof_received"):
            setattr(self, name, getattr(self._protocol, name))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, and start the timer for the first request."""
        self._transport = transport
        self._client = client_name(transport.get_extra_info("peername"))
        self._protocol.connection_made(transport)
        self.reserved = not self._connections.add(self, self._client)
        self._start_timer(RESERVED_SECONDS if self.reserved else HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection and stop its timers."""
        self._connections.remove(self, self._client)
        self._stop_timer()
        self._stop_send_timer()
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the timer for the client to read a part of the response."""
        loop = asyncio.get_running_loop()
        self._send_timer = loop.call_later(SEND_SECONDS, self.abort)
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Stop that timer."""
        self._stop_send_timer()
        self._protocol.resume_writing()

    def begin_request(self) -> None:
        """Stop the timer, since the head of a request has arrived."""
        self._n_requests += 1
        self._stop_timer()

    def end_request(self) -> None:
        """Start the timer for the next request, or for the client to read the last response."""
        self._n_requests -= 1
        if self._n_requests == 0:
            self._start_timer(SEND_SECONDS if self._transport.is_closing() else HEAD_SECONDS)

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def _start_timer(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._close)

    def _close(self) -> None:
        """Close the connection, at the latest when the client has not read the rest in time."""
        if self._transport.is_closing():  # It waits for the client.
            self.abort()
        else:
            self._transport.close()
            self._start_timer(SEND_SECONDS)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_send_timer(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None


_TOO_MANY = ApiError(
    "overloaded", "too many connections are open; close some, or try again later.", retry_after=5
)


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
            if message["type"] == "http.response.start" and connection.reserved:
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            if message["type"] == "http.response.body" and body_pending:
                end_pending = not message.get("more_body", False)
                message = {**message, "more_body": True}
            await send(message)

        connection: TimedConnection = scope["state"][CONNECTION]
        connection.begin_request()
        app = self._app
        if connection.reserved and scope["path"] not in HEALTH_ROUTES:
            app = _TOO_MANY.response()
        try:
            await app(scope, receive_body, send_response)
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


def n_descriptors() -> int:
    """Return how many files and connections this process may have open."""
    try:
        import resource
    except ImportError:  # Windows.
        return DESCRIPTORS
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return DESCRIPTORS if allowed < 0 else allowed


def make_server(service: Service) -> Server:
    """Return a server that is not yet running.

    At most half of the descriptors of the process are for connections, an eighth for those that ask
    for its health and an eighth for those that are being accepted, so that files can always be
    opened.
    """
    descriptors = n_descriptors()
    most = min(service.settings.max_connections, descriptors // 2)
    config = uvicorn.Config(
        ConnectionMiddleware(make_app(service)),
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=min(BACKLOG, descriptors // 8),
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        http="h11",
        ws="none",
    )
    config.load()
    connections = OpenConnections(most, min(N_RESERVED, descriptors // 8))
    protocol = partial(TimedConnection, config.http_protocol_class, connections)
    config.http_protocol_class = protocol  # type: ignore[assignment]
    return Server(config, service)


def serve(service: Service, bound: socket.socket) -> bool:
    """Handle requests until a signal ends the server; return whether it was Ctrl-C."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    # `SecurityMiddleware` logs errors; uvicorn's messages concern clients and the shutdown.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").addFilter(RepeatFilter())  # Too many open files, for example.
    server = make_server(service)
    server.run(sockets=[bound])
    return server.interrupted
