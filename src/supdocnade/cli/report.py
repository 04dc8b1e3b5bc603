"""`supdocnade report`: write an HTML report of a model."""

import os
from pathlib import Path
from typing import Annotated

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import print_json, print_line

REPORT = "report.html"
"""Default name of the report in the folder of the model."""


def report(
    model: opt.Model,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; default: MODEL/report.html."),
    ] = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Write a report of a model as one HTML file.

    The report opens without a network. It shows how the model performed on held-out photographs,
    typical patches of each class and topic, and photographs that it got right and wrong.

    \b
    Examples:
      supdocnade report scenes
      supdocnade report scenes -o scenes.html
    """
    from supdocnade.report.html import write_report
    from supdocnade.scene.persistence import load_scene

    path = model / REPORT if output is None else output
    fitted, params = load_scene(model)
    write_report(fitted, path, random_state=params["random_state"])
    if json:
        print_json({"report": os.fspath(path)})
    elif not quiet:
        print_line(f"report written to {path}")
