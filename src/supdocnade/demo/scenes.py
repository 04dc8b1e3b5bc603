"""Scenes of eight classes, drawn as prints, with the objects on them as tags."""

import functools
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from supdocnade.checks import check_choice, check_count
from supdocnade.demo.canvas import MARK, Canvas, unit
from supdocnade.demo.classes import PAINTERS
from supdocnade.demo.palettes import random_palette
from supdocnade.demo.plans import (
    MAX_TAGS,
    MIN_TAGS,
    PLANS,
    SURFACES,
    TAGS,
    choose_objects,
    least_area,
)
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.images.decode import KINDS, encode
from supdocnade.seeding import named_generator
from supdocnade.storage import write_atomically

CLASSES: tuple[str, ...] = tuple(PLANS)
"""The classes of scenes, in the order of their numbers."""

SIZE = (192, 256)
"""Height and width of a scene unless told otherwise."""

_LEAST_SIDE = 32
_MAX_ZOOM = 1.35
_ATTEMPTS = 20


class DrawnScene(NamedTuple):
    """One picture, and what is true of it."""

    image: NDArray[np.uint8]
    """(height, width, 3)."""
    label: str
    """Its class."""
    tags: tuple[str, ...]
    """The objects that are drawn and visible, sorted."""


def draw_scene(
    name: str, seed: int | np.random.Generator, size: tuple[int, int] = SIZE
) -> DrawnScene:
    """Draw one scene of a class.

    Parameters
    ----------
    name : one of CLASSES.
    seed : a seed, or the generator to draw from.
    size : height and width in pixels.
    """
    check_choice("name", name, CLASSES)
    _check_size(size)
    if not isinstance(seed, np.random.Generator):
        seed = named_generator(seed, "scene", CLASSES.index(name), 0)
    # Matrices are small here: more threads would only wait for one another.
    with _threads().limit(limits=1, user_api="blas"):
        for _ in range(_ATTEMPTS):
            canvas = _paint(name, seed, size)
            areas = canvas.areas()
            tags = tuple(tag for tag in TAGS if areas[tag] >= least_area(tag))
            # Objects may end up hidden or outside the picture; such a sheet is thrown away.
            if MIN_TAGS <= len(tags) <= MAX_TAGS:
                break
        return DrawnScene(_print(canvas), name, tags)


def _paint(name: str, rng: np.random.Generator, size: tuple[int, int]) -> Canvas:
    """Return a sheet with a scene of a class."""
    palette = random_palette(rng)
    wanted = choose_objects(PLANS[name], rng, night=palette.night)
    zoom = rng.uniform(1.0, _MAX_ZOOM)
    canvas = Canvas(size, palette, rng, TAGS, surfaces=SURFACES, zoom=zoom)
    PAINTERS[name](canvas, wanted)
    return canvas


@functools.cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


def drawn_scenes(
    n_per_class: int,
    seed: int,
    *,
    size: tuple[int, int] = SIZE,
    classes: Sequence[str] = CLASSES,
) -> list[DrawnScene]:
    """Draw scenes of several classes, class by class.

    A scene depends on the seed, its class and its number within the class alone: more scenes or
    other classes leave it as it is.

    Parameters
    ----------
    n_per_class : scenes of every class.
    classes : some of CLASSES.
    """
    check_request(n_per_class, size, classes)
    return [
        numbered_scene(name, number, seed, size)
        for name in classes
        for number in range(n_per_class)
    ]


def numbered_scene(name: str, number: int, seed: int, size: tuple[int, int]) -> DrawnScene:
    """Return scene number `number` of a class, the first being 0."""
    return draw_scene(name, named_generator(seed, "scene", CLASSES.index(name), number), size)


def check_request(n_per_class: int, size: tuple[int, int], classes: Sequence[str]) -> None:
    """Raise `InvalidArgument` for what cannot be drawn."""
    check_count("n_per_class", n_per_class, least=1)
    _check_size(size)
    for name in classes:
        check_choice("classes", name, CLASSES)
    if isinstance(classes, str) or not 0 < len(classes) == len(set(classes)):
        raise InvalidArgument(f"classes must be different classes, got {classes!r}.")


def _check_size(size: tuple[int, int]) -> None:
    if len(size) != 2:
        raise InvalidArgument(f"size must be a height and a width, got {size!r}.")
    for side in size:
        check_count("size", side, least=_LEAST_SIDE)


def _print(canvas: Canvas) -> NDArray[np.uint8]:
    """Return the sheet as a print: uneven ink, grain, darker corners, perhaps mirrored."""
    rng = canvas.rng
    away = np.hypot((canvas.x / canvas.width - 0.5), (canvas.y / 100 - 0.5))
    corners = unit(away - 0.38) * np.float32(rng.uniform(0.1, 0.6))
    canvas.paint(canvas.whole, corners, canvas.palette.ink, MARK)
    mottle = np.float32(0.012) * canvas.noise(9, octaves=3, gain=0.8)
    speckle = canvas.grain_rng.standard_normal(canvas.shape, dtype=np.float32)
    speckle *= np.float32(rng.uniform(0.01, 0.03))
    image = canvas.image + (mottle + speckle)
    image += rng.uniform(-0.035, 0.035)
    if rng.random() < 0.5:
        image = image[:, :, ::-1]
    levels = np.round(unit(image) * 255).astype(np.uint8)
    return np.ascontiguousarray(levels.transpose(1, 2, 0))


# Drawn scenes as image files, one folder a class, with classes and tags beside them.

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
