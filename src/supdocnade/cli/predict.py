"""`supdocnade predict`: classes and tags of photographs, one line each, as they are read."""

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from supdocnade.cli.console import CSV_HEADER, Stages, csv_line, json_line, note, say, text_line
from supdocnade.cli.options import Debug, Device, Jobs, Json, Model, Quiet, UsageError, check_device
from supdocnade.cli.path_stream import listed_names
from supdocnade.cli.xmp import Sidecars
from supdocnade.errors import InvalidArgument, StorageError

if TYPE_CHECKING:
    from supdocnade.scene.model import SceneModel
    from supdocnade.scene.prediction import Prediction
    from supdocnade.visual_words.parallel import SkippedImage


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
        typer.Option(
            min=1, help="Give so many tags, the best by score; otherwise the probable ones."
        ),
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

    Results are printed as they come; those of names that come through a pipe (--files-from -) as
    soon as the names do. Files that cannot be read are named on stderr, and the exit
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
    if not images and files_from is None:
        raise UsageError("no photographs were given; name some, or use --files-from.")
    listed = [] if files_from is None else listed_names(files_from)
    sidecars = None
    if write_xmp:
        sidecars = Sidecars(by_stem=xmp_name == "stem", with_label=xmp_label, dry_run=dry_run)
    from supdocnade.scene.model import SceneModel

    loaded = SceneModel.load(model).set_params(n_jobs=jobs, device=device)
    if csv:
        say(CSV_HEADER)
    form = json_line if json else csv_line if csv else text_line
    parts = [images or [], *listed] if isinstance(listed, list) else chain([images or []], listed)
    if predict_all(loaded, parts, form, sidecars, top=top, quiet=quiet):
        raise typer.Exit(1)


def predict_all(
    model: "SceneModel",
    parts: Iterable[list[Path]],
    form: "Callable[[Prediction, int | None], str]",
    sidecars: Sidecars | None = None,
    *,
    top: int | None = None,
    quiet: bool = False,
) -> int:
    """Print a line for every photograph; return how many could not be read or written about."""
    from supdocnade.visual_words.parallel import SkippedImage

    n_failed = 0
    for found in predictions(model, parts, quiet=quiet):
        if isinstance(found, SkippedImage):
            failure: str | None = found.reason
        else:
            say(form(found, top))
            failure = None if sidecars is None else _write(sidecars, found, top)
        if failure is not None:
            note(f"error: {failure}")
            n_failed += 1
    return n_failed


def predictions(
    model: "SceneModel", parts: Iterable[list[Path]], *, quiet: bool = False
) -> "Iterator[Prediction | SkippedImage]":
    """Yield what a model says of photographs, and of those in folders.

    Parameters
    ----------
    parts : names; a list of all of them, or an iterator: then nobody knows how many will come, and
        those of a part are answered before the next is asked for.
    """
    from supdocnade.scene.dataset import expand_folders

    total = None
    if isinstance(parts, list):
        parts = [expand_folders(chain.from_iterable(parts))]
        total = len(parts[0])
    done = 0
    # Where the lines themselves are seen, they are the progress.
    with Stages(quiet=quiet or sys.stdout.isatty()) as stages:
        for part in parts:
            for found in model.iter_predictions(part, on_error="skip"):
                yield found
                done += 1
                stages("predicting", done, total)
        if done:
            stages("predicting", done, done)
    if not done:
        raise InvalidArgument("no photographs were named, nor are any in the folders given.")


def _write(sidecars: Sidecars, found: "Prediction", top: int | None) -> str | None:
    """Write a photograph's sidecar; return what went wrong, if something did."""
    try:
        done = sidecars.write(found, top)
    except StorageError as error:
        return str(error)
    if done and sidecars.dry_run:
        note(done)
    return None
