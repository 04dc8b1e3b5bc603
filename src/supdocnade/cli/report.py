"""`supdocnade report`: one HTML file about a model."""

import os
from pathlib import Path
from typing import Annotated

import typer

from supdocnade.cli.console import say, say_json
from supdocnade.cli.options import Debug, Json, Model, Quiet

REPORT = "report.html"
"""The file in the folder of the model, unless told otherwise."""


def report(
    model: Model,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file; otherwise MODEL/report.html.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a report about a model, one HTML file.

    It opens without a network and shows how well the model did on photographs held out, what it
    takes for each class and topic, as patches of photographs, and which photographs it got right
    and wrong.

    \b
    Examples:
      supdocnade report scenes
      supdocnade report scenes -o scenes.html
    """
    path = model / REPORT if output is None else output
    write(model, path)
    if json:
        say_json({"report": os.fspath(path)})
    elif not quiet:
        say(f"report written to {path}")


def write(model: Path, path: Path) -> None:
    """Load a model and write its report."""
    from supdocnade.report.html import write_report
    from supdocnade.scene.model import SceneModel

    write_report(SceneModel.load(model), path)
