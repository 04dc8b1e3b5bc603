"""Output of the commands: results on stdout, messages and progress bars on stderr."""

import csv
import io
import json
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from supdocnade.text import clean_name, format_percent

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from supdocnade.scene.prediction import FittedScene, Prediction


MIN_PERCENT = 20
"""Number of photographs from which on a share is given in percent."""


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


def print_passed_over(places: Iterable[str]) -> None:
    """Print notes about the files in folders that are no photographs."""
    from supdocnade.folders.photo_folder import describe_passed_over, list_folder
    from supdocnade.folders.photo_sources import kind_of_place

    for folder in (place for place in places if kind_of_place(place) == "folder"):
        for note in describe_passed_over(list_folder(folder).others, with_tables=False):
            print_message(f"note: {folder}: {note}")


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural if needed.

    >>> format_count(1, "photograph"), format_count(3, "class")
    ('1 photograph', '3 classes')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}{'es' if noun.endswith('s') else 's'}"


def format_right(share: float, total: int) -> str:
    """Return the share of right predictions in percent, or as a fraction of few.

    >>> format_right(0.884, 240), format_right(1.0, 2)
    ('88.4 %', '2 of 2')
    """
    return f"{100 * share:.1f} %" if total >= MIN_PERCENT else f"{round(share * total)} of {total}"


def format_held_out(fitted: "FittedScene") -> str:
    """Return a sentence with the figures of a model on held-out photographs."""
    n_images, figures = fitted.held_out.n_images, fitted.held_out.figures
    if not n_images:
        return "too few photographs to test on, so its probabilities are unchecked"
    found = []
    # A single class is always right.
    if "accuracy" in figures and len(fitted.classes) > 1:
        n_labelled = int(figures["n_labelled"])
        right = format_right(figures["accuracy"], n_labelled)
        if n_labelled < n_images:
            number = f" of the {n_labelled}" if n_labelled >= MIN_PERCENT else ""
            right = f"{right}{number} with a class"
        found.append(f"class right for {right}")
    if "f_measure" in figures:
        found.append(f"F-measure of five tags {figures['f_measure']:.2f}")
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


SECONDS_BETWEEN_LINES = 60
"""Seconds between lines of progress where there is no terminal."""


class ProgressBars:
    """Progress callback that draws one bar per stage and measures the time of each stage.

    If stderr is no terminal, a line is printed for each stage, and one every minute.

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
                self._print_line(now, f"{stage} ({total})" if total and total > 1 else stage)
            elif now - self._printed >= SECONDS_BETWEEN_LINES:
                left = ""
                if total and done:
                    seconds = (now - self._since) * (total - done) / done
                    left = f" of {total}, {timedelta(seconds=int(seconds))} left"
                self._print_line(now, f"{stage}: {done}{left}")
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


def _create_bars() -> "Progress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=Console(stderr=True),
        redirect_stdout=False,  # Results must stay on stdout.
    )


CSV_HEADER = "file,label,probability,unsure,tags,tag_probabilities,unfamiliar"


def class_cells(prediction: "Prediction") -> list[str]:
    """Return the predicted class and its probability for a CSV row, empty without classes."""
    if prediction.label is None or prediction.probability is None:
        return ["", ""]
    return [prediction.label, f"{prediction.probability:.6f}"]


def format_json(prediction: "Prediction", top: int | None = None) -> str:
    """Return a prediction as one line of JSON, in ASCII."""
    return json.dumps(prediction.to_dict(top), allow_nan=False)


def format_csv(prediction: "Prediction", top: int | None = None) -> str:
    """Return a prediction as one CSV row under `CSV_HEADER`, with tags separated by |."""
    tags = prediction.best_tags(top)
    cells = [
        prediction.name,
        *class_cells(prediction),
        "true" if prediction.unsure else "false",
        "|".join(tag for tag, _ in tags),
        "|".join(f"{probability:.6f}" for _, probability in tags),
        "true" if prediction.unfamiliar else "false",
    ]
    return format_row(cells)


def format_row(cells: Sequence[str]) -> str:
    """Return cells as one row of CSV, without a line end."""
    line = io.StringIO()
    # With another line terminator, line breaks within a name would not be quoted.
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n")


def format_text(prediction: "Prediction", top: int | None = None) -> str:
    """Return a prediction as text: `a.jpg: coast 93 %; sea 98 %, sky 71 %`."""
    parts = []
    if prediction.label is not None and prediction.probability is not None:
        unsure = " (unsure)" if prediction.unsure else ""
        share = format_percent(prediction.probability)
        parts.append(f"{clean_name(prediction.label)} {share}{unsure}")
    if prediction.unfamiliar:
        parts.append("unlike the training photographs")
    tags = prediction.best_tags(top)
    named = (f"{clean_name(tag)} {format_percent(probability)}" for tag, probability in tags)
    parts.append(", ".join(named) if tags else "no tags")
    return f"{clean_name(prediction.name)}: {'; '.join(parts)}"
