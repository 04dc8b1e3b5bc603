"""`supdocnade predict`: print the class and tags of photographs, one line each."""

import os
import queue
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from io import RawIOBase
from itertools import chain
from pathlib import Path

from supdocnade.cli.console import ProgressBars, print_line, print_message, print_warnings
from supdocnade.cli.formats import (
    CSV_HEADER,
    format_count,
    format_csv,
    format_json,
    format_text,
    print_passed_over,
)
from supdocnade.cli.model_commands import Predict
from supdocnade.cli.prediction_files import predict_to_folder
from supdocnade.cli.xmp import Sidecars, UnwritableRecord, append_text, undo_sidecars
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.folders.photo_sources import kind_of_place
from supdocnade.images.reading import SkippedImage
from supdocnade.images.source import Source, is_local_file, normalize_address, source_name
from supdocnade.runs import RunOptions
from supdocnade.scene.calibration import TAG_PRECISION
from supdocnade.scene.dataset import expand_folders
from supdocnade.scene.persistence import load_scene
from supdocnade.scene.prediction import PREDICTING, FittedScene, Prediction, iter_predictions

MAX_LINES = 1000
"""Maximum number of lines per batch, and of lines read ahead."""

_CHUNK = 1 << 16

LineQueue = queue.Queue[bytes | OSError | None]


def predict(options: Predict) -> int:
    """Print or write predictions, or undo what was written; return 1 if something failed."""
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


def open_sidecars(fitted: FittedScene, images: Sequence[Source], options: Predict) -> Sidecars:
    """Return the writer of the sidecars of photographs."""
    check_local_files(images)
    record, least = options.record, options.min_probability
    if record is None:
        record = Path(f"supdocnade-xmp-{datetime.now():%Y%m%d-%H%M%S}.jsonl")
    elif not options.dry_run:
        append_text(record, "")  # If it cannot be written, that is an error at once.
    return Sidecars(
        by_stem=options.xmp_name == "stem",
        with_label=options.xmp_label,
        min_probability=TAG_PRECISION if least is None else least,
        thresholds=fitted.precise_thresholds if least is None else None,
        spellings=fitted.tag_spellings,
        record=record,
        dry_run=options.dry_run,
    )


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
    format_line = format_json if options.json else format_csv if options.csv else format_text
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
                print_line(format_line(result, top))
                failure = None if sidecars is None else _write_sidecar(sidecars, result, top)
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


def check_local_files(sources: Sequence[Source]) -> Sequence[Source]:
    """Return photographs; raise `InvalidArgument` if a sidecar cannot be beside one of them."""
    for source in sources:
        if not is_local_file(source) or kind_of_place(source) == "tar":
            raise InvalidArgument(
                "--write-xmp writes beside photographs that are files on this machine, "
                f"got {source_name(source)}."
            )
    return sources


def _write_sidecar(sidecars: Sidecars, prediction: Prediction, top: int | None) -> str | None:
    """Write the sidecar of a photograph; return the error message if this fails."""
    try:
        message = sidecars.write(prediction, top)
    except UnwritableRecord:
        raise
    except StorageError as error:
        return str(error)
    if message and sidecars.dry_run:
        print_message(message)
    return None


def undo_all(record: Path, *, dry_run: bool, quiet: bool) -> int:
    """Remove from sidecars what a record lists; return the number of failures."""
    n_changed = n_failed = 0
    for result in undo_sidecars(record, dry_run=dry_run):
        if isinstance(result, str):
            n_changed += 1
            if dry_run:
                print_line(result)
        else:
            n_failed += 1
            print_message(f"error: {result}")
    if not quiet:
        verb = "would undo" if dry_run else "undid"
        print_line(f"{verb} the changes of {format_count(n_changed, 'sidecar')}")
    return n_failed


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
