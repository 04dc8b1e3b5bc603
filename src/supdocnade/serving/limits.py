"""What a server allows."""

from dataclasses import dataclass

from supdocnade.checks import check_count, check_range
from supdocnade.errors import InvalidArgument

MEBIBYTE = 2**20


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Limits and access of a server."""

    token: str | None = None
    """Whoever asks must know it; None: nobody is asked for one."""
    allowed_hosts: tuple[str, ...] = ()
    """Names, beside those of this machine's loopback, by which the server may be called where it
    has no token. Otherwise a foreign page could reach it by a name that leads here."""
    check_host: bool = True
    """Whether the name is looked at; not where the server is meant to be open to everyone."""
    max_request_bytes: int = 64 * MEBIBYTE
    max_held_bytes: int = 256 * MEBIBYTE
    """Of all requests together that are in memory."""
    max_images: int = 32
    """Of a request."""
    max_pixels: int = 64_000_000
    """Of an image as its file says of itself, before anything is decoded."""
    max_waiting: int = 256
    """Images in the queue; where a request of `max_images` would not find room, all are refused,
    with a time to come back."""
    max_batch: int = 8
    """Images that a worker answers together."""
    n_workers: int = 2
    upload_seconds: float = 30.0
    """To send a request."""
    answer_seconds: float = 30.0
    """From a request's last byte to its answer."""

    def __post_init__(self) -> None:
        for name in ("max_request_bytes", "max_images", "max_pixels", "max_batch", "n_workers"):
            check_count(name, getattr(self, name), least=1)
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
            raise InvalidArgument("the token must be of printable ASCII characters.")
        if self.token is not None and (not self.token or " " in self.token):
            raise InvalidArgument("the token must not be empty or hold spaces.")
