"""What a model is: `supdocnade info`, `supdocnade report` and `supdocnade card`."""

import os
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from supdocnade.cli.console import (
    format_held_out,
    format_table,
    print_json,
    print_line,
    print_message,
)
from supdocnade.cli.model_commands import Card, Info, Report
from supdocnade.errors import StorageError
from supdocnade.report.html import write_report
from supdocnade.scene.persistence import SCENE, check_target, load_scene
from supdocnade.scene.prediction import FittedScene
from supdocnade.scene.sharing import (
    describe_contents,
    model_card,
    strip_scene,
    write_shared_model,
)
from supdocnade.text import clean_name, format_percent

REPORT = "report.html"
"""Default name of the report in the folder of the model."""


def info(options: Info) -> None:
    """Print what a model knows and how it was made."""
    fitted = load_scene(options.model)
    if options.json:
        print_json(info_to_dict(options.model, fitted))
    else:
        print_line(format_info(fitted, all_rows=options.all_rows))


def report(options: Report) -> None:
    """Write an HTML report of a model."""
    path = options.model / REPORT if options.output is None else options.output
    fitted = load_scene(options.model)
    made = date.fromtimestamp((options.model / SCENE).stat().st_mtime)
    title = f"Report of {Path(os.path.abspath(options.model)).name}, made {made}"
    write_report(fitted, path, title=title)
    if options.json:
        print_json({"report": os.fspath(path)})
    elif not options.quiet:
        print_line(f"report written to {path}")


def card(options: Card) -> None:
    """Print the model card of a model, or write a model that can be shared."""
    model, output = options.model, options.output
    if output is not None:
        target = Path(os.path.realpath(output))  # See `check_target`.
        if target.exists() and model.exists() and target.samefile(model):
            raise StorageError(f"--output must be another folder than the model, got {output}.")
        check_target(output, force=options.force)
    fitted = load_scene(model)
    name = options.name or Path(os.path.abspath(model)).name
    if output is None:
        print_line(model_card(fitted, name, licence=options.licence).rstrip("\n"))
        return
    fitted = strip_scene(fitted) if options.strip else fitted
    write_shared_model(fitted, output, name, options.licence)
    if not options.quiet:
        for sentence in describe_contents(fitted):
            print_message(f"note: {sentence}")
        print_line(f"model and card written to {output}")


def info_to_dict(model: Path, fitted: FittedScene) -> dict[str, Any]:
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
        "settings": fitted.used_settings(),
        "choices": asdict(fitted.choices),
        "held_out": {"n_images": fitted.held_out.n_images, **fitted.held_out.figures},
        "versions": fitted.versions,
    }


def format_info(fitted: FittedScene, *, all_rows: bool = True) -> str:
    """Return tables of the data, the classes, the tags and, if all, the settings of a model."""
    data, settings = fitted.data, fitted.used_settings()
    rows = [
        ["photographs", f"{data['n_images']:,}"],
        ["  without a class", f"{data['n_unlabelled']:,}"],
        ["  with known tags", f"{data['n_tagged']:,}"],
        ["classes", f"{len(fitted.classes)}"],
        ["tags", f"{len(fitted.tag_names)}"],
        ["features", settings["features"]],
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
        numbers = data["images_of_class"]
        counts = [[clean_name(name), f"{numbers[name]:,}"] for name in fitted.classes]
        parts.append(format_table([["class", "photographs"], *counts]))
    if fitted.tag_names:
        thresholds = fitted.precise_thresholds
        tags = [
            [clean_name(tag), f"{count:,}", format_percent(thresholds[tag])]
            for tag, count in _tag_counts(fitted).items()
        ]
        parts.append(format_table([["tag", "photographs", "XMP from"], *tags]))
    if all_rows:
        named = [[name, clean_name(str(value))] for name, value in settings.items()]
        parts.append(format_table([["setting", "value"], *named]))
    return "\n\n".join(parts)


def _tag_counts(fitted: FittedScene) -> dict[str, int]:
    """Return the number of training photographs with each tag."""
    counts_A = (fitted.tag_frequency_A * fitted.data["n_tagged"]).round().astype(int)
    return dict(zip(fitted.tag_names, counts_A.tolist(), strict=True))
