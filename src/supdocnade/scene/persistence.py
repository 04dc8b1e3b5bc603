"""Scene models on disk: a folder with one safetensors file and a JSON description.

================== =============================================================================
file               content
================== =============================================================================
scene.safetensors  the model: a `FittedScene`, which `schema` writes and reads
model.json         settings, classes, tags, choices, metrics and versions once more, for people and
                   other programs; it is never read
report.html        if one was written
================== =============================================================================

The model is one file, so that it is replaced in one step: a reader, even after a kill, finds the
old one or the new one (docs/decisions/0013-files.md). Nothing that is read is ever executed,
and the digest is compared before anything is built.
"""

import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from supdocnade.checks import check_count, check_shape
from supdocnade.errors import InvalidArgument, StorageError, UnwritableFile
from supdocnade.scene.class_heads import RBFSVM
from supdocnade.scene.prediction import FittedScene
from supdocnade.schema import damage_errors, load, save, save_errors
from supdocnade.storage import remove_leftovers, temporary_target, write_atomically
from supdocnade.unfinished import PartialFolder

KIND = "SceneModel"
SCENE, DESCRIPTION, REPORT = "scene.safetensors", "model.json", "report.html"


def check_scene(scene: FittedScene) -> None:
    """Raise `InvalidArgument` unless the parts of a model belong together.

    Combinations of settings are left to the next fit.
    """
    encoder, config = scene.encoder, scene.network.config
    n_classes, n_tags = len(scene.classes), len(scene.tag_names)
    training_set, n_photographs = scene.training_set, len(scene.training_set.photographs)
    features_BF = training_set.features_BF
    for what, found, expected in (
        ("classes", scene.classes, tuple(sorted({*scene.classes}))),
        ("number of classes", n_classes, scene.network.n_classes or n_classes),
        ("number of tags", n_tags, config.n_annotation_words),
        ("words", config.n_visual_words, encoder.n_features),
        ("features", config.n_global_features, encoder.n_image_features),
        ("rotation", scene.rotation.axes_HR.shape[:1], (config.n_topics,)),
        ("tag frequencies", scene.tag_frequency_A.shape, (n_tags,)),
        ("classifier", scene.class_head is None, n_classes < 2),
        ("calibration of tags", scene.choices.tags is None, not scene.tag_names),
        ("digests", len(training_set.photographs.keys or ()), n_photographs),
        ("words of photographs", training_set.counts.shape[1], encoder.n_features),
        ("topics of photographs", scene.topics_BH.shape, (n_photographs, config.n_topics)),
        (
            "features of photographs",
            0 if features_BF is None else features_BF.shape[1],
            encoder.n_image_features,
        ),
    ):
        if found != expected:
            raise InvalidArgument(f"its {what} must be {expected}, got {found}")
    _check_heads(scene)
    _check_data(scene)
    if not {*scene.thumbnails.topics} <= {*range(len(scene.rotation.inverse_RH))}:
        raise InvalidArgument("its thumbnails must show topics that it has")


def _check_heads(scene: FittedScene) -> None:
    """Raise `InvalidArgument` unless classifier and votes fit to the references."""
    n_references = len(scene.reference_rows)
    head, votes = scene.class_head, scene.votes
    if isinstance(head, RBFSVM):
        shape = len(scene.classes), n_references
        check_shape("coefficients", head.coefficient_CN.shape, shape)
        check_shape("intercepts", head.intercept_C.shape, shape[:1])
    if votes is not None:
        check_shape("votes", votes.has_TA.shape, (len(votes.row_T), len(scene.tag_names)))
        if not len(votes.row_T) or votes.row_T.max() >= n_references:
            raise InvalidArgument("its votes must be those of its photographs")


def _check_data(scene: FittedScene) -> None:
    data, counts = scene.data, scene.data.get("images_of_class")
    if not isinstance(counts, dict) or set(counts) != set(scene.classes):
        raise InvalidArgument(f"its data must be of its classes, got {counts}")
    levels = data.get("tag_levels", {})
    if not isinstance(levels, dict) or not all(isinstance(path, str) for path in levels.values()):
        raise InvalidArgument(f"its levels of tags must be strings, got {levels}")
    numbers = [data.get(name) for name in ("n_images", "n_unlabelled", "n_tagged")]
    for number in [*numbers, *counts.values()]:
        check_count("data", number)


def save_scene(fitted: FittedScene, folder: Path) -> None:
    """Write a model to a folder, which must be new or hold a model."""
    check_target(folder)
    is_new = not folder.exists()
    try:
        with save_errors(KIND):
            check_scene(fitted)
        save(folder / SCENE, KIND, fitted)
    except BaseException:
        with suppress(OSError):
            if is_new:
                folder.rmdir()
        raise
    remove_leftovers(folder)
    # ASCII only: file names may be no valid Unicode.
    text = json.dumps(describe_scene(fitted), allow_nan=False, indent=1) + "\n"
    write_atomically(folder / DESCRIPTION, text.encode())
    # A report of the replaced model does not describe this one.
    report = folder / REPORT
    try:
        report.unlink(missing_ok=True)
    except OSError as error:
        raise UnwritableFile(f"{report} cannot be removed: {error.strerror}.") from error


def describe_scene(fitted: FittedScene) -> dict[str, Any]:
    """Return the content of `model.json`."""
    held_out = fitted.held_out
    return {
        "kind": KIND,
        "versions": fitted.versions,
        "settings": fitted.used_settings(),
        "classes": list(fitted.classes),
        "tags": list(fitted.tag_names),
        "choices": asdict(fitted.choices),
        "held_out": {"n_images": held_out.n_images, "metrics": held_out.metrics},
        "data": fitted.data,
    }


def check_target(folder: Path, *, force: bool = True) -> None:
    """Raise `StorageError` if a model written to the folder would destroy something else.

    Without `force`, it must not replace a model either.
    """
    target = Path(os.path.realpath(folder))  # That of "missing/../scenes" is an existing model.
    if not target.exists():
        return
    if not target.is_dir():
        raise StorageError(f"{folder} is a file; choose a folder for the model.")
    found = {entry.name for entry in target.iterdir()}
    ours = {SCENE, DESCRIPTION, REPORT}
    # A kill leaves such files behind, which the next write removes.
    found -= {name for name in found - ours if temporary_target(name) in ours}
    others = sorted(found - ours)
    if others or (found and SCENE not in found):
        raise StorageError(
            f"{folder} contains other files, such as {(others or sorted(found))[0]!r}; "
            "choose a new folder."
        )
    if found:
        load_scene(target)
        if not force:
            raise StorageError(f"{folder} holds a model; --force replaces it.")


def load_scene(folder: Path) -> FittedScene:
    """Read a model."""
    path = folder / SCENE
    if not path.exists():
        raise StorageError(_describe_missing(folder))
    fitted = load(path, KIND, FittedScene)
    with damage_errors(str(path)):
        check_scene(fitted)
    return fitted


def _describe_missing(folder: Path) -> str:
    """Return the message for a folder without a model."""
    text = f"there is no folder {folder}"
    if folder.exists():
        text = f"{folder} is not a model: it has no {SCENE}"
    partial = PartialFolder(folder, "train")
    if partial.exists:
        text += f"; an interrupted run is in {partial.folder}: finish it with train --resume"
    return f"{text}."
