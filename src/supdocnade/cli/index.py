"""`supdocnade index`: index a folder of photographs for the gallery."""

import os
from pathlib import Path
from typing import Annotated

import typer

from supdocnade.cli.console import (
    ProgressBars,
    format_count,
    print_json,
    print_line,
    print_message,
    print_passed_over,
)
from supdocnade.cli.options import Cluster, Debug, Jobs, Json, Model, Quiet
from supdocnade.images.source import normalize_address


def index(
    model: Model,
    photos: Annotated[
        str,
        typer.Argument(
            metavar="PHOTOS",
            callback=normalize_address,
            help="Folder of photographs, or another place, as for train.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Index to write; default: MODEL.index.")
    ] = None,
    cluster: Cluster = None,
    jobs: Jobs = -1,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Index a folder of photographs for the gallery.

    The gallery of `supdocnade serve` finds similar photographs and photographs with a tag. The
    index holds topics, predictions and thumbnails; the photographs are only read. A second run
    reads only new and changed files, and resumes an interrupted one. Files that cannot be read are
    listed on stderr; the exit code is then 1.

    \b
    Examples:
      supdocnade index scenes holiday
      supdocnade index scenes holiday -o holiday.index
    """
    from supdocnade.gallery.build import build_gallery
    from supdocnade.run_options import RunOptions
    from supdocnade.scene.persistence import load_scene

    target = default_index(model) if output is None else output
    fitted, _ = load_scene(model)
    if not quiet:
        print_passed_over([photos])
    with ProgressBars(quiet=quiet) as progress:
        gallery, skipped = build_gallery(
            fitted, photos, target, RunOptions(n_jobs=jobs, cluster=cluster, progress=progress)
        )
    for each in skipped:
        print_message(f"error: {each.reason}")
    if json:
        described = {"index": os.fspath(target), "n_images": len(gallery)}
        print_json({**described, "skipped": [each.name for each in skipped]})
    elif not quiet:
        print_line(f"{format_count(len(gallery), 'photograph')} indexed in {target}")
    if skipped:
        raise typer.Exit(1)


def default_index(model: Path) -> Path:
    """Return the default path of the index of a model."""
    folder = model if model.name.strip(".") else Path(os.path.abspath(model))
    return folder.with_name(f"{folder.name}.index")
