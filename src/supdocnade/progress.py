"""Lines of progress on stderr, for who asked an estimator to be verbose."""

import sys
import time

SECONDS_BETWEEN_LINES = 2.0


class PrintStages:
    """Prints how far a stage is and the time that is left, now and then; and when it is over."""

    def __init__(self) -> None:
        self.stage: str | None = None
        self.started = self.printed = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take a report: what is being done, how much of it is done, and how much there is."""
        now = time.monotonic()
        if stage != self.stage:
            self.stage, self.started, self.printed = stage, now, now
        if done >= total:
            print(f"{stage}: {total} of {total}, {now - self.started:.1f} s", file=sys.stderr)
            self.stage = None
        elif done and now - self.printed >= SECONDS_BETWEEN_LINES:
            left = (now - self.started) * (total - done) / done
            print(f"{stage}: {done} of {total}, {left:.0f} s left", file=sys.stderr)
            self.printed = now
