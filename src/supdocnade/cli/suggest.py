"""`supdocnade suggest`: list the photographs whose labels would teach a model the most."""

from supdocnade.cli.console import (
    ProgressBars,
    print_json,
    print_line,
    print_message,
    print_warnings,
)
from supdocnade.cli.formats import class_cells, format_count, format_row, format_text
from supdocnade.cli.model_commands import Suggest
from supdocnade.images.source import absolute_address
from supdocnade.runs import RunOptions
from supdocnade.scene.dataset import expand_folders
from supdocnade.scene.persistence import load_scene
from supdocnade.scene.prediction import Prediction
from supdocnade.scene.suggestion import suggest_photographs

COLUMNS = (
    *("file_name", "label", "tags", "predicted_label", "probability", "predicted_tags"),
    *("uncertainty", "key"),
)
"""Columns of --csv; a person fills in label and tags."""


def suggest(options: Suggest) -> int:
    """Print the list; return 1 if some photographs cannot be read."""
    quiet = options.quiet
    fitted, _ = load_scene(options.model)
    sources = expand_folders(options.photos)
    with ProgressBars(quiet=quiet, stage_lines=False) as progress, print_warnings(quiet=quiet):
        run = RunOptions(
            n_jobs=options.jobs, device=options.device, on_error="skip", progress=progress
        )
        found, skipped = suggest_photographs(fitted, sources, options.count, run)
    for each in skipped:
        print_message(f"error: {each.reason}")
    n_read = len(sources) - len(skipped)
    if n_read and not found and not quiet:
        photographs = format_count(n_read, "photograph")
        print_message(f"note: the model has learned from all of the {photographs}.")
    if options.csv:
        print_line(format_row(COLUMNS))
    for prediction, uncertainty in found:
        if options.json:
            more = {"uncertainty": uncertainty, "key": prediction.key}
            print_json({**prediction.to_dict(), **more})
        elif options.csv:
            print_line(format_suggestion(prediction, uncertainty))
        else:
            print_line(format_text(prediction))
    return 1 if skipped else 0


def format_suggestion(prediction: Prediction, uncertainty: float) -> str:
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
