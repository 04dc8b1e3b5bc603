"""`supdocnade evaluate`: how well a model does on photographs whose classes and tags are known."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from supdocnade.cli.console import Stages, count, note, percent, say, say_json, table
from supdocnade.cli.options import Debug, Device, Jobs, Json, Model, Photos, Quiet, check_device
from supdocnade.text import clean_name

if TYPE_CHECKING:
    from supdocnade.report.evaluation import Evaluation


def evaluate(
    model: Model,
    photos: Photos,
    device: Device = "auto",
    jobs: Jobs = -1,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compare a model with photographs whose classes and tags are known.

    PHOTOS is read as by `train`. Use photographs that the model was not trained on: on others the
    figures only say what it remembers. Accuracy is the share of right classes; the F-measure
    compares the five best tags with the true ones; a calibration error says how far probabilities
    are from the truth, 0 being right on.

    \b
    Examples:
      supdocnade evaluate scenes other-photos
      supdocnade evaluate scenes other-photos --json
    """
    check_device(device)
    measured, n_learned = evaluate_model(model, photos, device=device, jobs=jobs, quiet=quiet)
    if n_learned and not quiet:
        seen = count(n_learned, "photograph")
        note(f"note: {seen} of these were learned from; the figures flatter the model.")
    for each in measured.skipped:
        note(f"error: {each.reason}")
    if json:
        say_json(as_object(measured))
    else:
        say(as_text(measured))
    if measured.skipped:
        raise typer.Exit(1)


def evaluate_model(
    model: Path, photos: Path, *, device: str = "auto", jobs: int, quiet: bool
) -> "tuple[Evaluation, int]":
    """Let a model look at a folder; return how it did, and how much of it it had learned from."""
    from supdocnade.folders.photo_folder import read_folder
    from supdocnade.report.evaluation import evaluate_photographs
    from supdocnade.scene.dataset import from_records
    from supdocnade.scene.model import SceneModel

    loaded = SceneModel.load(model).set_params(n_jobs=jobs, device=device)
    records = read_folder(photos)
    with Stages(quiet=quiet) as stages:
        measured = evaluate_photographs(loaded, records, progress=stages)
    seen = set(loaded.fitted_.training_set.photographs.content_keys())
    return measured, sum(key in seen for key in from_records(records).content_keys())


def as_object(measured: "Evaluation") -> dict[str, Any]:
    """Return what `--json` prints."""
    skipped = [{"file": each.name, "reason": each.reason} for each in measured.skipped]
    return {**asdict(measured), "skipped": skipped}


def as_text(measured: "Evaluation") -> str:
    """Return figures and the confusion matrix as people read them."""
    rows = [["photographs", f"{measured.n_images}"]]
    if measured.accuracy is not None:
        rows.append(["accuracy", f"{100 * measured.accuracy:.1f} %"])
        if measured.accuracy_of_sure is not None and measured.n_unsure:
            rows.append(["  where it is sure", f"{100 * measured.accuracy_of_sure:.1f} %"])
            rows.append(["  unsure of", f"{measured.n_unsure}"])
        rows.append(["  calibration error", f"{measured.class_calibration_error:.3f}"])
    if measured.f_measure is not None:
        rows.append(["F-measure of five tags", f"{measured.f_measure:.3f}"])
        rows.append(["  of the tags it gives", f"{measured.f_measure_of_given:.3f}"])
        rows.append(["  calibration error", f"{measured.tag_calibration_error:.3f}"])
    text = table(rows)
    if measured.n_unknown_classes:
        n_unknown = count(measured.n_unknown_classes, "photograph")
        text += f"\n{n_unknown} of classes that the model does not know count as mistakes"
    if measured.confusion:
        text += "\n\n" + _confusion(measured.confusion)
    return text


def _confusion(confusion: dict[str, dict[str, int]]) -> str:
    """Return a row for every true class: its name, how many are right, and the numbers."""
    given = list(next(iter(confusion.values())))
    header = ["true class", "right", *(f"[{n}]" for n in range(1, len(given) + 1))]
    rows = [header]
    for label, row in confusion.items():
        number = f"[{given.index(label) + 1}] " if label in given else ""
        right = row.get(label, 0) / max(sum(row.values()), 1)
        rows.append(
            [f"{number}{clean_name(label)}", percent(right), *(str(row[name]) for name in given)]
        )
    return table(rows)
