"""Drawn scenes as image files, one folder a class, with classes and tags beside them."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from supdocnade.datasets.synthetic.drawn import CLASSES, SIZE, check_request, numbered_scene
from supdocnade.errors import StorageError
from supdocnade.imaging.encode import KINDS, encode
from supdocnade.shapes import check_choice
from supdocnade.storage import write_atomically

METADATA = "metadata.jsonl"


def write_scenes(
    folder: str | os.PathLike[str],
    n_per_class: int,
    seed: int,
    *,
    size: tuple[int, int] = SIZE,
    classes: Sequence[str] = CLASSES,
    ending: str = ".jpg",
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Write drawn scenes as `folder/coast/coast_0001.jpg` and so on, and what is true of them.

    `metadata.jsonl` has one JSON object a line with `file_name`, `label` and `tags`; it is written
    last. The same call again, also one that was interrupted, gives the same files.

    Parameters
    ----------
    folder : made where it does not exist.
    n_per_class, seed, size, classes : as `drawn_scenes` takes them.
    ending : ".jpg" or ".png".
    on_progress : called with the number of scenes done and of all scenes.

    Returns
    -------
    The paths of the images.

    Raises
    ------
    StorageError : the folder holds something that this call would not write.
    """
    check_request(n_per_class, size, classes)
    check_choice("ending", ending, tuple(KINDS))
    root = Path(folder)
    names = {
        f"{name}/{name}_{number + 1:04d}{ending}": (name, number)
        for name in classes
        for number in range(n_per_class)
    }
    _refuse_others(root, {*names, METADATA})
    lines = []
    for file_name, (name, number) in names.items():
        scene = numbered_scene(name, number, seed, size)
        _write(root / file_name, encode(scene.image, KINDS[ending]))
        lines.append({"file_name": file_name, "label": scene.label, "tags": list(scene.tags)})
        if on_progress is not None:
            on_progress(len(lines), len(names))
    text = "".join(json.dumps(line) + "\n" for line in lines)
    _write(root / METADATA, text.encode())
    return [root / file_name for file_name in names]


def _refuse_others(root: Path, expected: set[str]) -> None:
    """Raise unless a folder is missing or holds nothing but files of these names."""
    if root.exists() and not root.is_dir():
        raise StorageError(f"{root} must be a folder, got a file.")
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        # What an interrupted call left of a file.
        whole = name.with_name(name.name.removeprefix(".").removesuffix(".partial"))
        if not path.is_dir() and not {name.as_posix(), whole.as_posix()} & expected:
            raise StorageError(f"{root} must hold nothing but these scenes, got {name}.")


def _write(path: Path, content: bytes) -> None:
    """Write a file unless it is there already; another one of its name is not replaced."""
    if path.exists():
        if path.read_bytes() != content:
            raise StorageError(f"{path} must not exist or be the same scene, got another file.")
        return
    write_atomically(path, content)
