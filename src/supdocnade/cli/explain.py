"""`supdocnade explain`: draw which patches of a photograph support its class or a tag."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import print_json, print_line
from supdocnade.cli.options import UsageError
from supdocnade.errors import InvalidArgument

if TYPE_CHECKING:
    from supdocnade.scene.attribution import Explanation

SUFFIX = ".png"
_MAX_LENGTH = 30
"""Maximum length of the parts of a default file name, which is limited to 255 bytes."""


def explain(
    model: opt.Model,
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="A photograph.")],
    label: Annotated[
        str | None, typer.Option(help="Class to explain; default: the predicted one.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Tag to explain instead of a class.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Picture to write, .png; default: ./IMAGE-NAME.png."),
    ] = None,
    device: opt.Device = "auto",
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Show which patches of a photograph support a class or a tag.

    The shares of all patches add up to the score of the photograph minus that of an empty one. The
    picture shows the shares over the photograph; --json prints them.

    \b
    Examples:
      supdocnade explain scenes photo.jpg
      supdocnade explain scenes photo.jpg --tag boat -o boat.png
      supdocnade explain scenes photo.jpg --label street --json
    """
    opt.check_device(device)
    if label is not None and tag is not None:
        raise UsageError("--label and --tag must not both be given.")
    check_picture(output, image)
    from supdocnade.images.decode import write_image
    from supdocnade.report.heatmap import draw_explanation
    from supdocnade.scene.attribution import explain_image
    from supdocnade.scene.persistence import load_scene

    fitted, _ = load_scene(model)
    explanation = explain_image(
        fitted, image, label=label, tag=tag, name=os.fspath(image), device=device
    )
    picture = unused_path(default_picture(image, explanation.name)) if output is None else output
    write_image(picture, draw_explanation(image, explanation, fitted.encoder.describer.decoding))
    if json:
        print_json(explanation_to_dict(image, picture, explanation))
    elif not quiet:
        print_line(format_explanation(image, picture, explanation))


def check_picture(output: Path | None, image: Path) -> None:
    """Raise if the picture has another suffix than .png or would replace the photograph."""
    if output is None:
        return
    if output.suffix.lower() != SUFFIX:
        raise InvalidArgument(f"--output must end in {SUFFIX}, got {output}.")
    if output.exists() and image.exists() and os.path.samefile(output, image):
        raise InvalidArgument(f"--output must not be the photograph itself, got {output}.")


def default_picture(image: Path, name: str) -> Path:
    """Return the default name of a picture in the current folder.

    >>> default_picture(Path("photos/a.jpg"), "open country").name
    'a-open-country.png'
    """
    slug = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "explained"
    return Path(f"{image.stem[:_MAX_LENGTH]}-{slug[:_MAX_LENGTH]}{SUFFIX}")


def unused_path(picture: Path) -> Path:
    """Return the path with the first number that no existing file has."""
    number, free = 1, picture
    while free.exists():
        number += 1
        free = picture.with_name(f"{picture.stem}-{number}{picture.suffix}")
    return free


def explanation_to_dict(image: Path, picture: Path, explanation: "Explanation") -> dict[str, Any]:
    """Return the object that `--json` prints."""
    patches = zip(
        explanation.centres_S2.tolist(),
        explanation.patch_size_S.tolist(),
        explanation.share_S.tolist(),
        strict=True,
    )
    return {
        "file": os.fspath(image),
        "picture": os.fspath(picture),
        "kind": explanation.kind,
        "name": explanation.name,
        "probability": explanation.probability,
        "given": explanation.given,
        "score": explanation.score,
        "empty": explanation.empty,
        "whole": explanation.whole,
        "global_share": explanation.global_share,
        "size": list(explanation.size),
        "patches": [
            {"y": y, "x": x, "size": size, "share": share} for (y, x), size, share in patches
        ],
        "topics": explanation.topic_share_H.tolist(),
    }


def format_explanation(image: Path, picture: Path, explanation: "Explanation") -> str:
    """Return a summary of an explanation."""
    from supdocnade.report.heatmap import describe_score, describe_support

    topics = explanation.topic_share_H
    as_whole = ""
    if explanation.global_share:
        as_whole = f"the photograph as a whole: {explanation.global_share:+.2f}\n"
    strongest = ", ".join(f"{topic} ({topics[topic]:+.2f})" for topic in (-topics).argsort()[:3])
    return (
        f"{image}: {explanation.name}, {explanation.decision} ({describe_score(explanation)})\n"
        f"{describe_support(explanation)}\n"
        f"{as_whole}"
        f"strongest topics: {strongest}\n"
        f"picture written to {picture}"
    )
