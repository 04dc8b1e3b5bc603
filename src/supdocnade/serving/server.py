"""A server process: its socket, its signals, and its end."""

import ipaddress
import logging
import signal
import socket
import sys
from types import FrameType

import numpy as np
import uvicorn

from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.imaging.encode import encode
from supdocnade.serving.app import make_app
from supdocnade.serving.connections import Connection
from supdocnade.serving.service import Service

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
