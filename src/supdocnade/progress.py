"""Callbacks: for the progress of everything that takes long, and for the epochs of a training."""

import sys
import time
from collections.abc import Callable, Mapping

ProgressCallback = Callable[[str, int, int | None], None]
"""Called with the stage, the number of units done, and their total; None if it is unknown."""

EpochCallback = Callable[[int, Mapping[str, float]], bool | None]
"""Called with the number of an epoch, from 1, and its metrics."""

SECONDS_BETWEEN_LINES = 2.0


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Ignore a progress report."""


class PartProgress:
    """Reports the progress of work that is done in parts, one after the other, as that of one.

    Parameters
    ----------
    progress : called with the units done in all parts.
    total : units of all parts.
    """

    def __init__(self, progress: ProgressCallback, total: int) -> None:
        self.progress, self.total = progress, total
        self.before = 0
        """Units done before the part that is worked on."""

    def __call__(self, stage: str, done: int, total: int | None = None) -> None:
        """Report the number of units done in this part."""
        self.progress(stage, self.before + done, self.total)


class PrintProgress:
    """Prints lines with the progress of each stage and the time left to stderr."""

    def __init__(self) -> None:
        self.stage: str | None = None
        self.started = self.printed = 0.0

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Print a line every two seconds, and one at the end of the stage."""
        now = time.monotonic()
        if stage != self.stage:
            self.stage, self.started, self.printed = stage, now, now
        if total is not None and done >= total:
            print(f"{stage}: {total} of {total}, {now - self.started:.1f} s", file=sys.stderr)
            self.stage = None
        elif total and done and now - self.printed >= SECONDS_BETWEEN_LINES:
            left = (now - self.started) * (total - done) / done
            print(f"{stage}: {done} of {total}, {left:.0f} s left", file=sys.stderr)
            self.printed = now
