"""`supdocnade info`: list what a model knows and how it was made."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supdocnade.cli import options as opt
from supdocnade.cli.console import format_held_out, format_table, print_json, print_line
from supdocnade.text import clean_name, format_percent

if TYPE_CHECKING:
    from supdocnade.scene.prediction import FittedScene


def info(model: opt.Model, json: opt.Json = False, debug: opt.Debug = False) -> None:
    """List the classes, tags, settings and figures of a model.

    The figures are those on photographs that were held out while the model was trained. Beside each
    tag are the number of its photographs and the probability from which on `predict --write-xmp`
    writes it.

    \b
    Examples:
      supdocnade info scenes
      supdocnade info scenes --json
    """
    from supdocnade.scene.persistence import load_scene

    fitted, params = load_scene(model)
    if json:
        print_json(info_to_dict(model, fitted, params["random_state"]))
    else:
        print_line(format_info(fitted, params["random_state"]))


def info_to_dict(model: Path, fitted: "FittedScene", seed: int | None) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    thresholds = fitted.precise_thresholds
    return {
        "model": os.fspath(model),
        "n_images": fitted.data["n_images"],
        "n_unlabelled": fitted.data["n_unlabelled"],
        "n_tagged": fitted.data["n_tagged"],
        "classes": fitted.data["images_of_class"],
        "tags": {
            tag: {"n_images": count, "written_from": thresholds[tag]}
            for tag, count in _tag_counts(fitted).items()
        },
        "settings": {**fitted.settings.used(), "random_state": seed},
        "classifier": fitted.choices.classifier,
        "choices": asdict(fitted.choices),
        "held_out": {"n_images": fitted.held_out.n_images, **fitted.held_out.figures},
        "versions": fitted.versions,
    }


def format_info(fitted: "FittedScene", seed: int | None) -> str:
    """Return tables of the data, the classes, the tags and the settings of a model."""
    data, settings = fitted.data, fitted.settings.used()
    rows = [
        ["photographs", f"{data['n_images']}"],
        ["  without a class", f"{data['n_unlabelled']}"],
        ["  with known tags", f"{data['n_tagged']}"],
        ["classes", f"{len(fitted.classes)}"],
        ["tags", f"{len(fitted.tag_names)}"],
        ["features", settings["features"]],
        *([["classifier", fitted.choices.classifier]] if fitted.choices.classifier else []),
        ["made by supdocnade", fitted.versions.get("supdocnade", "?")],
    ]
    figures = fitted.held_out.figures
    errors = {"classes": "class_calibration_error", "tags": "tag_calibration_error"}
    rows += [
        [f"calibration error of {name}", f"{100 * figures[figure]:.1f} %"]
        for name, figure in errors.items()
        if figure in figures
    ]
    parts = [format_table(rows), format_held_out(fitted)]
    if fitted.classes:
        counts = [[clean_name(name), f"{data['images_of_class'][name]}"] for name in fitted.classes]
        parts.append(format_table([["class", "photographs"], *counts]))
    if fitted.tag_names:
        thresholds = fitted.precise_thresholds
        tags = [
            [clean_name(tag), f"{count}", format_percent(thresholds[tag])]
            for tag, count in _tag_counts(fitted).items()
        ]
        parts.append(format_table([["tag", "photographs", "written from"], *tags]))
    values = {**settings, "random_state": seed}
    named = [[name, clean_name(str(value))] for name, value in values.items()]
    parts.append(format_table([["setting", "value"], *named]))
    return "\n\n".join(parts)


def _tag_counts(fitted: "FittedScene") -> dict[str, int]:
    """Return the number of training photographs with each tag."""
    counts_A = (fitted.tag_frequency_A * fitted.data["n_tagged"]).round().astype(int)
    return dict(zip(fitted.tag_names, counts_A.tolist(), strict=True))
