"""`supdocnade card`: print the model card of a model, or write a model that can be shared."""

import os
from pathlib import Path
from typing import Annotated

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import print_line, print_message
from supdocnade.cli.options import UsageError
from supdocnade.errors import StorageError

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="Write the model with its card to a new folder, to be shared.",
    ),
]
Strip = Annotated[
    bool,
    typer.Option(
        "--strip",
        help="Leave thumbnails, patches, names and tags of the training photographs out of it.",
    ),
]
Name = Annotated[
    str | None, typer.Option(help="Name of the model in the card; default: that of its folder.")
]
Licence = Annotated[
    str | None,
    typer.Option("--licence", "--license", help="Licence of the model, such as cc-by-4.0."),
]


def card(
    model: opt.Model,
    output: Output = None,
    strip: Strip = False,
    name: Name = None,
    licence: Licence = None,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Print the model card of a model, or write a copy to share.

    The card has data, classes, results and features. With --output, the model is written with its
    card (README.md) to a folder that can be given to others or uploaded, and the command says what
    of the training photographs it carries. A stripped model predicts the same, but no photographs
    can be added to it. A folder that holds another model is refused without --force; MODEL itself
    is never replaced. Nothing leaves this machine.

    \b
    Examples:
      supdocnade card scenes
      supdocnade card scenes -o shared-scenes --strip --licence cc-by-4.0
    """
    from supdocnade.cli.run_train import check_output
    from supdocnade.scene.persistence import load_scene
    from supdocnade.scene.sharing import (
        describe_contents,
        model_card,
        strip_scene,
        write_shared_model,
    )

    if strip and output is None:
        raise UsageError("--strip needs --output.")
    if output is not None:
        if output.exists() and model.exists() and output.samefile(model):
            raise StorageError(f"--output must be another folder than the model, got {output}.")
        check_output(output, force=force)
    fitted, params = load_scene(model)
    name = name or Path(os.path.abspath(model)).name
    if output is None:
        print_line(model_card(fitted, name, licence=licence).rstrip("\n"))
        return
    fitted = strip_scene(fitted) if strip else fitted
    seed = {"random_state": params["random_state"]}
    write_shared_model(fitted, seed, output, name, licence)
    if not quiet:
        for sentence in describe_contents(fitted):
            print_message(f"note: {sentence}")
        print_line(f"model and card written to {output}")
