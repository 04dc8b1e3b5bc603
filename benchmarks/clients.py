"""Clients of our own, which tell requests that were answered from those refused: `ab` does not.

Each asks again as soon as it has its answer, whatever it was, on a new connection, as `ab` does.
"""

import asyncio
import statistics
from time import perf_counter
from typing import Any, NamedTuple
from urllib.parse import urlsplit

ANSWERED, REFUSED, FAILED = 200, 503, 0


class Asked(NamedTuple):
    """What came of a request."""

    status: int
    """FAILED: the connection broke."""
    ms: float


def ask(url: str, body: bytes, media_type: str, *, clients: int, seconds: float) -> dict[str, Any]:
    """Ask for some seconds; return what came of it, answers apart from refusals.

    Parameters
    ----------
    url : that is posted to.
    """
    began = perf_counter()
    found = asyncio.run(_ask(url, _request(url, body, media_type), clients, began + seconds))
    return summary(found, perf_counter() - began)


def summary(found: list[Asked], seconds: float) -> dict[str, Any]:
    """Return counts, and the times of those that were answered.

    >>> summary([Asked(200, 5.0), Asked(200, 7.0), Asked(503, 1.0)], 2.0)["p99_ms"]
    7.0
    """
    answered, refused = (
        sorted(each.ms for each in found if each.status == status) for status in (ANSWERED, REFUSED)
    )
    return {
        "requests": len(found),
        "answered": len(answered),
        "refused": len(refused),
        "failed": len(found) - len(answered) - len(refused),
        "answered_per_second": len(answered) / seconds,
        "p50_ms": _percentile(answered, 0.5),
        "p99_ms": _percentile(answered, 0.99),
        "longest_ms": _percentile(answered, 1.0),
        "refused_p50_ms": statistics.median(refused) if refused else None,
    }


def _percentile(ordered: list[float], share: float) -> float | None:
    if not ordered:
        return None
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def _request(url: str, body: bytes, media_type: str) -> bytes:
    address = urlsplit(url)
    head = (
        f"POST {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\n"
        f"Content-Type: {media_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _ask(url: str, request: bytes, clients: int, end: float) -> list[Asked]:
    found: list[Asked] = []
    await asyncio.gather(*(_client(url, request, end, found) for _ in range(clients)))
    return found


async def _client(url: str, request: bytes, end: float, found: list[Asked]) -> None:
    address = urlsplit(url)
    while (began := perf_counter()) < end:
        try:
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            try:
                writer.write(request)
                status = int((await reader.read()).split(None, 2)[1])
            finally:
                writer.close()
        except (OSError, IndexError):
            status = FAILED
        found.append(Asked(status, 1e3 * (perf_counter() - began)))
