"""Predictions of photographs, line by line, and the sidecars for them."""

import os
import queue
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from io import RawIOBase
from itertools import chain
from pathlib import Path

from supdocnade.cli.console import (
    ProgressBars,
    format_count,
    print_line,
    print_message,
    print_warnings,
)
from supdocnade.cli.xmp import Sidecars, UnwritableRecord, append_text, undo_sidecars
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.folders.photo_sources import kind_of_place
from supdocnade.images.source import Source, is_local_file, normalize_address, source_name
from supdocnade.runs import RunOptions
from supdocnade.scene.dataset import expand_folders
from supdocnade.scene.prediction import PREDICTING, FittedScene, Prediction, iter_predictions
from supdocnade.scene.settings import TAG_PRECISION
from supdocnade.visual_words.parallel import SkippedImage

MAX_LINES = 1000
"""Maximum number of lines per batch, and of lines read ahead."""

_CHUNK = 1 << 16

LineQueue = queue.Queue[bytes | OSError | None]


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


def open_sidecars(
    fitted: FittedScene,
    images: Sequence[Source],
    *,
    by_stem: bool,
    with_label: bool,
    dry_run: bool,
    min_probability: float | None,
    record: Path | None,
) -> Sidecars:
    """Return the writer of the sidecars of photographs, with the options of the command."""
    check_local_files(images)
    if record is None:
        record = Path(f"supdocnade-xmp-{datetime.now():%Y%m%d-%H%M%S}.jsonl")
    elif not dry_run:
        append_text(record, "")  # If it cannot be written, that is an error at once.
    return Sidecars(
        by_stem=by_stem,
        with_label=with_label,
        min_probability=TAG_PRECISION if min_probability is None else min_probability,
        thresholds=fitted.precise_thresholds if min_probability is None else None,
        spellings=fitted.tag_spellings,
        record=record,
        dry_run=dry_run,
    )


def predict_all(
    fitted: FittedScene,
    options: RunOptions,
    batches: Iterable[Sequence[Source]],
    format_line: Callable[[Prediction, int | None], str],
    sidecars: Sidecars | None = None,
    *,
    top: int | None = None,
    quiet: bool = False,
) -> int:
    """Print a line for each photograph; return the number of failures.

    Parameters
    ----------
    batches : a list, or an iterator of unknown length, from which a batch is taken only after the
        predictions of the previous one.
    format_line : returns the line of a prediction, with the `top` best tags.
    """
    total = None
    if isinstance(batches, list):
        batches = [[source for batch in batches for source in batch]]
        total = len(batches[0])
    if sidecars is not None:
        batches = map(check_local_files, batches)
    done = n_failed = 0
    # Results on a terminal are progress enough.
    with (
        ProgressBars(quiet=quiet or sys.stdout.isatty(), stage_lines=False) as progress,
        print_warnings(quiet=quiet),
    ):
        for result in chain.from_iterable(iter_predictions(fitted, b, options) for b in batches):
            if isinstance(result, SkippedImage):
                failure: str | None = result.reason
            else:
                print_line(format_line(result, top))
                failure = None if sidecars is None else _write_sidecar(sidecars, result, top)
            if failure is not None:
                print_message(f"error: {failure}")
                n_failed += 1
            done += 1
            progress(PREDICTING, done, total)
        if done:
            progress(PREDICTING, done, done)
    if not done:
        raise InvalidArgument("no photographs were named, and the folders contain none.")
    return n_failed


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
