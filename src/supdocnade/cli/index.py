"""`supdocnade index`: an index of a folder, for "more like this" and "with this tag"."""

import os
from pathlib import Path
from typing import Annotated

import typer

from supdocnade.cli.console import Stages, count, note, say, say_json
from supdocnade.cli.options import Debug, Jobs, Json, Model, Quiet


def index(
    model: Model,
    photos: Annotated[Path, typer.Argument(metavar="PHOTOS", help="Folder of photographs.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The index; otherwise MODEL.index.")
    ] = None,
    jobs: Jobs = -1,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Index a folder of photographs, for the gallery of `supdocnade serve`.

    The gallery then answers "more like this" and "photographs with this tag". The index holds
    topics, predictions and small copies; the photographs are only read. Started again, it reads
    what is new or has changed; a run that was stopped goes on. Files that cannot be read are named
    on stderr, and the exit code is then 1.

    \b
    Examples:
      supdocnade index scenes holiday
      supdocnade index scenes holiday -o holiday.index
    """
    from supdocnade.gallery import build_gallery
    from supdocnade.run_options import RunOptions
    from supdocnade.scene.model import SceneModel

    target = index_of(model) if output is None else output
    fitted = SceneModel.load(model).fitted_
    with Stages(quiet=quiet) as stages:
        gallery, skipped = build_gallery(
            fitted, photos, target, RunOptions(n_jobs=jobs, progress=stages)
        )
    for each in skipped:
        note(f"error: {each.reason}")
    if json:
        described = {"index": os.fspath(target), "n_images": len(gallery)}
        say_json({**described, "skipped": [each.name for each in skipped]})
    elif not quiet:
        say(f"{count(len(gallery), 'photograph')} indexed in {target}")
    if skipped:
        raise typer.Exit(1)


def index_of(model: Path) -> Path:
    """Return where the index of a model is, unless told otherwise."""
    folder = model if model.name.strip(".") else Path(os.path.abspath(model))
    return folder.with_name(f"{folder.name}.index")
