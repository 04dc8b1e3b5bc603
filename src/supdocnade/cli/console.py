"""What people see: results on stdout, notes and progress on stderr."""

import csv
import io
import json
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from supdocnade.text import clean_name

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from supdocnade.scene.prediction import Prediction


def say(text: str) -> None:
    """Print a line of a result; it is seen at once, also through a pipe."""
    print(text, flush=True)


def say_json(value: Any) -> None:
    """Print a value as one line of JSON, in plain ASCII, whatever names are in it."""
    say(json.dumps(value, allow_nan=False))


def note(text: str) -> None:
    """Print a line on stderr; names in it may come from anyone."""
    print(clean_name(text), file=sys.stderr, flush=True)


def count(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count(1, "photograph"), count(3, "class")
    ('1 photograph', '3 classes')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}{'es' if noun.endswith('s') else 's'}"


def percent(share: float) -> str:
    """Return a share as people read it.

    >>> percent(0.934)
    '93 %'
    """
    return f"{100 * share:.0f} %"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return lines of cells in columns, the first to the left and the others to the right.

    >>> print(table([["coast", "9"], ["forest", "10"]]))
    coast    9
    forest  10
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


class Stages:
    """Takes reports of progress: draws a bar for every stage, and adds up the time that it took.

    Bars are drawn on stderr, and only where that is a terminal.
    """

    def __init__(self, *, quiet: bool = False):
        self.seconds: dict[str, float] = {}
        """Of every stage, from the end of the one before it."""
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._stage: str | None = None
        self._since = time.perf_counter()
        if not quiet and sys.stderr.isatty():
            self._bars = _bars()

    def __enter__(self) -> Self:
        self._since = time.perf_counter()
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._clock(None)
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Report what is being done, how much of it is done, and how much there is, if known."""
        self._clock(stage)
        if self._bars is None:
            return
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=total)
        self._bars.update(self._tasks[stage], completed=done, total=total)

    def _clock(self, stage: str | None) -> None:
        """Give the time since the last change to the stage that is over."""
        if stage == self._stage and stage is not None:
            return
        now = time.perf_counter()
        if self._stage is not None:
            self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._since
            self._since = now
        self._stage = stage


def _bars() -> "Progress":
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
        redirect_stdout=False,  # Results are no part of the progress: they go where they should.
    )


# A prediction as a line: of JSON, of CSV, or for people.


CSV_HEADER = "file,label,probability,unsure,tags,tag_probabilities"


def tags_of(prediction: "Prediction", top: int | None) -> tuple[tuple[str, float], ...]:
    """Return the tags to give: the `top` best, or those that the photograph deserves."""
    return prediction.tags if top is None else prediction.ranked_tags[:top]


def as_object(prediction: "Prediction", top: int | None = None) -> dict[str, Any]:
    """Return a prediction as `--json` prints it."""
    return {
        "file": prediction.name,
        "label": prediction.label,
        "probability": prediction.probability,
        "unsure": prediction.unsure,
        "probabilities": prediction.probabilities,
        "tags": [
            {"tag": tag, "probability": probability}
            for tag, probability in tags_of(prediction, top)
        ],
    }


def json_line(prediction: "Prediction", top: int | None = None) -> str:
    """Return a prediction as one line of JSON, in ASCII."""
    return json.dumps(as_object(prediction, top), allow_nan=False)


def csv_line(prediction: "Prediction", top: int | None = None) -> str:
    """Return a prediction as one line under `CSV_HEADER`; tags are separated by |."""
    tags = tags_of(prediction, top)
    cells = [
        prediction.name,
        prediction.label or "",
        "" if prediction.probability is None else f"{prediction.probability:.6f}",
        "true" if prediction.unsure else "false",
        "|".join(tag for tag, _ in tags),
        "|".join(f"{probability:.6f}" for _, probability in tags),
    ]
    line = io.StringIO()
    # With another end of line, breaks within a name would not be quoted.
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n")


def text_line(prediction: "Prediction", top: int | None = None) -> str:
    """Return a prediction as people read it: `a.jpg: coast 93 %; sea 98 %, sky 71 %`."""
    parts = []
    if prediction.label is not None and prediction.probability is not None:
        unsure = " (unsure)" if prediction.unsure else ""
        label = clean_name(prediction.label)
        parts.append(f"{label} {percent(prediction.probability)}{unsure}")
    tags = [
        f"{clean_name(tag)} {percent(probability)}" for tag, probability in tags_of(prediction, top)
    ]
    parts.append(", ".join(tags) if tags else "no tags")
    return f"{clean_name(prediction.name)}: {'; '.join(parts)}"
