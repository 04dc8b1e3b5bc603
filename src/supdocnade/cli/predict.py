"""What a model says of photographs, and why: `supdocnade predict` and `supdocnade explain`."""

import csv
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from rich.cells import cell_len, set_cell_size

from supdocnade.cli.console import (
    format_count,
    print_json,
    print_line,
    print_message,
    show_progress,
)
from supdocnade.cli.model_commands import Explain, Predict, Suggest, Tag
from supdocnade.cli.stopping import SAME_COMMAND, explain_resuming
from supdocnade.errors import InvalidArgument
from supdocnade.folders.photo_folder import describe_passed_over, list_folder
from supdocnade.folders.photo_sources import expand_folders, kind_of_place
from supdocnade.images.decode import write_image
from supdocnade.images.reading import SkippedImage
from supdocnade.images.source import Source, normalize_address, source_name
from supdocnade.report.heatmap import draw_explanation
from supdocnade.runs import RunOptions
from supdocnade.scene.attribution import Explanation, explain_image
from supdocnade.scene.persistence import load_scene
from supdocnade.scene.prediction import PREDICTING, FittedScene, Prediction, iter_predictions
from supdocnade.storage import write_atomically
from supdocnade.text import clean_name, format_percent, read_file
from supdocnade.unfinished import OutputParts, digest

_ERROR = b'{"error": '
"""Beginning of the line of a photograph that could not be read."""


Row = dict[str, Any]
"""A prediction as `Prediction.to_dict` returns it."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_FORMULA = re.compile(r"[=+@\t\r]|-[^0-9]")
CSV_HEADER = "file,label,probability,unsure,tags,tag_probabilities,unfamiliar"

PICTURE_SUFFIX = ".png"
_MAX_LENGTH = 30
"""Maximum length of the parts of a default file name, which is limited to 255 bytes."""


def predict(options: Predict) -> int:
    """Print or write predictions. Return 1 if something failed."""
    fitted, sources = open_photographs(options, options.images)
    if options.output is not None:
        return predict_to_folder(fitted, sources, options.output, options)
    if options.csv:
        print_line(CSV_HEADER)
    format_line: Callable[[Row], str] = format_csv if options.csv else format_text
    if sys.stdout.isatty() and not (options.csv or options.json):
        names, columns = list(map(source_name, sources)), get_terminal_size().columns
        folder, format_line = terminal_format(names, fitted.classes, columns)
        if folder:
            print_line(f"in {clean_name(folder)}")

    def show(prediction: Prediction) -> None:
        row = prediction.to_dict(options.top)
        if options.json:
            print_json(row)
        else:
            print_line(format_line(row))

    return predict_all(fitted, sources, show, options)


def open_photographs(
    options: Predict | Tag | Suggest, named: Iterable[str]
) -> tuple[FittedScene, list[Source]]:
    """Return the model and the photographs that were named."""
    images = [normalize_address(image) for image in named]
    assert options.model is not None, "checked"
    # Not SceneModel, an estimator: importing scikit-learn and torch takes seconds.
    fitted = load_scene(options.model)
    if not options.quiet and getattr(options, "output", None) is None:
        print_passed_over(images)
    sources = expand_folders(images)
    if not sources:
        raise InvalidArgument(f"{', '.join(images)} contains no photographs.")
    return fitted, sources


def predict_all(
    fitted: FittedScene,
    sources: Sequence[Source],
    give: Callable[[Prediction], str | None],
    options: Predict | Tag,
) -> int:
    """Give each prediction to a function as soon as it is known; return 1 if something failed.

    Parameters
    ----------
    give : returns a sentence if it failed.
    """
    code, is_terminal = 0, sys.stdout.isatty()
    # Results on a terminal are progress enough.
    with show_progress(options, stage_lines=False, bars=not is_terminal, on_error="skip") as run:
        for result in iter_predictions(fitted, sources, run):
            failure = result.reason if isinstance(result, SkippedImage) else give(result)
            if failure is not None:
                print_message(f"error: {failure}")
                code = 1
    return code


def predict_to_folder(
    fitted: FittedScene,
    sources: Sequence[Source],
    output: Path,
    options: Predict,
) -> int:
    """Write predictions to files; return the exit code."""
    explain_resuming(SAME_COMMAND)
    with show_progress(options, stage_lines=False, on_error="skip") as run:
        reasons = write_predictions(fitted, sources, output, run, options.top)
    for reason in reasons:
        print_message(f"error: {reason}")
    if not options.quiet:
        n_predicted = format_count(len(sources) - len(reasons), "photograph")
        print_line(f"predictions of {n_predicted} written to {output}")
    return 1 if reasons else 0


def write_predictions(
    fitted: FittedScene,
    sources: Sequence[Source],
    output: Path,
    options: RunOptions = RunOptions(),
    top: int | None = None,
) -> list[str]:
    """Write predictions to files of a new folder; return the sentences about unreadable images.

    A file has one row per photograph, in their order: the prediction, or an error. The folder
    appears when all are written; an interrupted run resumes.

    Parameters
    ----------
    top : number of tags per photograph. By default, the tags that are probable enough.
    """
    plan = {
        "model": fitted.fingerprint(),
        "choices": digest(repr(fitted.choices)),
        "photographs": digest([source_name(source) for source in sources]),
        "top": top,
    }
    parts = OutputParts(output, "predict", plan, sources, ".jsonl", in_output=True)
    write_part, reasons = partial(_write_part, fitted, top), list[str]()
    with parts.open():
        for path, _ in parts.write(write_part, options, PREDICTING):
            lines = read_file(path).splitlines()
            reasons += [json.loads(line)["error"] for line in lines if line.startswith(_ERROR)]
        parts.publish()
    return reasons


def _write_part(
    fitted: FittedScene, top: int | None, path: Path, sources: Sequence[Source], options: RunOptions
) -> None:
    """Write the predictions of a part to a file."""
    rows = [
        {"error": clean_name(result.reason), "file": result.name}
        if isinstance(result, SkippedImage)
        else result.to_dict(top)
        for result in iter_predictions(fitted, sources, options)
    ]
    lines = [json.dumps(row, allow_nan=False) + "\n" for row in rows]
    write_atomically(path, "".join(lines).encode())


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
    name_width = min(longest, 32, max(width * 2 // 5, 12))
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


def explain(options: Explain) -> None:
    """Draw an explanation and print its summary."""
    image, picture = options.image, options.output
    check_picture(picture, image)
    fitted = load_scene(options.model)
    explanation = explain_image(
        fitted,
        image,
        label=options.label,
        tag=options.tag,
        name=os.fspath(image),
        device=options.device,
    )
    if picture is None:
        picture = unused_path(default_picture(image, explanation.name))
    write_image(picture, draw_explanation(image, explanation, fitted.encoder.describer.decoding))
    if options.json:
        print_json(explanation_to_dict(image, picture, explanation))
    elif not options.quiet:
        name = clean_name(explanation.name)
        print_line(f"{clean_name(str(image))}: {name}, {explanation.decision}")
        if explanation.voters:
            names = ", ".join(
                f"{clean_name(voter)} ({format_percent(share)})"
                for voter, share in explanation.voters
            )
            print_line(f"similar training photographs with this tag: {names}")
        print_line(f"picture written to {clean_name(str(picture))}")


def check_picture(output: Path | None, image: Path) -> None:
    """Raise if the picture has another suffix than .png or would replace the photograph."""
    if output is None:
        return
    if output.suffix.lower() != PICTURE_SUFFIX:
        raise InvalidArgument(f"--output must end in {PICTURE_SUFFIX}, got {output}.")
    if output.exists() and image.exists() and os.path.samefile(output, image):
        raise InvalidArgument(f"--output must not be the photograph itself, got {output}.")


def default_picture(image: Path, name: str) -> Path:
    """Return the default name of a picture in the current folder.

    >>> default_picture(Path("photos/a.jpg"), "open country").name
    'a-open-country.png'
    """
    slug = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "explained"
    return Path(f"{image.stem[:_MAX_LENGTH]}-{slug[:_MAX_LENGTH]}{PICTURE_SUFFIX}")


def unused_path(picture: Path) -> Path:
    """Return the path with the first number that no existing file has."""
    number, free = 1, picture
    while free.exists():
        number += 1
        free = picture.with_name(f"{picture.stem}-{number}{picture.suffix}")
    return free


def explanation_to_dict(image: Path, picture: Path, explanation: Explanation) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    patches = zip(
        explanation.centres_S2.tolist(),
        explanation.patch_size_S.tolist(),
        explanation.share_S.tolist(),
        strict=True,
    )
    return {
        "file": os.fspath(image),
        "picture": os.fspath(picture),
        "kind": explanation.kind,
        "name": explanation.name,
        "probability": explanation.probability,
        "given": explanation.given,
        "score": explanation.score,
        "empty": explanation.empty,
        "whole": explanation.whole,
        "global_share": explanation.global_share,
        "size": list(explanation.size),
        "patches": [
            {"y": y, "x": x, "size": size, "share": share} for (y, x), size, share in patches
        ],
        "topics": explanation.topic_share_H.tolist(),
        "features": explanation.feature_share,
        "voters": [{"file": name, "share": share} for name, share in explanation.voters],
    }
