"""What a model is, and how good: `supdocnade info`, `report`, `evaluate` and `card`."""

import os
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from supdocnade.cli.console import (
    ProgressBars,
    format_count,
    format_held_out,
    format_right,
    format_table,
    print_json,
    print_line,
    print_message,
    show_progress,
)
from supdocnade.cli.model_commands import Card, Evaluate, Info, Report
from supdocnade.corpus.disk import Corpus, is_corpus
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.folders.photo_sources import scan_photographs
from supdocnade.report.evaluation import (
    Evaluation,
    evaluate_corpus,
    evaluate_photographs,
    frequent_confusions,
)
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

MAX_CLASSES, MAX_TAGS = 12, 20
"""Largest number of classes of a confusion matrix, and of tags, that are printed without --all."""


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
        "held_out": {"n_images": fitted.held_out.n_images, **fitted.held_out.metrics},
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
    metrics = fitted.held_out.metrics
    errors = {"classes": "class_calibration_error", "tags": "tag_calibration_error"}
    rows += [
        [f"calibration error of {name}", f"{100 * metrics[metric]:.1f} %"]
        for name, metric in errors.items()
        if metric in metrics
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


def evaluate(options: Evaluate) -> int:
    """Print the evaluation of a model; return 1 if some photographs cannot be read."""
    evaluation = evaluate_model(options)
    if evaluation.n_trained and not options.quiet:
        were = "was" if evaluation.n_trained == 1 else "were"
        print_message(
            f"note: {evaluation.n_trained:,} of these photographs {were} used for training, "
            "so the metrics are too good."
        )
    for each in evaluation.skipped:
        print_message(f"error: {each.reason}")
    if options.json:
        skipped = [{"file": each.name, "reason": each.reason} for each in evaluation.skipped]
        print_json({**asdict(evaluation), "skipped": skipped})
    else:
        print_line(format_evaluation(evaluation, all_rows=options.all_rows))
    return 1 if evaluation.skipped else 0


def evaluate_model(options: Evaluate) -> Evaluation:
    """Return the evaluation of a model."""
    photos, quiet, classes = options.photos, options.quiet, options.classes
    fitted = load_scene(options.model)
    if is_corpus(Path(photos)):
        with show_progress(options, stage_lines=False) as run:
            return evaluate_corpus(fitted, Corpus.open(photos), run)
    with ProgressBars(quiet=quiet, stage_lines=False) as progress:
        folder = scan_photographs(photos, progress, classes=classes)
    for note in () if quiet else folder.notes:
        print_message(f"note: {note}")
    if not any(record.label is not None or record.tags for record in folder.records):
        raise InvalidArgument(
            f"{photos} has no classes and no tags, so there is nothing to compare with; give the "
            "folder above it, with one sub-folder per class, or a folder with tags."
        )
    with show_progress(options, stage_lines=False) as run:
        return evaluate_photographs(fitted, folder.records, run)


def format_evaluation(evaluation: Evaluation, *, all_rows: bool = False) -> str:
    """Return tables of the metrics, the confusions and the tags."""
    rows = [["photographs", f"{evaluation.n_images:,}"]]
    if evaluation.n_unfamiliar:
        rows.append(["  unlike the training photographs", f"{evaluation.n_unfamiliar:,}"])
    n_classes = len(next(iter(evaluation.confusion.values()), ()))
    # A single class is always predicted.
    if evaluation.accuracy is not None and n_classes > 1:
        rows.append(["accuracy", format_right(evaluation.accuracy, evaluation.n_labelled)])
        if evaluation.accuracy_of_sure is not None and evaluation.n_unsure:
            n_sure = evaluation.n_labelled - evaluation.n_unsure
            right = format_right(evaluation.accuracy_of_sure, n_sure)
            rows.append(["  where the model is sure", right])
            rows.append(["  answers marked unsure", f"{evaluation.n_unsure:,}"])
        rows.append(["  calibration error", _format_error(evaluation.class_calibration_error)])
    if evaluation.f_measure is not None:
        rows.append(["F-measure of five tags", f"{evaluation.f_measure:.3f}"])
        rows.append(["F-measure of predicted tags", f"{evaluation.f_measure_of_given:.3f}"])
        if evaluation.tag_f1 is not None:
            by_tag = f"{evaluation.tag_precision:.3f} / {evaluation.tag_recall:.3f}"
            rows.append(["precision / recall per tag", by_tag])
            rows.append(["  F1 per tag", f"{evaluation.tag_f1:.3f}"])
            found = f"{evaluation.n_tags_found} of {evaluation.n_tags_present}"
            rows.append(["  tags found", found])
        rows.append(["  calibration error", _format_error(evaluation.tag_calibration_error)])
    text = format_table(rows)
    if evaluation.n_unknown_classes:
        n_unknown = format_count(evaluation.n_unknown_classes, "photograph")
        text += f"\n{n_unknown} of classes that the model does not know count as errors"
    if n_classes > 1:
        whole = all_rows or n_classes <= MAX_CLASSES
        form = _format_confusion if whole else _format_classes
        text += "\n\n" + form(evaluation.confusion)
    if evaluation.tags:
        text += "\n\n" + _format_tags(evaluation.tags, None if all_rows else MAX_TAGS)
    return text


def _format_error(error: float | None) -> str:
    return "-" if error is None else f"{100 * error:.1f} %"


def _format_confusion(confusion: dict[str, dict[str, int]]) -> str:
    """Return one row per true class: its name, the share of correct predictions, and counts."""
    predicted = list(next(iter(confusion.values())))
    header = ["true class", "right", *(f"[{n}]" for n in range(1, len(predicted) + 1))]
    rows = [header]
    for label, row in confusion.items():
        name = f"{clean_name(label)} (not known)"
        if label in predicted:
            name = f"[{predicted.index(label) + 1}] {clean_name(label)}"
        right = format_percent(row.get(label, 0) / max(sum(row.values()), 1))
        rows.append([name, right, *(f"{row[each]:,}" for each in predicted)])
    # Columns of classes that no photograph has are named below.
    others = [
        f"[{number}] {clean_name(name)}"
        for number, name in enumerate(predicted, 1)
        if name not in confusion
    ]
    legend = f"\nother predicted classes: {', '.join(others)}" if others else ""
    return format_table(rows) + legend


def _format_classes(confusion: dict[str, dict[str, int]]) -> str:
    """Return the share of correct predictions of each true class, and the frequent confusions."""
    rows = [["true class", "photographs", "right"]]
    for label, row in confusion.items():
        total = sum(row.values())
        name = clean_name(label) if label in row else f"{clean_name(label)} (not known)"
        rows.append([name, f"{total:,}", format_percent(row.get(label, 0) / total)])
    lines = [format_table(rows)]
    if confusions := frequent_confusions(confusion, MAX_CLASSES):
        found = [["most frequent confusions", "photographs"]]
        for each in confusions:
            names = f"{clean_name(each['label'])}, predicted as {clean_name(each['predicted'])}"
            found.append([names, f"{each['count']['hits']:,} of {each['count']['total']:,}"])
        lines.append(format_table(found))
    return "\n\n".join([*lines, "(--all prints the whole matrix)"])


def _format_tags(tags: dict[str, dict[str, Any]], limit: int | None) -> str:
    """Return the precision and the recall of tags, the most frequent first."""
    ranked = sorted(tags, key=lambda tag: -tags[tag]["n_images"])
    rows = [["tag", "photographs", "predicted", "precision", "recall"]]
    for tag in ranked[:limit]:
        metrics = tags[tag]
        shares = (metrics["precision"], metrics["recall"])
        rows.append(
            [
                clean_name(tag),
                f"{metrics['n_images']:,}",
                f"{metrics['n_predicted']:,}",
                *("-" if share is None else format_percent(share) for share in shares),
            ]
        )
    n_more = len(tags) - len(rows) + 1
    more = f"\n({format_count(n_more, 'other tag')}: --all)" if n_more else ""
    return format_table(rows) + more
