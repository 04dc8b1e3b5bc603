"""Scenes of eight classes, drawn as prints, with the visible objects as tags."""

import functools
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from supdocnade.cli.demo import CLASSES, DrawnScene
from supdocnade.seeding import named_generator
from tools.draw_scenes.canvas import MARK, Canvas, clip01
from tools.draw_scenes.city import paint_skyline, paint_street
from tools.draw_scenes.countryside import paint_field, paint_forest, paint_village
from tools.draw_scenes.palettes import random_palette
from tools.draw_scenes.wilderness import paint_coast, paint_dunes, paint_mountain

TAGS: tuple[str, ...] = (
    "balloon", "bird", "boat", "bridge", "building", "cactus", "car", "cloud", "fence", "house",
    "lamp", "lighthouse", "moon", "mountain", "person", "road", "rock", "sand", "snow", "star",
    "sun", "tree", "water", "windmill", "window",
)  # fmt: skip
"""All objects, sorted."""

SIZE = (192, 256)
"""Default height and width of a scene."""

_SURFACES = frozenset({"building", "mountain", "road", "sand", "water"})
"""Objects that are large and recognised by their texture."""
_SMALL = frozenset({"bird", "fence", "lamp", "person", "star"})
_MIN_TAGS, _MAX_TAGS = 3, 7
_MIN_OBJECTS = 4
_MAX_ZOOM = 1.35
_ATTEMPTS = 20


@dataclass(frozen=True)
class Plan:
    """Contents of the scenes of one class."""

    paint: Callable[[Canvas, Set[str]], None]
    """Paints the given objects on a canvas."""
    required: tuple[str, ...]
    optional: Mapping[str, float]
    """Probabilities; at night the sun becomes the moon, and only then are there stars."""


PLANS: dict[str, Plan] = {
    "coast": Plan(
        paint_coast,
        ("water",),
        {"sand": 0.6, "boat": 0.55, "rock": 0.5, "sun": 0.5, "cloud": 0.5, "bird": 0.35,
         "lighthouse": 0.35, "mountain": 0.3, "star": 0.4, "house": 0.2, "tree": 0.25,
         "person": 0.2, "fence": 0.15, "balloon": 0.12},
    ),
    "dunes": Plan(
        paint_dunes,
        ("sand",),
        {"cactus": 0.5, "rock": 0.5, "sun": 0.6, "person": 0.3, "mountain": 0.3, "cloud": 0.3,
         "bird": 0.25, "tree": 0.25, "star": 0.5, "balloon": 0.2, "fence": 0.12, "house": 0.1},
    ),
    "field": Plan(
        paint_field,
        (),
        {"tree": 0.75, "cloud": 0.55, "fence": 0.5, "house": 0.5, "sun": 0.5, "road": 0.35,
         "bird": 0.35, "windmill": 0.35, "mountain": 0.3, "balloon": 0.2, "person": 0.2,
         "star": 0.4},
    ),
    "forest": Plan(
        paint_forest,
        ("tree",),
        {"road": 0.5, "rock": 0.5, "sun": 0.5, "person": 0.35, "bird": 0.3, "snow": 0.3,
         "mountain": 0.3, "house": 0.25, "fence": 0.2, "star": 0.4, "cloud": 0.2},
    ),
    "mountain": Plan(
        paint_mountain,
        ("mountain",),
        {"snow": 0.7, "tree": 0.7, "sun": 0.5, "cloud": 0.5, "water": 0.4, "rock": 0.4,
         "house": 0.3, "bird": 0.3, "fence": 0.2, "boat": 0.15, "star": 0.4, "balloon": 0.15,
         "person": 0.15},
    ),
    "skyline": Plan(
        paint_skyline,
        ("building", "window"),
        {"water": 0.6, "sun": 0.5, "cloud": 0.4, "tree": 0.35, "bridge": 0.35, "boat": 0.3,
         "mountain": 0.3, "lamp": 0.25, "bird": 0.25, "star": 0.4, "balloon": 0.2},
    ),
    "street": Plan(
        paint_street,
        ("building", "window", "road"),
        {"car": 0.6, "lamp": 0.6, "person": 0.5, "tree": 0.4, "sun": 0.35, "cloud": 0.35,
         "bird": 0.2, "star": 0.3, "balloon": 0.12, "mountain": 0.15},
    ),
    "village": Plan(
        paint_village,
        ("house", "window"),
        {"tree": 0.65, "mountain": 0.45, "sun": 0.45, "cloud": 0.4, "road": 0.4, "snow": 0.3,
         "fence": 0.3, "lamp": 0.25, "bird": 0.25, "person": 0.25, "windmill": 0.15,
         "star": 0.4, "balloon": 0.12},
    ),
}  # fmt: skip


def choose_objects(plan: Plan, rng: np.random.Generator, *, night: bool) -> set[str]:
    """Draw the objects of a scene, four to seven."""
    optional = {tag: p for tag, p in plan.optional.items() if tag != "star" or night}
    names = list(optional)
    # Negative for the objects drawn; the order ranks all of them.
    margins = rng.random(len(names)) - np.array(list(optional.values()))
    order = [names[i] for i in np.argsort(margins)]
    n_required = len(plan.required)
    count = max(int((margins < 0).sum()), _MIN_OBJECTS - n_required)
    objects = {*plan.required, *order[: min(count, _MAX_TAGS - n_required)]}
    if "boat" in objects and "water" not in objects:
        objects.remove("boat")
        objects.add("water")
    if night and "sun" in objects:
        objects.remove("sun")
        objects.add("moon")
    return objects


def draw_scene(label: str, seed: int, number: int, size: tuple[int, int] = SIZE) -> DrawnScene:
    """Draw one scene, which depends on the arguments alone.

    Parameters
    ----------
    label : one of CLASSES.
    number : of the scene in its class.
    size : height and width in pixels.
    """
    rng = named_generator(seed, "scene", CLASSES.index(label), number)
    # The matrices are too small for several BLAS threads.
    with _threadpools().limit(limits=1, user_api="blas"):
        for _ in range(_ATTEMPTS):
            canvas = _paint(PLANS[label], rng, size)
            areas = canvas.areas()
            tags = tuple(tag for tag in TAGS if areas[tag] >= _min_area(tag))
            # Objects may be hidden or outside the picture; then the scene is drawn again.
            if _MIN_TAGS <= len(tags) <= _MAX_TAGS:
                break
        return DrawnScene(_finish_print(canvas), label, tags)


def _paint(plan: Plan, rng: np.random.Generator, size: tuple[int, int]) -> Canvas:
    palette = random_palette(rng)
    objects = choose_objects(plan, rng, night=palette.night)
    zoom = rng.uniform(1.0, _MAX_ZOOM)
    canvas = Canvas(size, palette, rng, TAGS, surfaces=_SURFACES, zoom=zoom)
    plan.paint(canvas, objects)
    return canvas


def _min_area(tag: str) -> float:
    """Return the share of the picture above which an object counts as visible."""
    if tag in _SURFACES:
        return 0.01
    return 0.0003 if tag in _SMALL else 0.0008


@functools.cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()


def drawn_scenes(n_per_class: int, seed: int, size: tuple[int, int] = SIZE) -> list[DrawnScene]:
    """Draw scenes of all classes, class by class."""
    return [
        draw_scene(label, seed, number, size) for label in CLASSES for number in range(n_per_class)
    ]


def _finish_print(canvas: Canvas) -> NDArray[np.uint8]:
    """Return the picture with darker corners, uneven ink and grain, perhaps mirrored."""
    rng = canvas.rng
    away = np.hypot((canvas.x / canvas.width - 0.5), (canvas.y / 100 - 0.5))
    corners = clip01(away - 0.38) * np.float32(rng.uniform(0.1, 0.6))
    canvas.paint(canvas.full_window, corners, canvas.palette.ink, MARK)
    mottle = np.float32(0.012) * canvas.noise(9, octaves=3, gain=0.8)
    speckle = canvas.grain_rng.standard_normal(canvas.shape, dtype=np.float32)
    speckle *= np.float32(rng.uniform(0.01, 0.03))
    image = canvas.image + (mottle + speckle)
    image += rng.uniform(-0.035, 0.035)
    if rng.random() < 0.5:
        image = image[:, :, ::-1]
    levels = np.round(clip01(image) * 255).astype(np.uint8)
    return np.ascontiguousarray(levels.transpose(1, 2, 0))
