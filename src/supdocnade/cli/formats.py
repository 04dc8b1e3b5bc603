"""Results as text: counts, tables, predictions and metrics."""

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.cells import cell_len, set_cell_size

from supdocnade.cli.console import print_message
from supdocnade.errors import UnreadableImage, UnreadableImages, install_command
from supdocnade.folders.photo_folder import PhotoFolder, describe_passed_over, list_folder
from supdocnade.folders.photo_sources import kind_of_place
from supdocnade.images.network_library import choose_features, find_network, list_networks
from supdocnade.scene.prediction import FittedScene
from supdocnade.text import clean_name, format_percent

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


def format_held_out(fitted: FittedScene) -> str:
    """Return a sentence with the metrics of a model on held-out photographs."""
    n_images, figures = fitted.held_out.n_images, fitted.held_out.figures
    if not n_images:
        return "too few photographs to test on, so its probabilities are unchecked"
    found = []
    # A single class is always right.
    if "accuracy" in figures and len(fitted.classes) > 1:
        n_labelled = int(figures["n_labelled"])
        right = format_right(figures["accuracy"], n_labelled)
        if n_labelled < n_images:
            number = f" of the {n_labelled:,}" if n_labelled >= MIN_PERCENT else ""
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


Row = dict[str, Any]
"""A prediction as `Prediction.to_dict` returns it."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_FORMULA = re.compile(r"[=+@\t\r]|-[^0-9]")
CSV_HEADER = "file,label,probability,unsure,tags,tag_probabilities,unfamiliar"


def class_cells(row: Row) -> list[str]:
    """Return the predicted class and its probability for a CSV row, empty without classes."""
    return ["", ""] if row["label"] is None else [row["label"], f"{row['probability']:.6f}"]


def format_csv(row: Row) -> str:
    """Return a prediction as one CSV row under `CSV_HEADER`, with tags separated by |."""
    cells = [
        row["file"],
        *class_cells(row),
        "true" if row["unsure"] else "false",
        "|".join(each["tag"] for each in row["tags"]),
        "|".join(f"{each['probability']:.6f}" for each in row["tags"]),
        "true" if row["unfamiliar"] else "false",
    ]
    return format_row(cells)


def format_row(cells: Sequence[str]) -> str:
    """Return cells as one row of CSV, without a line end.

    Control characters are left out, and names that a spreadsheet would take for formulas are
    quoted, since they may come from a model of somebody else.

    >>> format_row(["=1+1.jpg", "-0.5", "red\x1b[31m"])
    "'=1+1.jpg,-0.5,red[31m"
    """
    line = io.StringIO()
    printable = [_CONTROL.sub("", cell) for cell in cells]
    quoted = [f"'{cell}" if _FORMULA.match(cell) else cell for cell in printable]
    # With another line terminator, line breaks within a name would not be quoted.
    csv.writer(line, lineterminator="\r\n").writerow(quoted)
    return line.getvalue().removesuffix("\r\n")


def format_text(row: Row) -> str:
    """Return a prediction as text: `a.jpg: coast 93 %; sea 98 %, sky 71 %`."""
    parts = []
    if row["label"] is not None:
        unsure = " (unsure)" if row["unsure"] else ""
        parts.append(f"{clean_name(row['label'])} {format_percent(row['probability'])}{unsure}")
    if row["unfamiliar"]:
        parts.append("unlike the training photographs")
    named = [
        f"{clean_name(each['tag'])} {format_percent(each['probability'])}" for each in row["tags"]
    ]
    if named:
        parts.append(", ".join(named))
    return f"{clean_name(row['file'])}: {'; '.join(parts) or 'no tags'}"


def terminal_format(
    names: Sequence[str], classes: Sequence[str], width: int
) -> tuple[str, Callable[[Row], str]]:
    """Return the common folder of photographs, and a function that formats predictions in columns.

    Parameters
    ----------
    width : of the terminal; tags that do not fit go to the next lines.
    """
    common = os.path.commonprefix(names) if len(names) > 1 else ""  # noqa: RUF071 (cut at a slash)
    folder = "".join(common.rpartition("/")[:2])
    longest = max((cell_len(clean_name(name[len(folder) :])) for name in names), default=0)
    name_width = min(longest, 32, max(width // 3, 12))
    label_width = min(max(map(cell_len, classes), default=0), 24)

    def format_columns(row: Row) -> str:
        name = clean_name(row["file"][len(folder) :])
        while cell_len(name) > name_width:  # The end tells files apart.
            name = f"…{name.removeprefix('…')[1:]}"
        cells = [set_cell_size(name, name_width)]
        if row["label"] is not None:
            share = format_percent(row["probability"]).rjust(5)
            cells.append(f"{set_cell_size(clean_name(row['label']), label_width)} {share}")
        marks = {"unsure": row["unsure"], "unlike the training photographs": row["unfamiliar"]}
        said = [f"({mark})" for mark, holds in marks.items() if holds]
        lines, between = ["  ".join([*cells, *said])], "  "
        indent = " " * cell_len("  ".join(cells))
        for each in row["tags"]:
            tag = f"{clean_name(each['tag'])} {format_percent(each['probability'])}"
            if cell_len(f"{lines[-1]}{between}{tag},") > width:
                lines[-1] += between.rstrip()
                lines, between = [*lines, indent], "  "
            lines[-1] += f"{between}{tag}"
            between = ", "
        return "\n".join(line.rstrip() for line in lines)

    return folder, format_columns


def print_passed_over(places: Iterable[str]) -> None:
    """Tell the user which files of folders were skipped because they are not photographs."""
    for folder in (place for place in places if kind_of_place(place) == "folder"):
        for note in describe_passed_over(list_folder(folder).others, with_tables=False):
            print_message(f"note: {folder}: {note}")


def describe_invalid_lines(folder: PhotoFolder) -> list[str]:
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


def resolve_features(features: str) -> str:
    """Return the features that "auto" stands for on this machine; others if they are installed."""
    if features == "auto":
        return choose_features()
    if features not in ("sift", *list_networks()):
        find_network(features)  # Raises.
    return features


def describe_features(features: str) -> str:
    """Return a line that names the features of a model."""
    if features != "sift":
        return f"features: the pretrained network {features}"
    hint = ""
    if choose_features() == "sift":
        hint = f"; {install_command('deep')} adds a network, which is more accurate"
    return f"features: SIFT{hint}"
