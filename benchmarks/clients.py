"""Load generator that times accepted requests apart from refused ones, which `ab` cannot do.

Every client sends its next request as soon as it has the response, on a new connection, as `ab`
does.
"""

import asyncio
import statistics
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

OK, REFUSED, FAILED = 200, 503, 0
"""Statuses of a request; FAILED if the connection broke."""


def generate_load(
    url: str, body: bytes, media_type: str, *, clients: int, seconds: float
) -> dict[str, Any]:
    """Post a request repeatedly for some seconds, at least once per client; return a summary."""
    address = urlsplit(url)
    head = (
        f"POST {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\n"
        f"Content-Type: {media_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    start = perf_counter()
    outcomes = asyncio.run(_run_clients(url, head.encode() + body, clients, start + seconds))
    return summarize(outcomes, perf_counter() - start)


def summarize(outcomes: list[tuple[int, float]], seconds: float) -> dict[str, Any]:
    """Return counts, and the times of accepted requests.

    Parameters
    ----------
    outcomes : status and milliseconds of every request.
    seconds : duration of the load.

    >>> summarize([(200, 5.0), (200, 7.0), (503, 1.0)], 2.0)["p99_ms"]
    7.0
    """
    accepted, refused = (
        sorted(ms for status, ms in outcomes if status == wanted) for wanted in (OK, REFUSED)
    )
    return {
        "requests": len(outcomes),
        "answered": len(accepted),
        "refused": len(refused),
        "failed": len(outcomes) - len(accepted) - len(refused),
        "answered_per_second": len(accepted) / seconds,
        "p50_ms": _percentile(accepted, 0.5),
        "p99_ms": _percentile(accepted, 0.99),
        "longest_ms": _percentile(accepted, 1.0),
        "refused_p50_ms": statistics.median(refused) if refused else None,
    }


def _percentile(ordered: list[float], share: float) -> float | None:
    if not ordered:
        return None
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


async def _run_clients(
    url: str, request: bytes, clients: int, end: float
) -> list[tuple[int, float]]:
    address = urlsplit(url)
    outcomes: list[tuple[int, float]] = []

    async def run_client() -> None:
        while True:
            start = perf_counter()
            try:
                reader, writer = await asyncio.open_connection(address.hostname, address.port)
                try:
                    writer.write(request)
                    status = int((await reader.read()).split(None, 2)[1])
                finally:
                    writer.close()
            except (OSError, IndexError):
                status = FAILED
            outcomes.append((status, 1e3 * (perf_counter() - start)))
            if perf_counter() >= end:
                return

    await asyncio.gather(*(run_client() for _ in range(clients)))
    return outcomes
