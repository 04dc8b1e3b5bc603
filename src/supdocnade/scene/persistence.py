"""Scene models on disk: a folder with one safetensors file and a JSON description.

================== =============================================================================
file               content
================== =============================================================================
scene.safetensors  the model: all arrays, and in the header everything else as JSON
model.json         format, settings, classes, tags, choices, figures and versions once more, for
                   people and other programs
report.html        if one was written
================== =============================================================================

The model is one file, so that it is replaced in one step: a reader, even after a kill, finds the
old one or the new one (docs/decisions/0013-model-file.md). Nothing that is read is ever executed,
and the digest is compared before anything is built. The arrays are in six parts, each with a
description of its own:

=========== ================================================================
words       the visual words and their examples (`words_to_storage`)
topics      the topic model with its tree and history (`StoredNetwork`)
classifier  the classifier, frequencies of tags, their shares in classes, the rotation of topics
examples    thumbnails of some photographs
learned     the training set as words, so that photographs can be added
held_out    the held-out photographs with their predictions
=========== ================================================================

Names, labels and tags of photographs are arrays: the header has no room for those of more than half
a million photographs.
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from supdocnade.checks import check_count, check_shape
from supdocnade.errors import InvalidArgument, StorageError, UnwritableFile
from supdocnade.estimators.persistence import (
    StoredNetwork,
    check_names,
    read_words,
    words_to_storage,
)
from supdocnade.model.inference import NetworkArrays
from supdocnade.model.topic_rotation import TopicRotation
from supdocnade.scene.calibration import TagCalibration
from supdocnade.scene.class_heads import allowed_heads
from supdocnade.scene.dataset import training_set_from_storage, training_set_to_storage
from supdocnade.scene.heads import ClassHead
from supdocnade.scene.held_out import (
    Choices,
    HeldOut,
    held_out_from_storage,
    held_out_to_storage,
)
from supdocnade.scene.prediction import FittedScene
from supdocnade.scene.settings import SceneSettings
from supdocnade.scene.thumbnails import thumbnails_from_storage, thumbnails_to_storage
from supdocnade.schema import from_file, to_file
from supdocnade.storage import (
    Arrays,
    damage_errors,
    load_arrays,
    read_file,
    remove_leftovers,
    save_arrays,
    temporary_target,
    write_atomically,
)
from supdocnade.unfinished import PartialFolder

FORMAT = 3
SCENE, DESCRIPTION, REPORT = "scene.safetensors", "model.json", "report.html"
MAX_PHOTOGRAPHS = 2**48
PARTS = ("words", "topics", "classifier", "examples", "learned", "held_out")
Parts = dict[str, tuple[Arrays, dict[str, Any]]]

_KIND, _TOPICS = "SceneModel", "Topics"
_ROTATION = {"rotation_axes": "axes_HR", "rotation_inverse": "inverse_RH"}


def save_scene(fitted: FittedScene, params: dict[str, Any], folder: Path) -> None:
    """Write a model to a folder, which must be new or hold a model."""
    check_target(folder)
    parts, described = _describe(fitted, params)
    description = {"format": FORMAT, "kind": _KIND, **described}
    arrays = {f"{part}/{name}": array for part in PARTS for name, array in parts[part][0].items()}
    inner = {"parts": {part: parts[part][1] for part in PARTS}}
    is_new = not folder.exists()
    try:
        save_arrays(folder / SCENE, arrays, description | inner)
    except BaseException:
        with suppress(OSError):
            if is_new:
                folder.rmdir()
        raise
    remove_leftovers(folder)
    write_atomically(folder / DESCRIPTION, seal_description(description))
    # A report of the replaced model does not describe this one.
    report = folder / REPORT
    try:
        report.unlink(missing_ok=True)
    except OSError as error:
        raise UnwritableFile(f"{report} cannot be removed: {error.strerror}.") from error


def seal_description(description: dict[str, Any]) -> bytes:
    """Return a description as readable JSON, with a digest of everything else in it."""
    rest = {name: value for name, value in description.items() if name != "digest"}
    return _to_json({**rest, "digest": _digest(_to_json(rest))})


def _to_json(description: dict[str, Any]) -> bytes:
    # ASCII only: file names may be no valid Unicode.
    return (json.dumps(description, allow_nan=False, indent=1) + "\n").encode()


def check_target(folder: Path, *, force: bool = True) -> None:
    """Raise `StorageError` if a model written to the folder would destroy something else.

    Without `force`, it must not replace a model either.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise StorageError(f"{folder} must be a folder that a model can be written to, got a file.")
    found = {entry.name for entry in folder.iterdir()}
    ours = {SCENE, DESCRIPTION, REPORT}
    # A kill leaves such files behind, which the next write removes.
    found -= {name for name in found - ours if temporary_target(name) in ours}
    others = sorted(found - ours)
    if others or (found and not found & {SCENE, DESCRIPTION}):
        raise StorageError(
            f"{folder} contains other files, such as {(others or sorted(found))[0]!r}; "
            "choose a new folder."
        )
    if DESCRIPTION in found:
        _read_description(folder)
    elif found:
        _read_scene(folder)
    if DESCRIPTION in found and not force:
        raise StorageError(f"{folder} holds a model; --force replaces it.")


def load_scene(folder: Path) -> tuple[FittedScene, dict[str, Any]]:
    """Read a model; return it with the parameters of its `SceneModel`."""
    _read_description(folder)
    # The description inside the model counts: the file beside it may be older.
    parts, description = _read_scene(folder)
    name = str(folder / SCENE)
    with damage_errors(name):
        fitted = _build(parts, description, name)
        if set(description["params"]) != {"random_state"}:
            raise InvalidArgument("its params must be random_state alone")
    public = {each: getattr(fitted.settings, each) for each in SceneSettings.names()}
    return fitted, {**public, **description["params"]}


def _read_scene(folder: Path) -> tuple[Parts, dict[str, Any]]:
    path = folder / SCENE
    arrays, description = load_arrays(path)
    _check_kind(path, description)
    inner = description.pop("parts", None)
    if not isinstance(inner, dict) or not all(isinstance(inner.get(part), dict) for part in PARTS):
        raise StorageError(f"{path} is damaged: it must describe {', '.join(PARTS)}.")
    parts: Parts = {part: ({}, inner[part]) for part in PARTS}
    for key, array in arrays.items():
        part, _, name = key.partition("/")
        if part not in parts:
            raise StorageError(f"{path} is damaged: it holds an array {key!r}.")
        parts[part][0][name] = array
    return parts, description


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    if not path.exists():
        raise StorageError(_describe_missing(folder))
    content = read_file(path)
    try:
        description: Any = json.loads(content)
        if not isinstance(description, dict):
            raise StorageError(f"{path} describes no scene model.")
        is_whole = content == seal_description(description)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path} is damaged: {error}.") from error
    if not is_whole:
        raise StorageError(f"{path} is damaged: its contents are not those that were written.")
    _check_kind(path, description)
    return description


def _describe_missing(folder: Path) -> str:
    """Return the message for a folder without a model."""
    text = f"there is no folder {folder}"
    if folder.exists():
        text = f"{folder} is no model: it has no {DESCRIPTION}"
    partial = PartialFolder(folder, "train")
    if partial.exists:
        text += f"; an interrupted run is in {partial.folder}: finish it with train --resume"
    return f"{text}."


def _check_kind(path: Path, description: dict[str, Any]) -> None:
    if description.get("kind") != _KIND:
        raise StorageError(f"{path} describes no scene model.")
    found = description.get("format")
    if found != FORMAT:
        raise StorageError(f"{path} has format {found!r}, this version reads {FORMAT}.")


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _describe(fitted: FittedScene, params: dict[str, Any]) -> tuple[Parts, dict[str, Any]]:
    """Return the parts of a model, and a description of everything else.

    Parameters
    ----------
    params : of its `SceneModel`, beyond the settings.
    """
    classifier: Arrays = {"tag_frequency": fitted.tag_frequency_A}
    classifier |= {name: getattr(fitted.rotation, field) for name, field in _ROTATION.items()}
    head: dict[str, Any] = {}
    if fitted.class_head is not None:
        head_arrays, head = fitted.class_head.to_storage()
        classifier |= head_arrays
    if fitted.class_tag_share_CA is not None:
        classifier["class_tag_share"] = fitted.class_tag_share_CA
    parts = {
        "words": words_to_storage(fitted.words),
        "topics": to_file(_TOPICS, StoredNetwork.of(fitted.network, fitted.history)),
        "classifier": (classifier, head),
        "examples": thumbnails_to_storage(fitted.thumbnails),
        "learned": (training_set_to_storage(fitted.training_set), {}),
        "held_out": (held_out_to_storage(fitted.held_out.images), {}),
    }
    held_out = fitted.held_out
    description = {
        "versions": fitted.versions,
        "settings": asdict(fitted.settings),
        "params": params,
        "classes": list(fitted.classes),
        "tags": list(fitted.tag_names),
        "choices": asdict(fitted.choices),
        "held_out": {"n_images": held_out.n_images, "figures": held_out.figures},
        "data": fitted.data,
    }
    return parts, description


def _build(parts: Parts, description: dict[str, Any], name: str) -> FittedScene:
    """Return the model that `_describe` described; anything else raises an error."""
    words = read_words(*parts["words"], name)
    encoder = words.encoder
    check_names(description["settings"], SceneSettings.names())
    settings = SceneSettings(**description["settings"]).check()
    topics = from_file(_TOPICS, StoredNetwork, *parts["topics"], name)
    classes, tags = tuple(description["classes"]), tuple(description["tags"])
    config = topics.config
    if (config.n_visual_words, config.n_annotation_words) != (encoder.n_features, len(tags)):
        raise InvalidArgument("its words or tags are not those of its topics")
    if config.n_global_features != encoder.n_image_features:
        raise InvalidArgument("its features of photographs are not those of its topics")
    if len(classes) != topics.network.n_classes or list(classes) != sorted({*classes}):
        raise InvalidArgument("its classes are not those of its topics")
    if not all(isinstance(name, str) for name in (*classes, *tags)):
        raise InvalidArgument("its classes and tags must be strings")
    chosen = description["choices"]
    calibration = None if chosen["tags"] is None else TagCalibration(**chosen["tags"])
    choices = Choices(**{**chosen, "tags": calibration})
    if (calibration is None) != (not tags):
        raise InvalidArgument("its calibration of tags must come with tags, and with them alone")
    if config.annotation_output != settings.annotation_output:
        raise InvalidArgument("its outputs of tags are not those of its topics")
    rotation = _read_rotation(parts["classifier"][0], config.n_topics)
    class_head = _read_class_head(parts, settings, choices, topics.network)
    frequency_A, share_CA = _read_tags(parts["classifier"][0], choices, (len(classes), len(tags)))
    held_out = description["held_out"]
    for figure, number in (("accuracy", "n_labelled"), ("f_measure", "n_tagged")):
        if figure in held_out["figures"] and number not in held_out["figures"]:
            raise InvalidArgument(f"its figures must have {number} beside {figure}")
    if parts["learned"][1] or parts["held_out"][1]:
        raise InvalidArgument("its photographs must be arrays alone")
    images = held_out_from_storage(parts["held_out"][0])
    versions = description["versions"]
    if not all(isinstance(text, str) for pair in versions.items() for text in pair):
        raise InvalidArgument("its versions must be strings")
    return FittedScene(
        settings=settings,
        words=words,
        network=topics.network,
        history=topics.history,
        rotation=rotation,
        classes=classes,
        class_head=class_head,
        tag_names=tags,
        tag_frequency_A=frequency_A,
        class_tag_share_CA=share_CA,
        choices=choices,
        held_out=HeldOut(
            n_images=held_out["n_images"],
            figures=held_out["figures"],
            images=images,
        ),
        data=_check_data(description["data"], classes),
        training_set=training_set_from_storage(
            parts["learned"][0], encoder.n_features, config.n_global_features
        ),
        thumbnails=thumbnails_from_storage(
            *parts["examples"], len(rotation.inverse_RH), (image.name for image in images)
        ),
        versions=versions,
    )


def _read_class_head(
    parts: Parts, settings: SceneSettings, choices: Choices, network: NetworkArrays
) -> ClassHead | None:
    """Return the classifier, None without classes."""
    heads = {head.name: head for head in allowed_heads(settings.classifier, network.n_classes)}
    if choices.classifier is None and not heads:
        return None
    if choices.classifier not in heads:
        raise InvalidArgument("its classifier is not that of its settings")
    return heads[choices.classifier].from_storage(*parts["classifier"], network)


def _read_rotation(arrays: Arrays, n_units: int) -> TopicRotation:
    """Return the rotation from topic features to topics."""
    axes_HR, inverse_RH = (arrays[name] for name in _ROTATION)
    check_shape("rotation_axes", axes_HR.shape, (n_units, len(inverse_RH)))
    check_shape("rotation_inverse", inverse_RH.shape, (len(inverse_RH), n_units))
    for array in (axes_HR, inverse_RH):
        if array.dtype != np.float64 or not np.isfinite(array).all():
            raise InvalidArgument("the rotation of its topics must be finite float64 numbers")
    if len(inverse_RH) and not np.square(inverse_RH).sum() > 0:
        raise InvalidArgument("the rotation of its topics has no topics")
    return TopicRotation(axes_HR, inverse_RH)


def _read_tags(arrays: Arrays, choices: Choices, shape: tuple[int, int]) -> tuple[Any, Any]:
    """Return the frequencies of tags, and their shares in classes if the choices use them."""
    frequency_A, share_CA = arrays["tag_frequency"], arrays.get("class_tag_share")
    check_shape("tag_frequency", frequency_A.shape, shape[1:])
    if not ((frequency_A >= 0) & (frequency_A <= 1)).all():
        raise InvalidArgument("its frequencies of tags must lie in 0 .. 1")
    if (share_CA is not None) != (choices.class_tag_weight > 0):
        raise InvalidArgument("its shares of tags are not those of its choices")
    if share_CA is not None:
        check_shape("class_tag_share", share_CA.shape, shape)
        if not ((share_CA > 0) & (share_CA <= 1)).all():
            raise InvalidArgument("its shares of tags must lie above 0 and be at most 1")
    return frequency_A, share_CA


def _check_data(given: Any, classes: tuple[str, ...]) -> dict[str, Any]:
    counts = [given[name] for name in ("n_images", "n_unlabelled", "n_tagged")]
    for number in [*counts, *given["images_of_class"].values()]:
        if check_count("data", number) > MAX_PHOTOGRAPHS:
            raise InvalidArgument(f"its data must be at most {MAX_PHOTOGRAPHS} photographs")
    if set(given["images_of_class"]) != set(classes) or not isinstance(given["fingerprint"], str):
        raise InvalidArgument("its data must be of its classes")
    return dict(given)
