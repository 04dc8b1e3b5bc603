"""A fitted scene model as arrays and plain values, and back: every value is checked.

It has parts, each of arrays and a description of its own:

=========== ================================================================
words       the visual words and their examples (`estimators.saved_words`)
topics      the topic model with its tree and history (`estimators.saved`)
classifier  the SVM as arrays, the frequencies of tags, and their shares in classes
examples    small copies of some photographs (`examples`)
learned     what was learned from, as words (`learned`), to add more to it
=========== ================================================================
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from supdocnade.checks import check_count, check_shape
from supdocnade.errors import InvalidArgument, StorageError, UnwritableFile
from supdocnade.estimators.bag_of_visual_words import BagOfVisualWords
from supdocnade.estimators.docnade import DocNADE
from supdocnade.estimators.persistence import (
    estimator_from_storage,
    estimator_to_storage,
    words_from_storage,
    words_to_storage,
)
from supdocnade.estimators.supdocnade import SupDocNADE
from supdocnade.scene.calibration import TagCalibration
from supdocnade.scene.prediction import Choices, FittedScene
from supdocnade.scene.settings import SceneSettings
from supdocnade.scene.svm import RBFSVM
from supdocnade.scene.thumbnails import thumbnails_from_storage, thumbnails_to_storage
from supdocnade.scene.training_set import (
    HeldOut,
    HeldOutImage,
    training_set_from_storage,
    training_set_to_storage,
)
from supdocnade.storage import Arrays, load_arrays, read_file, save_arrays, write_atomically

PARTS = ("words", "topics", "classifier", "examples", "learned")
Parts = dict[str, tuple[Arrays, dict[str, Any]]]

_SVM = ("mean_H", "scale_H", "support_SH", "coefficient_CS", "intercept_C")


def scene_to_storage(fitted: FittedScene, params: dict[str, Any]) -> tuple[Parts, dict[str, Any]]:
    """Return the parts of a model, and what else is to be said of it.

    Parameters
    ----------
    params : of its `SceneModel`, beyond the settings.
    """
    classifier: Arrays = {"tag_frequency": fitted.tag_frequency_A}
    if fitted.svm is not None:
        classifier |= {name: getattr(fitted.svm, name) for name in _SVM}
    if fitted.class_tag_share_CA is not None:
        classifier["class_tag_share"] = fitted.class_tag_share_CA
    if fitted.held_out.confusion_CC is not None:
        classifier["confusion"] = fitted.held_out.confusion_CC
    gamma = None if fitted.svm is None else fitted.svm.gamma
    parts = {
        "words": words_to_storage(fitted.bag),
        "topics": estimator_to_storage(fitted.topics),
        "classifier": (classifier, {"gamma": gamma}),
        "examples": thumbnails_to_storage(fitted.thumbnails),
        "learned": training_set_to_storage(fitted.training_set),
    }
    held_out = fitted.held_out
    description = {
        "versions": fitted.versions,
        "settings": asdict(fitted.settings),
        "params": params,
        "topics": type(fitted.topics).__name__,
        "classes": list(fitted.classes),
        "tags": list(fitted.tag_names),
        "choices": asdict(fitted.choices),
        "held_out": {
            "n_images": held_out.n_images,
            "figures": held_out.figures,
            "images": [asdict(image) for image in held_out.images],
        },
        "data": fitted.data,
    }
    return parts, description


def scene_from_storage(
    parts: Parts, description: dict[str, Any], name: str
) -> tuple[FittedScene, dict[str, Any]]:
    """Return the model that `scene_to_storage` described, with all parameters of its `SceneModel`.

    Parameters
    ----------
    name : of the file it comes from, for errors.
    """
    try:
        fitted = _build(parts, description, name)
        if set(description["params"]) != {"random_state"}:
            raise InvalidArgument("its params must be random_state alone")
    except StorageError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise StorageError(f"{name} is damaged: {what}.") from error
    public = {each: getattr(fitted.settings, each) for each in SceneSettings.names()}
    return fitted, {**public, **description["params"]}


def _build(parts: Parts, description: dict[str, Any], name: str) -> FittedScene:
    # Models of before mirror images were learned from photographs alone.
    settings = SceneSettings(**{"mirror": False, **_tuples(description["settings"])})
    kind = {"SupDocNADE": SupDocNADE, "DocNADE": DocNADE}[description["topics"]]
    bag = words_from_storage(BagOfVisualWords, *parts["words"], name)
    topics = estimator_from_storage(kind, *parts["topics"], name)
    arrays, extra = parts["classifier"]
    classes, tags = tuple(description["classes"]), tuple(description["tags"])
    n_topics: int = topics.network_.config.n_topics
    frequency = arrays["tag_frequency"]
    check_shape("tag_frequency", frequency.shape, (len(tags),))
    if topics.n_annotations_ != len(tags) or topics.n_features_in_ != bag.n_features_out_:
        raise InvalidArgument("its words or tags are not those of its topics")
    if list(classes) != (topics.classes_.tolist() if kind is SupDocNADE else []):
        raise InvalidArgument("its classes are not those of its topics")
    if list(tags) != ([] if topics.annotation_names_ is None else list(topics.annotation_names_)):
        raise InvalidArgument("its tags are not those of its topics")
    if not ((frequency >= 0) & (frequency <= 1)).all():
        raise InvalidArgument("its frequencies of tags must lie in 0 .. 1")
    svm = None
    if (extra["gamma"] is not None) != (settings.classifier == "svm" and len(classes) > 1):
        raise InvalidArgument("its classifier is not that of its settings")
    if extra["gamma"] is not None:
        svm = RBFSVM(**{each: arrays[each] for each in _SVM}, gamma=extra["gamma"])
        check_shape("svm", (len(svm.intercept_C), len(svm.mean_H)), (len(classes), n_topics))
    choices = _choices(description["choices"])
    share = arrays.get("class_tag_share")
    if (share is not None) != (choices.class_tag_weight > 0):
        raise InvalidArgument("its shares of tags are not those of its choices")
    if share is not None:
        check_shape("class_tag_share", share.shape, (len(classes), len(tags)))
        if not ((share > 0) & (share <= 1)).all():
            raise InvalidArgument("its shares of tags must lie above 0 and be at most 1")
    held_out = description["held_out"]
    images = tuple(_image(each) for each in held_out["images"])
    return FittedScene(
        settings=settings,
        bag=bag,
        topics=topics,
        classes=classes,
        svm=svm,
        tag_names=tags,
        tag_frequency_A=frequency,
        class_tag_share_CA=share,
        choices=choices,
        held_out=HeldOut(
            n_images=held_out["n_images"],
            figures=held_out["figures"],
            confusion_CC=arrays.get("confusion"),
            images=images,
        ),
        data=_checked_data(description["data"], classes),
        training_set=training_set_from_storage(
            *parts["learned"], bag.n_features_out_, mirror=settings.mirror
        ),
        thumbnails=thumbnails_from_storage(
            *parts["examples"], n_topics, (image.name for image in images)
        ),
        versions=_checked_versions(description["versions"]),
    )


def _choices(given: dict[str, Any]) -> Choices:
    """Return choices; models of before tags knew of classes have no `class_tag_weight`."""
    calibration = given["tags"]
    tags = None if calibration is None else TagCalibration(**calibration)
    return Choices(**{**given, "tags": tags})


def _checked_data(given: Any, classes: tuple[str, ...]) -> dict[str, Any]:
    """Return what is said of the photographs, if it is what is shown of them."""
    counts = [given[name] for name in ("n_images", "n_unlabelled", "n_tagged")]
    for number in [*counts, *given["images_of_class"].values()]:
        check_count("data", number)
    if set(given["images_of_class"]) != set(classes) or not isinstance(given["fingerprint"], str):
        raise InvalidArgument("its data must be of its classes")
    return dict(given)


def _checked_versions(given: Any) -> dict[str, str]:
    if not all(isinstance(text, str) for pair in given.items() for text in pair):
        raise InvalidArgument("its versions must be strings")
    return dict(given)


def _image(values: dict[str, Any]) -> HeldOutImage:
    tags = values["tags"]
    return HeldOutImage(
        **{
            **values,
            "tags": None if tags is None else tuple(tags),
            "given": tuple((name, chance) for name, chance in values["given"]),
        }
    )


def _tuples(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the tuples that JSON made lists of."""
    grid, patch_size = settings["grid"], settings["patch_size"]
    several = bool(grid) and isinstance(grid[0], list)
    return {
        **settings,
        "grid": tuple(tuple(each) for each in grid) if several else tuple(grid),
        "patch_size": tuple(patch_size) if isinstance(patch_size, list) else patch_size,
    }


# A scene model on disk: a folder with one safetensors file and a JSON description.
#
# ================== ============================================================================
# file               what is in it
# ================== ============================================================================
# scene.safetensors  the model: all arrays, and in its header everything else as JSON
# model.json         format, settings, classes, tags, choices, figures and versions once more, for
#                    people and other programs
# report.html        where one was asked for
# ================== ============================================================================
#
# The model is one file, so that it is replaced by one step: whoever reads it meanwhile, or after a
# kill, has the old one or the new one, whole (docs/decisions/0013-model-file.md). Nothing
# that is read is ever executed, and nothing is built before its digest was compared.

FORMAT = 2
SCENE, DESCRIPTION, REPORT = "scene.safetensors", "model.json", "report.html"
_KIND = "SceneModel"


def save_scene(fitted: FittedScene, params: dict[str, Any], folder: Path) -> None:
    """Write a model; a folder that holds something else than a model is not touched."""
    check_target(folder)
    parts, described = scene_to_storage(fitted, params)
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
    write_atomically(folder / DESCRIPTION, sealed(description))
    # A report of the model that was replaced does not describe this one.
    report = folder / REPORT
    try:
        report.unlink(missing_ok=True)
    except OSError as error:
        raise UnwritableFile(f"{report} cannot be removed: {error.strerror}.") from error


def sealed(description: dict[str, Any]) -> bytes:
    """Return a description as text for people, and a line with its digest."""
    # All ASCII: names of files may be no Unicode.
    text = json.dumps(description, allow_nan=False, indent=1)
    return f"{text}\n{_digest(text.encode())}\n".encode()


def check_target(folder: Path) -> None:
    """Refuse a folder in which a model would destroy something else."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise StorageError(f"{folder} must be a folder that a model can be written to, got a file.")
    found = {entry.name for entry in folder.iterdir()}
    ours = {SCENE, DESCRIPTION, REPORT}
    # A kill leaves such a file behind, which the next write replaces.
    found -= {f".{name}.partial" for name in ours}
    others = sorted(found - ours)
    if others or (found and not found & {SCENE, DESCRIPTION}):
        raise StorageError(
            f"{folder} must be new or hold a model and nothing else, it holds other things, "
            f"such as {(others or sorted(found))[0]!r}."
        )
    if DESCRIPTION in found:
        _read_description(folder)
    elif found:
        _read_scene(folder)


def load_scene(folder: Path) -> tuple[FittedScene, dict[str, Any]]:
    """Read a model; return it with the parameters of its `SceneModel`."""
    _read_description(folder)
    # What the model says of itself counts: its description beside it may be a moment older.
    return scene_from_storage(*_read_scene(folder), str(folder / SCENE))


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
        raise StorageError(f"{folder} is no model: it has no {DESCRIPTION}.")
    lines = read_file(path)
    text, _, digest = lines.rstrip(b"\n").rpartition(b"\n")
    if digest != _digest(text).encode() or not lines.endswith(b"\n"):
        raise StorageError(f"{path} is damaged: its contents are not those that were written.")
    try:
        description: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path} is damaged: {error}.") from error
    if not isinstance(description, dict):
        raise StorageError(f"{path} describes no scene model.")
    _check_kind(path, description)
    return description


def _check_kind(path: Path, description: dict[str, Any]) -> None:
    if description.get("kind") != _KIND:
        raise StorageError(f"{path} describes no scene model.")
    if description.get("format") != FORMAT:
        raise StorageError(
            f"{path} has format {description.get('format')!r}, this version reads {FORMAT}."
        )


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
