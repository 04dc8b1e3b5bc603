"""`supdocnade evaluate`: measure a model on photographs with known classes and tags."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from supdocnade.cli.console import (
    ProgressBars,
    format_count,
    format_percent,
    format_table,
    print_json,
    print_line,
    print_message,
)
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
    """Measure a model on photographs with known classes and tags.

    PHOTOS is read as by `train`. Use photographs that the model was not trained on: otherwise the
    figures are too good. Accuracy is the share of correct classes; the F-measure compares the five
    best tags with the true ones; the calibration error is the mean difference between predicted
    probabilities and observed frequencies.

    \b
    Examples:
      supdocnade evaluate scenes other-photos
      supdocnade evaluate scenes other-photos --json
    """
    check_device(device)
    evaluation, n_learned = evaluate_model(model, photos, device=device, jobs=jobs, quiet=quiet)
    if n_learned and not quiet:
        number = format_count(n_learned, "photograph")
        print_message(
            f"note: the model was trained on {number} of these; the figures are too good."
        )
    for each in evaluation.skipped:
        print_message(f"error: {each.reason}")
    if json:
        print_json(evaluation_to_dict(evaluation))
    else:
        print_line(format_evaluation(evaluation))
    if evaluation.skipped:
        raise typer.Exit(1)


def evaluate_model(
    model: Path, photos: Path, *, device: str = "auto", jobs: int, quiet: bool
) -> "tuple[Evaluation, int]":
    """Return the evaluation of a model, and the number of photographs it was trained on."""
    from supdocnade.folders.photo_folder import read_folder
    from supdocnade.report.evaluation import evaluate_photographs
    from supdocnade.scene.dataset import from_records
    from supdocnade.scene.model import SceneModel

    loaded = SceneModel.load(model).set_params(n_jobs=jobs, device=device)
    records = read_folder(photos)
    with ProgressBars(quiet=quiet, stage_lines=False) as progress:
        evaluation = evaluate_photographs(loaded, records, progress=progress)
    learned = set(loaded.fitted_.training_set.photographs.content_keys())
    return evaluation, sum(key in learned for key in from_records(records).content_keys())


def evaluation_to_dict(evaluation: "Evaluation") -> dict[str, Any]:
    """Return the object that `--json` prints."""
    skipped = [{"file": each.name, "reason": each.reason} for each in evaluation.skipped]
    return {**asdict(evaluation), "skipped": skipped}


def format_evaluation(evaluation: "Evaluation") -> str:
    """Return a table of the figures and the confusion matrix."""
    rows = [["photographs", f"{evaluation.n_images}"]]
    if evaluation.accuracy is not None:
        rows.append(["accuracy", f"{100 * evaluation.accuracy:.1f} %"])
        if evaluation.accuracy_of_sure is not None and evaluation.n_unsure:
            rows.append(["  where the model is sure", f"{100 * evaluation.accuracy_of_sure:.1f} %"])
            rows.append(["  unsure predictions", f"{evaluation.n_unsure}"])
        rows.append(["  calibration error", f"{evaluation.class_calibration_error:.3f}"])
    if evaluation.f_measure is not None:
        rows.append(["F-measure of five tags", f"{evaluation.f_measure:.3f}"])
        rows.append(["  of the predicted tags", f"{evaluation.f_measure_of_given:.3f}"])
        rows.append(["  calibration error", f"{evaluation.tag_calibration_error:.3f}"])
    text = format_table(rows)
    if evaluation.n_unknown_classes:
        n_unknown = format_count(evaluation.n_unknown_classes, "photograph")
        text += f"\n{n_unknown} of classes that the model does not know count as errors"
    if evaluation.confusion:
        text += "\n\n" + _format_confusion(evaluation.confusion)
    return text


def _format_confusion(confusion: dict[str, dict[str, int]]) -> str:
    """Return one row per true class: its name, the share of correct predictions, and counts."""
    predicted = list(next(iter(confusion.values())))
    header = ["true class", "right", *(f"[{n}]" for n in range(1, len(predicted) + 1))]
    rows = [header]
    for label, row in confusion.items():
        number = f"[{predicted.index(label) + 1}] " if label in predicted else ""
        right = format_percent(row.get(label, 0) / max(sum(row.values()), 1))
        counts = [str(row[name]) for name in predicted]
        rows.append([f"{number}{clean_name(label)}", right, *counts])
    return format_table(rows)
