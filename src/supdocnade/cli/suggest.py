"""`supdocnade suggest`: list the photographs whose labels would teach a model the most."""

from typing import TYPE_CHECKING, Annotated

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import (
    ProgressBars,
    class_cells,
    format_count,
    format_row,
    format_text,
    print_json,
    print_line,
    print_message,
    print_warnings,
)
from supdocnade.images.source import absolute_address
from supdocnade.runs import RunOptions

if TYPE_CHECKING:
    from supdocnade.scene.prediction import Prediction

COLUMNS = (
    *("file_name", "label", "tags", "predicted_label", "probability", "predicted_tags"),
    *("uncertainty", "key"),
)
"""Columns of --csv; a person fills in label and tags."""

Photos = Annotated[
    list[str],
    typer.Argument(metavar="PHOTOS", help="Folders of photographs, or other places, as predict."),
]
Count = Annotated[int, typer.Option("--count", "-n", min=1, help="Length of the list.")]
Csv = Annotated[
    bool,
    typer.Option("--csv", help="Print a table with empty columns label and tags, to fill in."),
]


def suggest(
    model: opt.Model,
    photos: Photos,
    count: Count = 20,
    json: opt.Json = False,
    csv: Csv = False,
    device: opt.Device = "auto",
    jobs: opt.Jobs = -1,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """List the photographs whose labels would teach a model the most.

    They are those whose class or tags the model is uncertain of, without near-duplicates of each
    other, the most useful first. Photographs that it has learned from are left out. Label them in a
    table (--csv) or on the page (serve --corrections), then use train --add --corrections.

    \b
    Examples:
      supdocnade suggest scenes archive
      supdocnade suggest scenes archive -n 50 --csv > labels.csv
      supdocnade train archive --add scenes --corrections labels.csv -o better-scenes
      supdocnade suggest scenes archive --json | jq -r .file > suggested.txt
    """
    opt.check_device(device)
    opt.check_formats(json=json, csv=csv)
    from supdocnade.scene.dataset import expand_folders
    from supdocnade.scene.persistence import load_scene
    from supdocnade.scene.suggestion import suggest_photographs

    fitted, _ = load_scene(model)
    sources = expand_folders(photos)
    with ProgressBars(quiet=quiet, stage_lines=False) as progress, print_warnings(quiet=quiet):
        options = RunOptions(n_jobs=jobs, device=device, on_error="skip", progress=progress)
        found, skipped = suggest_photographs(fitted, sources, count, options)
    for each in skipped:
        print_message(f"error: {each.reason}")
    n_read = len(sources) - len(skipped)
    if n_read and not found and not quiet:
        photographs = format_count(n_read, "photograph")
        print_message(f"note: the model has learned from all of the {photographs}.")
    if csv:
        print_line(format_row(COLUMNS))
    for prediction, uncertainty in found:
        if json:
            more = {"uncertainty": uncertainty, "key": prediction.key}
            print_json({**prediction.to_dict(), **more})
        elif csv:
            print_line(format_suggestion(prediction, uncertainty))
        else:
            print_line(format_text(prediction))
    if skipped:
        raise typer.Exit(1)


def format_suggestion(prediction: "Prediction", uncertainty: float) -> str:
    """Return a suggestion as one CSV row under `COLUMNS`."""
    return format_row(
        [
            absolute_address(prediction.name),
            "",
            "",
            *class_cells(prediction),
            "|".join(tag for tag, _ in prediction.tags),
            f"{uncertainty:.6f}",
            prediction.key or "",
        ]
    )
