"""Predictions of many photographs in a folder of JSON lines files, which a cluster can write."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from supdocnade.cli.console import ProgressBars, print_line, print_message, print_warnings
from supdocnade.cli.formats import format_count
from supdocnade.cli.stopping import SAME_COMMAND, explain_resuming
from supdocnade.cluster import shard_options
from supdocnade.errors import InvalidArgument
from supdocnade.images.reading import SkippedImage, image_name
from supdocnade.images.source import Source
from supdocnade.runs import PartProgress, RunOptions
from supdocnade.scene.prediction import PREDICTING, FittedScene, iter_predictions
from supdocnade.storage import read_file, write_atomically
from supdocnade.text import clean_name
from supdocnade.unfinished import ShardParts, digest

FORMAT = 1
MANIFEST = "manifest.json"
_ERROR = b'{"error": '
"""Beginning of the line of a photograph that could not be read."""


def predict_to_folder(
    fitted: FittedScene,
    photos: Iterable[Sequence[Source]],
    options: RunOptions,
    output: Path,
    top: int | None,
    shard_size: int,
    *,
    quiet: bool,
) -> int:
    """Write predictions to files; return the exit code."""
    sources = list(chain.from_iterable(photos))
    if not sources:
        raise InvalidArgument("no photographs were named, and the folders contain none.")
    explain_resuming(SAME_COMMAND)
    bars = ProgressBars(quiet=quiet, stage_lines=False)
    with bars as progress, print_warnings(quiet=quiet):
        options = replace(options, progress=progress)
        reasons = write_predictions(fitted, sources, output, options, top, shard_size)
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
    appears when all are written; an interrupted run resumes. Its manifest lists the files, their
    numbers of photographs and of errors, and their checksums.

    Parameters
    ----------
    sources : photographs.
    options : `cluster` makes every file the task of a cluster.
    top : number of tags per photograph; None: those that are probable enough.
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
    progress, files, reasons = PartProgress(options.progress, len(sources)), [], []
    with parts.open():
        write = partial(_write_part, fitted, shard_options(options, progress), top)
        for shard, path in zip(shards, parts.write(write, shards, options), strict=True):
            content = read_file(path)
            errors = _read_errors(content)
            reasons += errors
            figures = {"n_images": len(shard), "n_errors": len(errors)}
            files.append({"file": path.name, **figures, "checksum": _checksum(content)})
            progress.before += len(shard)
            progress(PREDICTING, 0)
        manifest = {
            "format": FORMAT,
            "model": plan["model"],
            "n_images": len(sources),
            "n_errors": len(reasons),
            "files": files,
        }
        write_atomically(parts.result / MANIFEST, json.dumps(manifest, indent=1).encode() + b"\n")
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


def _read_errors(content: bytes) -> list[str]:
    """Return the errors in a file that `_write_part` wrote."""
    return [json.loads(line)["error"] for line in content.splitlines() if line.startswith(_ERROR)]


def _checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
