"""Output of the commands: results on stdout, messages and progress bars on stderr."""

import json
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from supdocnade.text import clean_name


def print_line(text: str) -> None:
    """Print a line of a result and flush it, so that it passes through a pipe at once."""
    print(text, flush=True)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON in ASCII."""
    print_line(json.dumps(value, allow_nan=False))


def print_message(text: str) -> None:
    """Print a line to stderr, without control characters from names of files."""
    print(clean_name(text), file=sys.stderr, flush=True)


@contextmanager
def print_warnings(*, quiet: bool = False) -> Iterator[None]:
    """Print the warnings of the package as notes, or none if `quiet`."""
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
        else:
            warnings.simplefilter("default", UserWarning)
        warnings.showwarning = print_warning
        yield


def print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as a note, in one line; a replacement of `warnings.showwarning`."""
    print_message(f"note: {' '.join(str(message).split())}")


SECONDS_BETWEEN_LINES = 60
"""Seconds between lines of progress where there is no terminal."""


MIN_BAR_COLUMNS = 72
"""In a narrower terminal the counts and times take the place of the bar."""


class ProgressBars:
    """Progress callback that draws one bar per stage and measures the time of each stage.

    If stderr is not a terminal, a line is printed for each stage, and one every minute.

    Parameters
    ----------
    quiet : show nothing.
    stage_lines : False for commands of a single stage, which print lines only every minute.
    """

    def __init__(self, *, quiet: bool = False, stage_lines: bool = True):
        self.seconds: dict[str, float] = {}
        """Duration of each stage, counted from the end of the previous one."""
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._stage: str | None = None
        self._began = self._since = self._printed = time.perf_counter()
        is_terminal = sys.stderr.isatty()
        self._has_lines = not quiet and not is_terminal
        self._has_stage_lines = self._has_lines and stage_lines
        if not quiet and is_terminal:
            self._bars = _create_bars()

    def __enter__(self) -> Self:
        self._began = self._since = self._printed = time.perf_counter()
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enter_stage(None)
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Report the number of units done in a stage, and their total, if known."""
        is_new = stage != self._stage and stage not in self.seconds
        self._enter_stage(stage)
        if self._has_lines:
            now = time.perf_counter()
            if is_new and self._has_stage_lines:
                self._print_line(now, f"{stage} ({total:,})" if total and total > 1 else stage)
            elif now - self._printed >= SECONDS_BETWEEN_LINES:
                left = ""
                if total and done:
                    seconds = (now - self._since) * (total - done) / done
                    left = f" of {total:,}, {timedelta(seconds=int(seconds))} left"
                self._print_line(now, f"{stage}: {done:,}{left}")
        if self._bars is None:
            return
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=total)
        self._bars.update(self._tasks[stage], completed=done, total=total)

    def _print_line(self, now: float, text: str) -> None:
        """Print a line that starts with the time since the beginning."""
        self._printed = now
        print_message(f"[{timedelta(seconds=int(now - self._began))}] {text}")

    def _enter_stage(self, stage: str | None) -> None:
        """Add the time since the last change of stage to the stage that ended."""
        if stage == self._stage and stage is not None:
            return
        now = time.perf_counter()
        if self._stage is not None:
            self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._since
            self._since = now
        self._stage = stage


class _TimeColumn(TimeRemainingColumn):
    """Time that a stage still takes, and the time that it took."""

    def render(self, task: Task) -> Text:
        time = super().render(task)
        return Text("took ") + time if task.finished else time + Text(" left")


def _create_bars() -> Progress:
    console = Console(stderr=True)
    is_wide = console.width >= MIN_BAR_COLUMNS
    return Progress(
        TextColumn("{task.description}", table_column=Column(no_wrap=is_wide)),
        *([BarColumn()] if is_wide else []),
        MofNCompleteColumn(),
        _TimeColumn(elapsed_when_finished=True),
        console=console,
        redirect_stdout=False,  # Results must stay on stdout.
    )
