"""A scene model on disk: a folder with one safetensors file and a JSON description.

================== ============================================================================
file               what is in it
================== ============================================================================
scene.safetensors  the model: all arrays, and in its header everything else as JSON
model.json         format, settings, classes, tags, choices, figures and versions once more, for
                   people and other programs
report.html        where one was asked for
================== ============================================================================

The model is one file, so that it is replaced by one step: whoever reads it meanwhile, or after a
kill, has the old one or the new one, whole (docs/decisions/0013-one-file-a-model.md). Nothing that
is read is ever executed, and nothing is built before its digest was compared.
"""

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from supdocnade.errors import StorageError, UnwritableFile
from supdocnade.scene import saved_format_1
from supdocnade.scene.fitted import FittedScene
from supdocnade.scene.stored import PARTS, Parts, scene_from_storage, scene_to_storage
from supdocnade.storage import load_arrays, read_file, save_arrays, write_atomically

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
    # What an earlier model leaves behind: its files of format 1, and what was reported of it.
    for path in (folder / name for name in (*saved_format_1.FILES, REPORT)):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UnwritableFile(f"{path} cannot be removed: {error.strerror}.") from error


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
    ours = {SCENE, DESCRIPTION, REPORT, *saved_format_1.FILES}
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
    description = _read_description(folder)
    if description["format"] == 1:
        try:
            return saved_format_1.load_scene(folder, description)
        except StorageError:
            # Unless a model of this format has taken its place meanwhile.
            if _read_description(folder)["format"] == 1:
                raise
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
    _check_kind(path, description, (1, FORMAT))
    return description


def _check_kind(
    path: Path, description: dict[str, Any], formats: tuple[int, ...] = (FORMAT,)
) -> None:
    if description.get("kind") != _KIND:
        raise StorageError(f"{path} describes no scene model.")
    if description.get("format") not in formats:
        raise StorageError(
            f"{path} has format {description.get('format')!r}, "
            f"this version reads {' and '.join(map(str, formats))}."
        )


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
