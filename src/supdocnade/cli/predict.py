"""`supdocnade predict`: classes and tags of photographs, one line each, as they are read."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from supdocnade.cli.console import Stages, note, say
from supdocnade.cli.formats import CSV_HEADER, csv_line, json_line, text_line
from supdocnade.cli.options import Debug, Device, Jobs, Json, Model, Quiet, UsageError, check_device
from supdocnade.cli.sidecars import Sidecars
from supdocnade.errors import InvalidArgument, StorageError

if TYPE_CHECKING:
    from supdocnade.encoding.many import LeftOut
    from supdocnade.scene.model import SceneModel
    from supdocnade.scene.predictions import Prediction


def predict(
    model: Model,
    images: Annotated[
        list[Path] | None,
        typer.Argument(metavar="IMAGE", help="Photographs, or folders of them."),
    ] = None,
    files_from: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Read names of photographs from a file; -: from stdin."),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(min=1, help="Give so many tags; otherwise those that are probable enough."),
    ] = None,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print results as CSV.")] = False,
    write_xmp: Annotated[
        bool, typer.Option("--write-xmp", help="Write tags to .xmp files beside photographs.")
    ] = False,
    xmp_label: Annotated[
        bool, typer.Option("--xmp-label", help="Write the class as a keyword too, unless unsure.")
    ] = False,
    xmp_name: Annotated[
        Literal["full", "stem"],
        typer.Option(help="full: a.jpg.xmp (darktable, digiKam); stem: a.xmp (Adobe)."),
    ] = "full",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say which .xmp files would be written.")
    ] = False,
    device: Device = "auto",
    jobs: Jobs = -1,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Give the class and the tags of photographs.

    Results are printed as they come. Files that cannot be read are named on stderr, and the exit
    code is then 1. Photographs are never changed: --write-xmp writes the tags beside them, where
    photo managers find them; what an .xmp file holds already stays there.

    \b
    Examples:
      supdocnade predict scenes photo.jpg
      supdocnade predict scenes holiday/ --json > holiday.jsonl
      find . -name '*.jpg' | supdocnade predict scenes --files-from - --csv
      supdocnade predict scenes holiday/ --write-xmp --dry-run
    """
    check_device(device)
    if json and csv:
        raise UsageError("--json and --csv must not both be given.")
    if dry_run and not write_xmp:
        raise UsageError("--dry-run needs --write-xmp.")
    sources = [*(images or ()), *_listed(files_from)]
    if not sources:
        raise UsageError("no photographs were given; name some, or use --files-from.")
    sidecars = None
    if write_xmp:
        sidecars = Sidecars(by_stem=xmp_name == "stem", with_label=xmp_label, dry_run=dry_run)
    from supdocnade.scene.model import SceneModel

    loaded = SceneModel.load(model).set_params(n_jobs=jobs)
    if csv:
        say(CSV_HEADER)
    form = json_line if json else csv_line if csv else text_line
    if predict_all(loaded, sources, form, sidecars, top=top, quiet=quiet):
        raise typer.Exit(1)


def predict_all(
    model: "SceneModel",
    sources: Iterable[Path],
    form: "Callable[[Prediction, int | None], str]",
    sidecars: Sidecars | None = None,
    *,
    top: int | None = None,
    quiet: bool = False,
) -> int:
    """Print a line for every photograph; return how many could not be read or written about."""
    from supdocnade.encoding.many import LeftOut

    n_failed = 0
    for found in predictions(model, sources, quiet=quiet):
        if isinstance(found, LeftOut):
            failure: str | None = found.reason
        else:
            say(form(found, top))
            failure = None if sidecars is None else _write(sidecars, found, top)
        if failure is not None:
            note(f"error: {failure}")
            n_failed += 1
    return n_failed


def predictions(
    model: "SceneModel", sources: Iterable[Path], *, quiet: bool = False
) -> "Iterator[Prediction | LeftOut]":
    """Yield what a model says of photographs, and of those in folders."""
    from supdocnade.scene.photographs import expand_folders

    paths = expand_folders(sources)
    if not paths:
        raise InvalidArgument("the folders that were given hold no photographs.")
    # Where the lines themselves are seen, they are the progress.
    with Stages(quiet=quiet or sys.stdout.isatty()) as stages:
        for number, found in enumerate(model.iter_predictions(paths, on_error="skip"), start=1):
            yield found
            stages("predicting", number, len(paths))


def _listed(files_from: str | None) -> list[Path]:
    """Return the names in a file, one a line, in whatever bytes the file system has."""
    if files_from is None:
        return []
    try:
        if files_from == "-":
            content = typer.get_binary_stream("stdin").read()
        else:
            content = Path(files_from).read_bytes()
    except OSError as error:
        raise StorageError(f"{files_from} cannot be read: {error.strerror}.") from error
    lines = (line.rstrip(b"\r") for line in content.split(b"\n"))
    return [Path(os.fsdecode(line)) for line in lines if line.strip()]


def _write(sidecars: Sidecars, found: "Prediction", top: int | None) -> str | None:
    """Write a photograph's sidecar; return what went wrong, if something did."""
    try:
        done = sidecars.write(found, top)
    except StorageError as error:
        return str(error)
    if done and sidecars.dry_run:
        note(done)
    return None
