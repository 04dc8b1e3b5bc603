"""`supdocnade explain`: draw which patches of a photograph support its class or a tag."""

import os
import re
from pathlib import Path
from typing import Any

from supdocnade.cli.console import print_json, print_line
from supdocnade.cli.model_commands import Explain
from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import write_image
from supdocnade.report.heatmap import draw_explanation
from supdocnade.scene.attribution import Explanation, explain_image
from supdocnade.scene.persistence import load_scene
from supdocnade.text import clean_name, format_percent

SUFFIX = ".png"
_MAX_LENGTH = 30
"""Maximum length of the parts of a default file name, which is limited to 255 bytes."""


def explain(options: Explain) -> None:
    """Draw an explanation and print its summary."""
    image, picture = options.image, options.output
    check_picture(picture, image)
    fitted = load_scene(options.model)
    explanation = explain_image(
        fitted,
        image,
        label=options.label,
        tag=options.tag,
        name=os.fspath(image),
        device=options.device,
    )
    if picture is None:
        picture = unused_path(default_picture(image, explanation.name))
    write_image(picture, draw_explanation(image, explanation, fitted.encoder.describer.decoding))
    if options.json:
        print_json(explanation_to_dict(image, picture, explanation))
    elif not options.quiet:
        name = clean_name(explanation.name)
        print_line(f"{clean_name(str(image))}: {name}, {explanation.decision}")
        if explanation.voters:
            names = ", ".join(
                f"{clean_name(voter)} ({format_percent(share)})"
                for voter, share in explanation.voters
            )
            print_line(f"similar training photographs with this tag: {names}")
        print_line(f"picture written to {clean_name(str(picture))}")


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


def explanation_to_dict(image: Path, picture: Path, explanation: Explanation) -> dict[str, Any]:
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
        "features": explanation.feature_share,
        "voters": [{"file": name, "share": share} for name, share in explanation.voters],
    }
