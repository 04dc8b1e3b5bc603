"""`supdocnade explain`: a picture of what in a photograph spoke for its class or a tag."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supdocnade.cli.console import say, say_json
from supdocnade.cli.options import Debug, Device, Json, Model, Quiet, UsageError, check_device
from supdocnade.errors import InvalidArgument

if TYPE_CHECKING:
    from supdocnade.scene.attribution import Explanation

ENDING = ".png"
_LONGEST = 30
"""Letters of a photograph, and of a class or tag, in the name of a picture: names of files end
at 255 bytes."""


def explain(
    model: Model,
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="A photograph.")],
    label: Annotated[
        str | None, typer.Option(help="Explain this class; otherwise the predicted one.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Explain this tag, instead of a class.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The picture, .png; otherwise IMAGE-NAME.png here."),
    ] = None,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show which patches of a photograph spoke for a class or a tag.

    Unless told otherwise, the class is the one that is predicted.
    The shares of all patches add up to the score of the photograph less that of an empty one. The
    picture is the photograph with the shares drawn over it; --json prints every share.

    \b
    Examples:
      supdocnade explain scenes photo.jpg
      supdocnade explain scenes photo.jpg --tag boat -o boat.png
      supdocnade explain scenes photo.jpg --label street --json
    """
    check_device(device)
    if label is not None and tag is not None:
        raise UsageError("--label and --tag must not both be given.")
    check_picture(output, image)
    explanation, picture = explain_file(model, image, output, label=label, tag=tag)
    if json:
        say_json(as_object(image, picture, explanation))
    elif not quiet:
        say(as_text(image, picture, explanation))


def check_picture(output: Path | None, image: Path) -> None:
    """Refuse a picture that would be none, or that would replace the photograph."""
    if output is None:
        return
    if output.suffix.lower() != ENDING:
        raise InvalidArgument(f"--output must end in {ENDING}, got {output}.")
    if output.exists() and image.exists() and os.path.samefile(output, image):
        raise InvalidArgument(f"--output must not be the photograph itself, got {output}.")


def default_picture(image: Path, name: str) -> Path:
    """Return the name of a picture in this folder.

    >>> default_picture(Path("photos/a.jpg"), "open country").name
    'a-open-country.png'
    """
    spelled = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "explained"
    return Path(f"{image.stem[:_LONGEST]}-{spelled[:_LONGEST]}{ENDING}")


def unused(picture: Path) -> Path:
    """Return a name that nothing has yet: what is there may be a photograph."""
    number, free = 1, picture
    while free.exists():
        number += 1
        free = picture.with_name(f"{picture.stem}-{number}{picture.suffix}")
    return free


def explain_file(
    model: Path, image: Path, output: Path | None, *, label: str | None, tag: str | None
) -> "tuple[Explanation, Path]":
    """Explain a photograph and draw the picture; return what was found and where the picture is."""
    from supdocnade.images.decode import write_image
    from supdocnade.report.heatmap import draw_explanation
    from supdocnade.scene.model import SceneModel

    loaded = SceneModel.load(model)
    explanation = loaded.explain(image, label=label, tag=tag)
    picture = unused(default_picture(image, explanation.name)) if output is None else output
    decoding = loaded.fitted_.bag.encoder_.description.decoding
    write_image(picture, draw_explanation(image, explanation, decoding))
    return explanation, picture


def as_object(image: Path, picture: Path, explanation: "Explanation") -> dict[str, Any]:
    """Return what `--json` prints."""
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
        "score": explanation.score,
        "empty": explanation.empty,
        "whole": explanation.whole,
        "size": list(explanation.size),
        "patches": [
            {"y": y, "x": x, "size": size, "share": share} for (y, x), size, share in patches
        ],
        "topics": explanation.topic_share_H.tolist(),
    }


def as_text(image: Path, picture: Path, explanation: "Explanation") -> str:
    """Return what people read."""
    shares, topics = explanation.share_S, explanation.topic_share_H
    most = ", ".join(f"{topic} ({topics[topic]:+.2f})" for topic in (-topics).argsort()[:3])
    return (
        f"{image}: {explanation.kind} {explanation.name}, {explanation.score} "
        f"{explanation.whole:.2f} ({explanation.empty:.2f} without any patch)\n"
        f"{int((shares > 0).sum())} patches spoke for it ({shares[shares > 0].sum():+.2f}), "
        f"{int((shares < 0).sum())} against it ({shares[shares < 0].sum():+.2f})\n"
        f"strongest topics: {most}\n"
        f"picture written to {picture}"
    )
