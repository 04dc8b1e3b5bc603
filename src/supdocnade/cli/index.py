"""`supdocnade index`: index folders of photographs for the gallery."""

import os
from pathlib import Path
from typing import Annotated

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import (
    ProgressBars,
    format_count,
    print_json,
    print_line,
    print_message,
    print_passed_over,
)
from supdocnade.cli.stopping import SAME_COMMAND, explain_resuming
from supdocnade.images.source import normalize_address
from supdocnade.runs import RunOptions


def index(
    model: opt.Model,
    photos: Annotated[
        list[str],
        typer.Argument(
            metavar="PHOTOS...",
            help="Folders of photographs, or other places, as for train.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Index to write; default: MODEL.index.")
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Make an index again from the start, also one of another model."
        ),
    ] = False,
    jobs: opt.Jobs = -1,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Index folders of photographs for the gallery.

    The gallery of `supdocnade serve` finds similar photographs and photographs with a tag. The
    index holds topics, predictions and thumbnails; the photographs are only read. A second run
    reads only new and changed files, drops those that are not in the folders given, and resumes an
    interrupted run. Files that cannot be read are listed on stderr; the exit code is then 1.

    \b
    Examples:
      supdocnade index scenes holiday
      supdocnade index scenes holiday family archive
      supdocnade index scenes holiday -o holiday.index
    """
    from supdocnade.gallery.build import build_gallery
    from supdocnade.scene.persistence import load_scene

    photos = [normalize_address(place) for place in photos]
    target = default_index(model) if output is None else output
    fitted, _ = load_scene(model)
    if not quiet:
        print_passed_over(photos)
    explain_resuming(SAME_COMMAND)
    with ProgressBars(quiet=quiet) as progress:
        gallery, skipped, dropped = build_gallery(
            fitted,
            photos,
            target,
            RunOptions(n_jobs=jobs, progress=progress),
            start_over=replace,
        )
    for each in skipped:
        print_message(f"error: {each.reason}")
    n_copies = gallery.count_copies()
    if json:
        described = {"index": os.fspath(target), "n_images": len(gallery), "n_copies": n_copies}
        names = [each.name for each in skipped]
        print_json({**described, "dropped": dropped, "skipped": names})
    elif not quiet:
        print_line(f"{format_count(len(gallery), 'photograph')} indexed in {target}")
        if n_copies:
            print_line(f"{n_copies} of them {'is a copy' if n_copies == 1 else 'are copies'}")
        for folder, n_dropped in dropped.items():
            print_line(f"{format_count(n_dropped, 'photograph')} of {folder} dropped")
    if skipped:
        raise typer.Exit(1)


def default_index(model: Path) -> Path:
    """Return the default path of the index of a model."""
    folder = model if model.name.strip(".") else Path(os.path.abspath(model))
    return folder.with_name(f"{folder.name}.index")
