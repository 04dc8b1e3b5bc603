"""`supdocnade predict`: print the class and tags of photographs, or write them to files."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from supdocnade.cli.console import (
    ProgressBars,
    print_json,
    print_line,
    print_message,
    print_warnings,
)
from supdocnade.cli.formats import (
    CSV_HEADER,
    Row,
    format_count,
    format_csv,
    format_text,
    print_passed_over,
    terminal_format,
)
from supdocnade.cli.model_commands import Predict, Tag
from supdocnade.cli.stopping import SAME_COMMAND, explain_resuming
from supdocnade.cluster import shard_options
from supdocnade.errors import InvalidArgument
from supdocnade.folders.photo_sources import expand_folders
from supdocnade.images.reading import SkippedImage, image_name
from supdocnade.images.source import Source, normalize_address, source_name
from supdocnade.runs import PartProgress, RunOptions
from supdocnade.scene.persistence import load_scene
from supdocnade.scene.prediction import PREDICTING, FittedScene, Prediction, iter_predictions
from supdocnade.storage import write_atomically
from supdocnade.text import clean_name, read_file
from supdocnade.unfinished import ShardParts, digest

_ERROR = b'{"error": '
"""Beginning of the line of a photograph that could not be read."""


def predict(options: Predict) -> int:
    """Print or write predictions. Return 1 if something failed."""
    fitted, run, sources = open_photographs(options)
    if options.output is not None:
        return predict_to_folder(fitted, sources, run, options.output, options)
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

    return predict_all(fitted, run, sources, show, quiet=options.quiet)


def open_photographs(options: Predict | Tag) -> tuple[FittedScene, RunOptions, list[Source]]:
    """Return the model, how to run it, and the photographs that were named."""
    images = [normalize_address(image) for image in options.images or ()]
    assert options.model is not None, "checked"
    # Not SceneModel, an estimator: importing scikit-learn and torch takes seconds.
    fitted, _ = load_scene(options.model)
    if not options.quiet and getattr(options, "output", None) is None:
        print_passed_over(images)
    sources = expand_folders(images)
    if not sources:
        raise InvalidArgument(f"{', '.join(images)} contains no photographs.")
    run = RunOptions(n_jobs=options.jobs, device=options.device, on_error="skip")
    return fitted, run, sources


def predict_all(
    fitted: FittedScene,
    run: RunOptions,
    sources: Sequence[Source],
    give: Callable[[Prediction], str | None],
    *,
    quiet: bool,
) -> int:
    """Give each prediction to a function as soon as it is known; return 1 if something failed.

    Parameters
    ----------
    give : returns a sentence if it failed.
    """
    code = 0
    # Results on a terminal are progress enough.
    with (
        ProgressBars(quiet=quiet or sys.stdout.isatty(), stage_lines=False) as progress,
        print_warnings(quiet=quiet),
    ):
        for done, result in enumerate(iter_predictions(fitted, sources, run), start=1):
            failure = result.reason if isinstance(result, SkippedImage) else give(result)
            if failure is not None:
                print_message(f"error: {failure}")
                code = 1
            progress(PREDICTING, done, len(sources))
    return code


def predict_to_folder(
    fitted: FittedScene,
    sources: Sequence[Source],
    run: RunOptions,
    output: Path,
    options: Predict,
) -> int:
    """Write predictions to files; return the exit code."""
    explain_resuming(SAME_COMMAND)
    quiet = options.quiet
    bars = ProgressBars(quiet=quiet, stage_lines=False)
    with bars as progress, print_warnings(quiet=quiet):
        run = replace(run, progress=progress, cluster=options.cluster)
        reasons = write_predictions(fitted, sources, output, run, options.top, options.shard_size)
    for reason in reasons:
        print_message(f"error: {reason}")
    if not quiet:
        n_predicted = format_count(len(sources) - len(reasons), "photograph")
        print_line(f"predictions of {n_predicted} written to {output}")
    return 1 if reasons else 0


def write_predictions(
    fitted: FittedScene,
    sources: Sequence[Any],
    output: Path,
    options: RunOptions = RunOptions(),
    top: int | None = None,
    shard_size: int = 1000,
) -> list[str]:
    """Write predictions to files of a new folder; return the sentences about unreadable images.

    A file has one row per photograph, in their order: the prediction, or an error. The folder
    appears when all are written; an interrupted run resumes.

    Parameters
    ----------
    sources : photographs.
    options : `cluster` makes every file the task of a cluster.
    top : number of tags per photograph. By default, the tags that are probable enough.
    shard_size : photographs per file.
    """
    shards = [sources[i : i + shard_size] for i in range(0, len(sources), shard_size)]
    names = [[image_name(shard, n) for n in range(len(shard))] for shard in shards]
    plan = {
        "model": fitted.fingerprint(),
        "choices": digest(repr(fitted.choices)),
        "photographs": digest(names),
        "top": top,
    }
    parts = ShardParts(output, "predict", plan, shards, ".jsonl", in_output=True)
    progress, reasons = PartProgress(options.progress, len(sources)), list[str]()
    with parts.open():
        of_shard = shard_options(options, progress, parts.words)
        write = partial(_write_part, fitted, of_shard, top)
        for shard, path in zip(shards, parts.write(write, shards, options), strict=True):
            lines = read_file(path).splitlines()
            reasons += [json.loads(line)["error"] for line in lines if line.startswith(_ERROR)]
            progress.before += len(shard)
            progress(PREDICTING, 0)
        parts.publish()
    return reasons


def _write_part(
    fitted: FittedScene, options: RunOptions, top: int | None, task: tuple[Path, Sequence[Any]]
) -> None:
    """Write the predictions of a shard: the same bytes whenever it is done."""
    path, sources = task
    rows = [
        {"error": clean_name(result.reason), "file": result.name}
        if isinstance(result, SkippedImage)
        else result.to_dict(top)
        for result in iter_predictions(fitted, sources, options)
    ]
    lines = [json.dumps(row, allow_nan=False) + "\n" for row in rows]
    write_atomically(path, "".join(lines).encode())
