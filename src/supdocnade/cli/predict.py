"""`supdocnade predict`: print the class and tags of photographs, or write them to files."""

import hashlib
import json
import os
import queue
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from io import RawIOBase
from itertools import chain
from pathlib import Path
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
    format_count,
    format_csv,
    format_text,
    print_passed_over,
)
from supdocnade.cli.model_commands import Predict
from supdocnade.cli.stopping import SAME_COMMAND, explain_resuming
from supdocnade.cli.xmp import (
    Sidecars,
    check_local_files,
    open_sidecars,
    undo_all,
    write_sidecar,
)
from supdocnade.cluster import shard_options
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.images.reading import SkippedImage, image_name
from supdocnade.images.source import Source, normalize_address
from supdocnade.runs import PartProgress, RunOptions
from supdocnade.scene.dataset import expand_folders
from supdocnade.scene.persistence import load_scene
from supdocnade.scene.prediction import PREDICTING, FittedScene, iter_predictions
from supdocnade.storage import read_file, write_atomically
from supdocnade.text import clean_name
from supdocnade.unfinished import ShardParts, digest

MAX_LINES = 1000
"""Maximum number of lines per batch, and of lines read ahead."""

_CHUNK = 1 << 16

FORMAT = 1
MANIFEST = "manifest.json"
_ERROR = b'{"error": '
"""Beginning of the line of a photograph that could not be read."""

LineQueue = queue.Queue[bytes | OSError | None]


def predict(options: Predict) -> int:
    """Print or write predictions, or undo what was written. Return 1 if something failed."""
    quiet = options.quiet
    if options.undo is not None:
        return 1 if undo_all(options.undo, dry_run=options.dry_run, quiet=quiet) else 0
    images = [normalize_address(image) for image in options.images or ()]
    named = [] if options.files_from is None else read_paths(options.files_from)
    assert options.model is not None, "checked"
    # Not SceneModel, an estimator: importing scikit-learn and torch takes seconds.
    fitted, _ = load_scene(options.model)
    run = RunOptions(
        n_jobs=options.jobs, device=options.device, on_error="skip", cluster=options.cluster
    )
    batches = expand_batches(images, named)
    if options.output is not None:
        files = (options.output, options.top, options.shard_size)
        return predict_to_folder(fitted, batches, run, *files, quiet=quiet)
    sidecars = open_sidecars(fitted, images, options) if options.write_xmp else None
    if options.csv:
        print_line(CSV_HEADER)
    if not quiet:
        print_passed_over(images)
    try:
        return predict_all(fitted, run, batches, sidecars, options)
    finally:  # Also after Ctrl-C: the summary names the record.
        if sidecars is not None and not quiet:
            print_message(sidecars.summary())


def expand_batches(
    images: Sequence[str], named: Iterable[Sequence[str]]
) -> Iterable[Sequence[Source]]:
    """Return batches of photographs: those on the command line, then those of --files-from.

    Parameters
    ----------
    named : batches of names, of files of all kinds if `find` lists them: only folders among them
        are expanded. The result is a list if this is one.
    """
    listed = (expand_folders(batch, with_files=False) for batch in named)
    batches = chain([expand_folders(images)], listed)
    return list(batches) if isinstance(named, list) else batches


def predict_all(
    fitted: FittedScene,
    run: RunOptions,
    batches: Iterable[Sequence[Source]],
    sidecars: Sidecars | None,
    options: Predict,
) -> int:
    """Print a line for each photograph; return 1 if something failed.

    Parameters
    ----------
    batches : a list, or an iterator of unknown length, from which a batch is taken only after the
        predictions of the previous one.
    """
    format_line = format_csv if options.csv else format_text
    top, quiet, total = options.top, options.quiet, None
    if isinstance(batches, list):
        batches = [[source for batch in batches for source in batch]]
        total = len(batches[0])
    if sidecars is not None:
        batches = map(check_local_files, batches)
    done, code = 0, 0
    # Results on a terminal are progress enough.
    with (
        ProgressBars(quiet=quiet or sys.stdout.isatty(), stage_lines=False) as progress,
        print_warnings(quiet=quiet),
    ):
        for result in chain.from_iterable(iter_predictions(fitted, b, run) for b in batches):
            if isinstance(result, SkippedImage):
                failure: str | None = result.reason
            else:
                row = result.to_dict(top)
                if options.json:
                    print_json(row)
                else:
                    print_line(format_line(row))
                failure = None if sidecars is None else write_sidecar(sidecars, result, top)
            if failure is not None:
                print_message(f"error: {failure}")
                code = 1
            done += 1
            progress(PREDICTING, done, total)
        if done:
            progress(PREDICTING, done, done)
    if not done:
        raise InvalidArgument("no photographs were named, and the folders contain none.")
    return code


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
    progress, files, reasons = PartProgress(options.progress, len(sources)), [], []
    with parts.open():
        of_shard = shard_options(options, progress, parts.words)
        write = partial(_write_part, fitted, of_shard, top)
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


def read_paths(files_from: str) -> list[list[str]] | Iterator[list[str]]:
    """Return the paths in a file, one per line, in the encoding of the file system.

    The result is one batch in a list for a regular file, and an iterator over batches for a pipe.

    `files_from` is the name of a file or a pipe, or "-" for standard input.
    """
    try:
        if files_from == "-":
            if sys.stdin is None:
                raise StorageError("- cannot be read: standard input is closed.")
            # Unbuffered: a thread waiting in a buffered file would hold its lock and keep the
            # program from ending.
            file = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 (closed after reading)
        else:
            file = open(files_from, "rb", buffering=0)  # noqa: SIM115
        batches = _stream_paths(files_from, file)
        is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError as error:
        raise StorageError(f"{files_from} cannot be read: {error.strerror}.") from error
    return [[path for batch in batches for path in batch]] if is_regular else batches


def _stream_paths(files_from: str, file: RawIOBase) -> Iterator[list[str]]:
    try:
        for batch in stream_lines(file):
            yield [normalize_address(os.fsdecode(line)) for line in batch]
    except OSError as error:
        raise StorageError(f"{files_from} cannot be read: {error.strerror}.") from error


def stream_lines(file: RawIOBase, max_lines: int = MAX_LINES) -> Iterator[list[bytes]]:
    """Yield the lines of a pipe in batches of those available; wait only if there is none.

    So a program that writes one line and waits for its result gets it, and many lines come in
    large batches. Empty lines are skipped.

    Parameters
    ----------
    file : read by a separate thread, which closes it at its end.
    max_lines : maximum number of lines per batch.
    """
    lines: LineQueue = queue.Queue(max_lines)
    threading.Thread(target=_enqueue_lines, args=(file, lines), daemon=True).start()
    while True:
        items = [lines.get()]
        while len(items) < max_lines and not lines.empty():
            items.append(lines.get())
        batch = [item for item in items if isinstance(item, bytes)]
        if batch:
            yield batch
        if isinstance(items[-1], OSError):
            raise items[-1]
        if items[-1] is None:
            return


def _enqueue_lines(file: RawIOBase, output: LineQueue) -> None:
    """Put the lines of a file into a queue, and finally None or an error."""

    def put(line: bytes) -> None:
        if line.strip():
            output.put(line.rstrip(b"\r"))

    rest = b""
    try:
        with file:
            while chunk := file.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    put(line)
    except OSError as error:
        output.put(error)
        return
    put(rest)
    output.put(None)
