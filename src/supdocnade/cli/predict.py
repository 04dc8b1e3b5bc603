"""`supdocnade predict`: print the class and tags of photographs, one line each."""

import os
import queue
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from io import RawIOBase
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import (
    CSV_HEADER,
    ProgressBars,
    format_count,
    format_csv,
    format_json,
    format_text,
    print_line,
    print_message,
    print_passed_over,
    print_warnings,
)
from supdocnade.cli.options import UsageError
from supdocnade.cli.stopping import SAME_COMMAND, explain_resuming
from supdocnade.cli.xmp import Sidecars, UnwritableRecord, append_text, undo_sidecars
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.images.source import Source, is_local_file, normalize_address, source_name
from supdocnade.run_options import RunOptions
from supdocnade.scene.settings import TAG_PRECISION

if TYPE_CHECKING:
    from supdocnade.scene.prediction import FittedScene, Prediction

MAX_LINES = 1000
"""Maximum number of lines per batch, and of lines read ahead."""

_CHUNK = 1 << 16

LineQueue = queue.Queue[bytes | OSError | None]

OptionalModel = Annotated[Path | None, typer.Argument(metavar="MODEL", help="Folder of a model.")]
Images = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="IMAGE",
        help="Photographs, folders, addresses (s3://bucket/photos), tar files, or text "
        "files that list photographs.",
    ),
]
FilesFrom = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Read names of photographs from FILE; -: from stdin."),
]
Top = Annotated[
    int | None,
    typer.Option(
        min=1, help="Give exactly this many tags; by default, all that are probable enough."
    ),
]
Csv = Annotated[bool, typer.Option("--csv", help="Print results as CSV.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="Write results to files in a new FOLDER, not to stdout. An interrupted run resumes.",
    ),
]
WriteXmp = Annotated[
    bool, typer.Option("--write-xmp", help="Write tags to .xmp files beside photographs.")
]
MinProbability = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="Write tags of at least this probability; by default, for each tag, the "
        "probability at which 80 % were right on held-out photographs.",
    ),
]
XmpLabel = Annotated[
    bool,
    typer.Option(
        "--xmp-label",
        help="Also write the class as a keyword, unless it is unsure or the photograph is unlike "
        "the training photographs.",
    ),
]
XmpName = Annotated[
    Literal["full", "stem"],
    typer.Option(help="full: a.jpg.xmp (darktable, digiKam); stem: a.xmp (Adobe)."),
]
Record = Annotated[
    Path | None,
    typer.Option(
        help="File that records what was written; default: ./supdocnade-xmp-DATE-TIME.jsonl."
    ),
]
Undo = Annotated[
    Path | None,
    typer.Option(metavar="RECORD", help="Remove from .xmp files what RECORD says was written."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only list the .xmp files that would be changed.")
]


def predict(
    model: OptionalModel = None,
    images: Images = None,
    files_from: FilesFrom = None,
    top: Top = None,
    json: opt.Json = False,
    csv: Csv = False,
    output: Output = None,
    shard_size: opt.ShardSize = 1000,
    write_xmp: WriteXmp = False,
    min_probability: MinProbability = None,
    xmp_label: XmpLabel = False,
    xmp_name: XmpName = "full",
    record: Record = None,
    undo: Undo = None,
    dry_run: DryRun = False,
    cluster: opt.Cluster = None,
    device: opt.Device = "auto",
    jobs: opt.Jobs = -1,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Predict the class and the tags of photographs.

    Results are printed as soon as they are known, also while names still arrive through a pipe
    (--files-from -). Files that cannot be read are listed on stderr; the exit code is then 1.
    Photographs are never changed: --write-xmp writes tags to .xmp files beside them, for photo
    managers; the contents of an existing .xmp file are preserved. --undo needs no model.

    \b
    Examples:
      supdocnade predict scenes photo.jpg
      supdocnade predict scenes holiday/ --json > holiday.jsonl
      find . -name '*.jpg' | supdocnade predict scenes --files-from - --csv
      supdocnade predict scenes archive/ -o archive-tags --cluster local
      supdocnade predict scenes holiday/ --write-xmp --dry-run
      supdocnade predict scenes holiday/ --write-xmp --record holiday.jsonl
      supdocnade predict --undo holiday.jsonl
    """
    opt.check_device(device, cluster)
    opt.check_formats(json=json, csv=csv)
    not_for_files = {"csv": csv, "write_xmp": write_xmp}
    check_options("--output", output, {"cluster": cluster}, not_for_files)
    if undo is not None:
        if model is not None or files_from is not None or write_xmp or json or csv:
            raise UsageError("--undo takes no model, no photographs and no option but --dry-run.")
        raise typer.Exit(1 if undo_all(undo, dry_run=dry_run, quiet=quiet) else 0)
    xmp: dict[str, Any] = {"dry_run": dry_run, "min_probability": min_probability, "record": record}
    check_options("--write-xmp", write_xmp, xmp)
    if model is None:
        raise UsageError("missing argument 'MODEL'.")
    if not images and files_from is None:
        raise UsageError("no photographs were given; name some or use --files-from.")
    images = [normalize_address(image) for image in images or ()]
    named = [] if files_from is None else read_paths(files_from)
    # Not SceneModel, an estimator: importing scikit-learn and torch takes seconds.
    from supdocnade.scene.persistence import load_scene

    fitted, _ = load_scene(model)
    options = RunOptions(n_jobs=jobs, device=device, on_error="skip", cluster=cluster)
    photos = expand_batches(images, named)
    if output is not None:
        files = (output, top, shard_size)
        raise typer.Exit(predict_to_folder(fitted, photos, options, *files, quiet=quiet))
    xmp |= {"by_stem": xmp_name == "stem", "with_label": xmp_label}
    sidecars = open_sidecars(fitted, images, **xmp) if write_xmp else None
    format_line = format_json if json else format_csv if csv else format_text
    if csv:
        print_line(CSV_HEADER)
    if not quiet:
        print_passed_over(images)
    try:
        n_failed = predict_all(fitted, options, photos, format_line, sidecars, top=top, quiet=quiet)
    finally:  # Also after Ctrl-C: the summary names the record.
        if sidecars is not None and not quiet:
            print_message(sidecars.summary())
    raise typer.Exit(1 if n_failed else 0)


def expand_batches(
    images: Sequence[str], named: Iterable[Sequence[str]]
) -> Iterable[Sequence[Source]]:
    """Return batches of photographs: those on the command line, then those of --files-from.

    Parameters
    ----------
    named : batches of names, of files of all kinds if `find` lists them: only folders among them
        are expanded. The result is a list if this is one.
    """
    from supdocnade.scene.dataset import expand_folders

    listed = (expand_folders(batch, with_files=False) for batch in named)
    batches = chain([expand_folders(images)], listed)
    return list(batches) if isinstance(named, list) else batches


def check_options(
    option: str, given: object, needing: Mapping[str, object], excluded: Mapping[str, object] = {}
) -> None:
    """Raise `UsageError` for other options that need an option, or that it excludes.

    >>> check_options("--output", None, {"cluster": "auto"})
    Traceback (most recent call last):
    supdocnade.cli.options.UsageError: --cluster needs --output.
    """
    for name, value in (excluded if given else needing).items():
        if value is not None and value is not False:
            relation = "must not be given with" if given else "needs"
            raise UsageError(f"--{name.replace('_', '-')} {relation} {option}.")


def open_sidecars(
    fitted: "FittedScene",
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


def predict_to_folder(
    fitted: "FittedScene",
    photos: Iterable[Sequence[Source]],
    options: RunOptions,
    output: Path,
    top: int | None,
    shard_size: int,
    *,
    quiet: bool,
) -> int:
    """Write predictions to files; return the exit code."""
    from supdocnade.cli.prediction_files import write_predictions

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


def predict_all(
    fitted: "FittedScene",
    options: RunOptions,
    batches: Iterable[Sequence[Source]],
    format_line: "Callable[[Prediction, int | None], str]",
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
    from supdocnade.scene.prediction import iter_predictions
    from supdocnade.visual_words.parallel import SkippedImage

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
            progress("predicting", done, total)
        if done:
            progress("predicting", done, done)
    if not done:
        raise InvalidArgument("no photographs were named, and the folders contain none.")
    return n_failed


def check_local_files(sources: Sequence[Source]) -> Sequence[Source]:
    """Return photographs; raise `InvalidArgument` if a sidecar cannot be beside one of them."""
    from supdocnade.folders.photo_sources import kind_of_place

    for source in sources:
        if not is_local_file(source) or kind_of_place(source) == "tar":
            raise InvalidArgument(
                "--write-xmp writes beside photographs that are files on this machine, "
                f"got {source_name(source)}."
            )
    return sources


def _write_sidecar(sidecars: Sidecars, prediction: "Prediction", top: int | None) -> str | None:
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
