"""Output of the commands: results on stdout, messages and progress on stderr, and their texts."""

import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

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

from supdocnade.errors import UnreadableImage, UnreadableImages
from supdocnade.runs import RunOptions
from supdocnade.text import clean_name

if TYPE_CHECKING:
    from supdocnade.folders.photo_folder import PhotoFolder
    from supdocnade.scene.prediction import FittedScene


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


@contextmanager
def show_progress(
    options: Any, *, stage_lines: bool = True, bars: bool = True, **more: Any
) -> Iterator[RunOptions]:
    """Show the progress of some work and its warnings as notes; yield how to do it.

    Parameters
    ----------
    options : of the command.
    stage_lines : as for `ProgressBars`.
    bars : False to show warnings alone.
    more : other fields of `RunOptions`.
    """
    quiet, device = options.quiet, getattr(options, "device", "auto")
    shown = ProgressBars(quiet=quiet or not bars, stage_lines=stage_lines)
    with shown as progress, print_warnings(quiet=quiet):
        yield RunOptions(n_jobs=options.jobs, device=device, progress=progress, **more)


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


MIN_PERCENT = 20
"""Below this number of photographs, "3 of 7" is printed instead of a percentage."""


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural if needed.

    >>> format_count(1, "photograph"), format_count(3, "class")
    ('1 photograph', '3 classes')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}{'es' if noun.endswith('s') else 's'}"


def format_right(share: float, total: int) -> str:
    """Return the share of right predictions in percent, or as a fraction of few.

    >>> format_right(0.884, 240), format_right(1.0, 2)
    ('88.4 %', '2 of 2')
    """
    return f"{100 * share:.1f} %" if total >= MIN_PERCENT else f"{round(share * total)} of {total}"


def format_held_out(fitted: "FittedScene") -> str:
    """Return a sentence with the metrics of a model on held-out photographs."""
    n_images, metrics = fitted.held_out.n_images, fitted.held_out.metrics
    if not n_images:
        return "too few photographs to test on, so its probabilities are unchecked"
    found = []
    # A single class is always right.
    if "accuracy" in metrics and len(fitted.classes) > 1:
        n_labelled = int(metrics["n_labelled"])
        right = format_right(metrics["accuracy"], n_labelled)
        if n_labelled < n_images:
            number = f" of the {n_labelled:,}" if n_labelled >= MIN_PERCENT else ""
            right = f"{right}{number} with a class"
        found.append(f"class right for {right}")
    if "f_measure" in metrics:
        found.append(f"F-measure of five tags {metrics['f_measure']:.2f}")
    number = format_count(n_images, "photograph")
    measured = f": {', '.join(found)}" if found else ""
    return f"tested on {number} it had not seen{measured}; the final model was then trained on all"


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as aligned columns, the first to the left and the others to the right.

    >>> print(format_table([["coast", "9"], ["forest", "10"]]))
    coast    9
    forest  10
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def describe_invalid_lines(folder: "PhotoFolder") -> list[str]:
    """Return a sentence about the lines of the metadata that were skipped, if there are any."""
    if not folder.invalid_lines:
        return []
    number = format_count(len(folder.invalid_lines), "line")
    return [f"{number} of the metadata skipped; the first: {folder.invalid_lines[0]}"]


@contextmanager
def offer_skipping() -> Iterator[None]:
    """Tell the user how to go on after photographs that cannot be read."""
    try:
        yield
    except UnreadableImage as error:
        reasons = error.reasons if isinstance(error, UnreadableImages) else (str(error),)
        what, them = reasons[0].rstrip("."), "it"
        if len(reasons) > 1:
            what, them = f"{len(reasons)} photographs cannot be read", "them"
            for reason in reasons:
                print_message(f"error: {reason}")
        raise UnreadableImage(
            f"{what}; repair {them}, or add --skip-unreadable to leave {them} out."
        ) from error
