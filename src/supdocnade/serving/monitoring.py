"""Figures of a running server, as Prometheus reads them."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BATCHES = (1, 2, 4, 8, 16, 32)


class Metrics:
    """Counters of one server."""

    media_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(namespace="supdocnade", registry=registry)
        self.requests = Counter(
            "supdocnade_requests",
            "Requests that were answered.",
            ("method", "route", "status"),
            registry=registry,
        )
        self.seconds = Histogram(
            "supdocnade_request_seconds",
            "From a request's first byte to the end of its answer.",
            ("route",),
            buckets=SECONDS,
            registry=registry,
        )
        self.images = Counter(
            "supdocnade_images",
            "Images that were looked at, by what came of it.",
            ("outcome",),
            registry=registry,
        )
        self.batch_size = Histogram(
            "supdocnade_batch_images",
            "Images that were worked on together.",
            buckets=BATCHES,
            registry=registry,
        )
        self.work_seconds = Counter(
            "supdocnade_work_seconds", "Time that workers spent on images.", registry=registry
        )

    def watch(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Give a figure that is asked for when it is read."""
        Gauge(f"supdocnade_{name}", description, registry=self._registry).set_function(value)

    def text(self) -> bytes:
        """Return all of them."""
        return generate_latest(self._registry)
