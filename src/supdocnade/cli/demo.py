"""`supdocnade demo`: train, evaluate and report on drawn scenes."""

import json
import os
import shlex
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_choice, check_count
from supdocnade.cli.about_model import REPORT
from supdocnade.cli.console import (
    ProgressBars,
    format_count,
    print_json,
    print_line,
    print_message,
)
from supdocnade.cli.features import describe_features, resolve_features
from supdocnade.cli.learning_commands import Demo
from supdocnade.cli.predict import format_text
from supdocnade.cli.stopping import explain_resuming
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.folders.photo_folder import ImageRecord, read_folder
from supdocnade.images.decode import DecodeConfig, decode, encode
from supdocnade.report.evaluation import Evaluation, evaluate_photographs
from supdocnade.report.html import write_report
from supdocnade.runs import RunOptions
from supdocnade.scene.model import SceneModel, scene_model
from supdocnade.scene.prediction import Prediction
from supdocnade.storage import write_atomically
from supdocnade.text import format_percent
from supdocnade.unfinished import PartialFolder

ARCHIVE = Path(__file__).parents[1] / "scenes.zip"
"""Drawn scenes, with the visible objects as tags; `python -m tools.draw_scenes` writes it."""
METADATA = "metadata.jsonl"
CLASSES = ("coast", "dunes", "field", "forest", "mountain", "skyline", "street", "village")
N_PER_CLASS = 50

PHOTOS, FRESH, MODEL = "photos", "fresh", "model"

SETTINGS: dict[str, Any] = {"n_topics": 50, "n_words": 200}
"""Small numbers, so that the demo takes only a minute or two."""

N_TRAIN, N_FRESH = 40, 10
"""Scenes per class to learn from and to test on."""

N_EXAMPLES = 4


def demo(options: Demo) -> None:
    """Run the demo."""
    output, started = options.output, time.perf_counter()
    features = resolve_features(options.features)
    if not (options.quiet or options.json):
        print_message("learning from drawn scenes, all on this machine ...")
    command = ["supdocnade", "demo", "-o", f"{output}", "--features", features]
    explain_resuming(f"resume with: {shlex.join(command)}")
    with ProgressBars(quiet=options.quiet) as progress:
        run = RunOptions(n_jobs=options.jobs, device=options.device, progress=progress)
        model, evaluation = run_demo(output, features, run)
    examples = predict_examples(model, output)
    if not options.json:
        print_summary(output, model, evaluation, examples)
        print_line(f"({time.perf_counter() - started:.0f} seconds)")
        return
    print_json(
        {
            "photos": str(output / PHOTOS),
            "model": str(output / MODEL),
            "report": str(output / REPORT),
            "n_images": model.fitted_.data["n_images"],
            "n_fresh": evaluation.n_images,
            "accuracy": evaluation.accuracy,
            "f_measure": evaluation.f_measure,
            "predictions": [prediction.to_dict() for _, prediction in examples],
            "seconds": {stage: round(value, 2) for stage, value in progress.seconds.items()},
        }
    )


def run_demo(folder: Path, features: str, options: RunOptions) -> tuple[SceneModel, Evaluation]:
    """Write drawn scenes, train and evaluate a model, and write its report.

    A second call resumes an interrupted one.
    """
    check_folder(folder)
    progress = options.progress
    write_scenes(folder / PHOTOS, N_TRAIN)
    write_scenes(folder / FRESH, N_FRESH, first=N_TRAIN)
    partial = PartialFolder(folder / MODEL, "demo")
    with partial.lock():
        partial.read_plan()  # Raises if it is the run of another command.
        partial.write_plan({})
        model = scene_model(features, **SETTINGS, random_state=0)
        model.set_params(n_jobs=options.n_jobs, device=options.device)
        model.set_params(cache=partial.folder / "words", checkpoint=partial.folder / "checkpoint")
        model.fit(folder / PHOTOS, progress=progress)
        model.set_params(cache=None, checkpoint=None).save(folder / MODEL)
        partial.discard()
    evaluation = evaluate_photographs(model.fitted_, read_folder(folder / FRESH), options)
    progress("writing the report", 0, 1)
    write_report(model.fitted_, folder / REPORT)
    progress("writing the report", 1, 1)
    return model, evaluation


def predict_examples(model: SceneModel, folder: Path) -> list[tuple[ImageRecord, Prediction]]:
    """Return a few fresh scenes with their predictions."""
    fresh = read_folder(folder / FRESH)
    records = fresh[:: max(len(fresh) // N_EXAMPLES, 1)][:N_EXAMPLES]
    results = model.iter_predictions([record.path for record in records])
    return [
        (record, result)
        for record, result in zip(records, results, strict=True)
        if isinstance(result, Prediction)
    ]


def check_folder(folder: Path) -> None:
    """Raise if a folder holds anything but an earlier demo."""
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"{folder} must be a folder, got a file.")
    expected = {PHOTOS, FRESH, MODEL, REPORT, PartialFolder(folder / MODEL, "demo").folder.name}
    for path in sorted(folder.iterdir()) if folder.exists() else ():
        if path.name not in expected and not path.name.startswith("."):
            raise StorageError(f"{folder} must be new or hold a demo, it holds {path.name}.")


def print_summary(
    folder: Path,
    model: SceneModel,
    evaluation: Evaluation,
    examples: list[tuple[ImageRecord, Prediction]],
) -> None:
    """Print the results, and what to look at and type next."""
    fitted, saved_model = model.fitted_, str(folder / MODEL)
    classes = format_count(len(fitted.classes), "class")
    tags = format_count(len(fitted.tag_names), "tag")
    drawn = format_count(fitted.data["n_images"], "drawn scene")
    print_line(f"learned {classes} and {tags} from {drawn}")
    print_line(describe_features(str(fitted.words.settings.features)))
    fresh, accuracy = format_count(evaluation.n_images, "fresh scene"), evaluation.accuracy or 0
    results = [f"accuracy {format_percent(accuracy)}"]
    if evaluation.f_measure is not None:
        results.append(f"F-measure of five tags {evaluation.f_measure:.2f}")
    print_line(f"on {fresh}: {', '.join(results)}\n")
    for record, prediction in examples:
        print_line(format_text(prediction.to_dict()))
        print_line(f"  truth: {record.label}; {', '.join(record.tags or ())}")
    explain = ["supdocnade", "explain", saved_model, str(examples[0][0].path)]
    predict = ["supdocnade", "predict", saved_model, str(folder / FRESH)]
    serve = ["supdocnade", "serve", saved_model]
    lines = [
        "",
        f"The report: {folder / REPORT}",
        "  Open it in a browser: it shows the accuracy on scenes that the model had not seen,",
        "  each class and topic, and scenes that the model got right and wrong.",
        "Next, type:",
        f"  {shlex.join(explain)}",
        f"  {shlex.join(predict)}",
        f"  {shlex.join(serve)}  # a web page; needs the extra serve",
        "and with photographs of your own, one folder per class:",
        "  supdocnade train PHOTOS -o MODEL",
    ]
    print_line("\n".join(lines))


class DrawnScene(NamedTuple):
    """Picture with its class and its tags."""

    image: NDArray[np.uint8]
    """(height, width, 3)."""
    label: str
    tags: tuple[str, ...]
    """The visible objects, sorted."""


def scene_name(label: str, number: int) -> str:
    """Return the name of the file of a scene, which is the number-th of its class, from 0.

    >>> scene_name("coast", 0)
    'coast/coast_0001.webp'
    """
    return f"{label}/{label}_{number + 1:04d}.webp"


def drawn_scenes(
    n_per_class: int,
    *,
    first: int = 0,
    classes: Sequence[str] = CLASSES,
    max_side: int | None = None,
) -> list[DrawnScene]:
    """Return drawn scenes of several classes, class by class.

    Parameters
    ----------
    n_per_class, first : this many scenes of every class, from number `first` of its 50.
    classes : some of CLASSES.
    max_side : longest side in pixels; by default 256, as they are stored.
    """
    config = DecodeConfig(max_side=max_side, color=True)
    return [
        DrawnScene(decode(content, config), line["label"], tuple(line["tags"]))
        for line, content in _read_archive(n_per_class, first, classes)
    ]


def write_scenes(
    folder: str | os.PathLike[str],
    n_per_class: int,
    *,
    first: int = 0,
    classes: Sequence[str] = CLASSES,
    max_side: int | None = None,
) -> None:
    """Write drawn scenes as `folder/coast/coast_0001.webp` and so on.

    `metadata.jsonl` has one JSON object per line with `file_name`, `label` and `tags`; it is
    written last. Repeating a call, also an interrupted one, gives the same files.

    Parameters
    ----------
    folder : created if it does not exist.
    n_per_class, first, classes : see `drawn_scenes`.
    max_side : longest side in pixels of smaller copies, as JPEG files; by default the files are
        those of the archive.
    """
    root, files, lines = Path(folder), {}, []
    for index, (line, content) in enumerate(_read_archive(n_per_class, first, classes)):
        name = scene_name(line["label"], index % n_per_class)
        if max_side is not None:
            small = decode(content, DecodeConfig(max_side=max_side, color=True))
            name, content = f"{name.removesuffix('.webp')}.jpg", encode(small, "JPEG")
        files[name] = content
        lines.append(json.dumps({**line, "file_name": name}) + "\n")
    files[METADATA] = "".join(lines).encode()
    for name, content in files.items():
        write_atomically(root / name, content)


def _read_archive(
    n_per_class: int, first: int, classes: Sequence[str]
) -> Iterator[tuple[dict[str, str], bytes]]:
    """Yield the metadata and the file of every scene."""
    check_count("first", first)
    if check_count("n_per_class", n_per_class, least=1) + first > N_PER_CLASS:
        raise InvalidArgument(
            f"first + n_per_class must be at most {N_PER_CLASS}, got {first} + {n_per_class}."
        )
    for label in classes:
        check_choice("classes", label, CLASSES)
    with zipfile.ZipFile(ARCHIVE) as archive:
        lines = [json.loads(line) for line in archive.read(METADATA).splitlines()]
        by_name = {line["file_name"]: line for line in lines}
        for label in classes:
            for number in range(first, first + n_per_class):
                name = scene_name(label, number)
                yield by_name[name], archive.read(name)
