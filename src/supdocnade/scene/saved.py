"""A scene model on disk: one folder of safetensors files and a JSON description.

=========================== ==================================================================
file                        what is in it
=========================== ==================================================================
model.json                  format, settings, classes, tags, choices, figures, versions, and a
                            digest of every other file
words.safetensors           the visual words and their examples (`estimators.saved_words`)
topics.safetensors          the topic model (`estimators.saved`)
classifier.safetensors      the SVM as arrays, and the frequencies of tags
examples.safetensors        small copies of some photographs (`examples`)
learned.safetensors         what was learned from, as words (`learned`), to add more to it
=========================== ==================================================================

The folder is written beside its place and moved there as a whole. Nothing that is read is ever
executed, and nothing is built before its digest was compared.
"""

import hashlib
import json
import os
import shutil
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.estimators import BagOfVisualWords, DocNADE, SupDocNADE
from supdocnade.scene.calibration import TagCalibration
from supdocnade.scene.examples import load_examples, save_examples
from supdocnade.scene.fitted import Choices, FittedScene, HeldOut, HeldOutImage
from supdocnade.scene.learned import load_learned, save_learned
from supdocnade.scene.settings import SceneSettings
from supdocnade.scene.svm import RBFSVM
from supdocnade.shapes import check_count, check_shape
from supdocnade.storage import load_arrays, save_arrays

FORMAT = 1
ATTEMPTS = 5
DESCRIPTION, REPORT = "model.json", "report.html"
FILES = (
    "words.safetensors",
    "topics.safetensors",
    "classifier.safetensors",
    "examples.safetensors",
    "learned.safetensors",
)
_SVM = ("mean_H", "scale_H", "support_SH", "coefficient_CS", "intercept_C")


def save_scene(fitted: FittedScene, params: dict[str, Any], folder: Path) -> None:
    """Write a model; a folder that holds something else than a model is not touched."""
    check_target(folder)
    target = Path(os.path.realpath(folder))
    partial = target.with_name(f".{target.name}.partial")
    old = target.with_name(f".{target.name}.old")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _write(fitted, params, partial)
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            os.replace(target, old)
        os.replace(partial, target)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            # Whatever stopped it between the two moves, Ctrl-C too, the old model comes back.
            if old.exists() and not target.exists():
                os.replace(old, target)
            shutil.rmtree(partial, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)


def check_target(folder: Path) -> None:
    """Refuse a folder in which a model would destroy something else."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise StorageError(f"{folder} must be a folder that a model can be written to, got a file.")
    if os.path.samefile(folder, os.curdir):
        raise StorageError(f"{folder} must not be the current folder: a model replaces its folder.")
    found = {entry.name for entry in folder.iterdir()}
    if found:
        others = sorted(found - {DESCRIPTION, REPORT, *FILES})
        if others or DESCRIPTION not in found:
            raise StorageError(
                f"{folder} must be new or hold a model and nothing else, it holds other things, "
                f"such as {(others or sorted(found))[0]!r}."
            )
        _read_description(folder)


def _write(fitted: FittedScene, params: dict[str, Any], folder: Path) -> None:
    fitted.bag.save(folder / FILES[0])
    fitted.topics.save(folder / FILES[1])
    arrays: dict[str, Any] = {"tag_frequency": fitted.tag_frequency_A}
    if fitted.svm is not None:
        arrays |= {name: getattr(fitted.svm, name) for name in _SVM}
    if fitted.held_out.confusion_CC is not None:
        arrays["confusion"] = fitted.held_out.confusion_CC
    gamma = None if fitted.svm is None else fitted.svm.gamma
    save_arrays(folder / FILES[2], arrays, {"gamma": gamma})
    save_examples(fitted.examples, folder / FILES[3])
    save_learned(fitted.learned, folder / FILES[4])
    held_out = fitted.held_out
    description = {
        "format": FORMAT,
        "kind": "SceneModel",
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
        "files": {name: _digest((folder / name).read_bytes()) for name in FILES},
    }
    # All ASCII: names of files may be no Unicode.
    text = json.dumps(description, allow_nan=False, indent=1)
    lines = f"{text}\n{_digest(text.encode())}\n"
    (folder / DESCRIPTION).write_text(lines, encoding="utf-8")


def load_scene(folder: Path) -> tuple[FittedScene, dict[str, Any]]:
    """Read a model; return it with the parameters of its `SceneModel`.

    One that is replaced by another meanwhile is read again.
    """
    for _ in range(ATTEMPTS - 1):
        before = _stamp(folder)
        try:
            return _load(folder)
        except StorageError:
            if before is not None and _stamp(folder) == before:
                raise
    return _load(folder)


def _stamp(folder: Path) -> tuple[int, int] | None:
    """Return what tells one writing of a model from another; None: there is none just now."""
    try:
        status = (folder / DESCRIPTION).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _load(folder: Path) -> tuple[FittedScene, dict[str, Any]]:
    description = _read_description(folder)
    digests = description.get("files")
    if not isinstance(digests, dict):
        raise StorageError(f"{folder / DESCRIPTION} is damaged: it must list the files.")
    for name in FILES:
        path = folder / name
        content = _read_file(path)
        if _digest(content) != digests.get(name):
            raise StorageError(f"{path} is damaged: its contents are not those that were written.")
    try:
        fitted = _build(folder, description)
        if set(description["params"]) != {"random_state"}:
            raise InvalidArgument("its params must be random_state alone")
        return fitted, {**_public(fitted.settings), **description["params"]}
    except StorageError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise StorageError(f"{folder / DESCRIPTION} is damaged: {what}.") from error


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    if not path.exists():
        raise StorageError(f"{folder} is no model: it has no {DESCRIPTION}.")
    lines = _read_file(path)
    text, _, digest = lines.rstrip(b"\n").rpartition(b"\n")
    if digest != _digest(text).encode() or not lines.endswith(b"\n"):
        raise StorageError(f"{path} is damaged: its contents are not those that were written.")
    try:
        description: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path} is damaged: {error}.") from error
    if not isinstance(description, dict) or description.get("kind") != "SceneModel":
        raise StorageError(f"{path} describes no scene model.")
    if description.get("format") != FORMAT:
        raise StorageError(
            f"{path} has format {description.get('format')!r}, this version reads {FORMAT}."
        )
    return description


def _build(folder: Path, description: dict[str, Any]) -> FittedScene:
    settings = SceneSettings(**_tuples(description["settings"]))
    kind = {"SupDocNADE": SupDocNADE, "DocNADE": DocNADE}[description["topics"]]
    bag, topics = BagOfVisualWords.load(folder / FILES[0]), kind.load(folder / FILES[1])
    arrays, extra = load_arrays(folder / FILES[2])
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
        svm = RBFSVM(**{name: arrays[name] for name in _SVM}, gamma=extra["gamma"])
        check_shape("svm", (len(svm.intercept_C), len(svm.mean_H)), (len(classes), n_topics))
    choices = dict(description["choices"])
    calibration = choices.pop("tags")
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
        choices=Choices(
            **choices, tags=None if calibration is None else TagCalibration(**calibration)
        ),
        held_out=HeldOut(
            n_images=held_out["n_images"],
            figures=held_out["figures"],
            confusion_CC=arrays.get("confusion"),
            images=images,
        ),
        data=_checked_data(description["data"], classes),
        learned=load_learned(folder / FILES[4], bag.n_features_out_),
        examples=load_examples(folder / FILES[3], n_topics, (image.name for image in images)),
        versions=_checked_versions(description["versions"]),
    )


def _read_file(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise StorageError(f"{path} must be a file.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error


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


def _public(settings: SceneSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in SceneSettings.names()}


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
