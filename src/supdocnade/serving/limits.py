"""Settings of a server: its limits, and who has access."""

from dataclasses import dataclass

from supdocnade.checks import check_count, check_range
from supdocnade.errors import InvalidArgument

MEBIBYTE = 2**20


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Limits and access of a server."""

    token: str | None = None
    """Token that every request must carry; None for no token."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names, besides loopback, that are accepted without a token. Any other name could be one
    that a foreign page made to resolve to this machine."""
    check_host: bool = True
    """Check the host name; False for a server that is open to everyone."""
    max_request_bytes: int = 64 * MEBIBYTE
    max_held_bytes: int = 256 * MEBIBYTE
    """Memory for the bodies of all requests together."""
    max_images: int = 32
    """Images per request."""
    max_pixels: int = 64_000_000
    """Pixels per image, as declared in the file, before anything is decoded."""
    max_waiting: int = 256
    """Images in the queue. All requests are refused, with a `Retry-After`, while the queue has no
    room for `max_images` more."""
    max_batch: int = 8
    """Images that a worker processes together."""
    max_connections: int = 512
    """Connections at a time, at most half of the descriptors of the process; half of them may be
    those of one client."""
    n_workers: int = 2
    upload_seconds: float = 30.0
    """Time to send a request."""
    answer_seconds: float = 30.0
    """Time from the last byte of a request to its response."""

    def __post_init__(self) -> None:
        for name in ("max_request_bytes", "max_images", "max_pixels", "max_batch", "n_workers"):
            check_count(name, getattr(self, name), least=1)
        check_count("max_connections", self.max_connections, least=2)
        if self.max_waiting < self.max_images:
            raise InvalidArgument(
                f"max_waiting must be at least max_images, {self.max_images}, "
                f"got {self.max_waiting}."
            )
        if self.max_held_bytes < self.max_request_bytes:
            raise InvalidArgument(
                f"max_held_bytes must be at least max_request_bytes, {self.max_request_bytes}, "
                f"got {self.max_held_bytes}."
            )
        check_range("upload_seconds", self.upload_seconds, above=0)
        check_range("answer_seconds", self.answer_seconds, above=0)
        if self.token is not None and not (self.token.isascii() and self.token.isprintable()):
            raise InvalidArgument("the token must consist of printable ASCII characters.")
        if self.token is not None and (not self.token or " " in self.token):
            raise InvalidArgument("the token must not be empty or contain spaces.")
