"""What a scene of each class may hold: the tags, and how probable each is."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

TAGS: tuple[str, ...] = (
    "balloon", "bird", "boat", "bridge", "building", "cactus", "car", "cloud", "fence", "house",
    "lamp", "lighthouse", "moon", "mountain", "person", "road", "rock", "sand", "snow", "star",
    "sun", "tree", "water", "windmill", "window",
)  # fmt: skip
"""All objects that are drawn."""

MIN_TAGS, MAX_TAGS = 3, 7

_LEAST_WANTED = 4

SURFACES = frozenset({"building", "mountain", "road", "sand", "water"})
"""Tags of what is large and known by its texture."""

_SMALL = frozenset({"bird", "fence", "lamp", "person", "star"})


def least_area(tag: str) -> float:
    """Return the share of the picture from which on an object counts as visible."""
    if tag in SURFACES:
        return 0.01
    return 0.0003 if tag in _SMALL else 0.0008


@dataclass(frozen=True)
class Plan:
    """What the scenes of a class hold."""

    always: tuple[str, ...]
    often: Mapping[str, float]
    """Probabilities; "sun" is the moon at night, and stars are seen at night alone."""


PLANS: dict[str, Plan] = {
    "coast": Plan(
        ("water",),
        {"sand": 0.6, "boat": 0.55, "rock": 0.5, "sun": 0.5, "cloud": 0.5, "bird": 0.35,
         "lighthouse": 0.35, "mountain": 0.3, "star": 0.4, "house": 0.2, "tree": 0.25,
         "person": 0.2, "fence": 0.15, "balloon": 0.12},
    ),
    "dunes": Plan(
        ("sand",),
        {"cactus": 0.5, "rock": 0.5, "sun": 0.6, "person": 0.3, "mountain": 0.3, "cloud": 0.3,
         "bird": 0.25, "tree": 0.25, "star": 0.5, "balloon": 0.2, "fence": 0.12, "house": 0.1},
    ),
    "field": Plan(
        (),
        {"tree": 0.75, "cloud": 0.55, "fence": 0.5, "house": 0.5, "sun": 0.5, "road": 0.35,
         "bird": 0.35, "windmill": 0.35, "mountain": 0.3, "balloon": 0.2, "person": 0.2,
         "star": 0.4},
    ),
    "forest": Plan(
        ("tree",),
        {"road": 0.5, "rock": 0.5, "sun": 0.5, "person": 0.35, "bird": 0.3, "snow": 0.3,
         "mountain": 0.3, "house": 0.25, "fence": 0.2, "star": 0.4, "cloud": 0.2},
    ),
    "mountain": Plan(
        ("mountain",),
        {"snow": 0.7, "tree": 0.7, "sun": 0.5, "cloud": 0.5, "water": 0.4, "rock": 0.4,
         "house": 0.3, "bird": 0.3, "fence": 0.2, "boat": 0.15, "star": 0.4, "balloon": 0.15,
         "person": 0.15},
    ),
    "skyline": Plan(
        ("building", "window"),
        {"water": 0.6, "sun": 0.5, "cloud": 0.4, "tree": 0.35, "bridge": 0.35, "boat": 0.3,
         "mountain": 0.3, "lamp": 0.25, "bird": 0.25, "star": 0.4, "balloon": 0.2},
    ),
    "street": Plan(
        ("building", "window", "road"),
        {"car": 0.6, "lamp": 0.6, "person": 0.5, "tree": 0.4, "sun": 0.35, "cloud": 0.35,
         "bird": 0.2, "star": 0.3, "balloon": 0.12, "mountain": 0.15},
    ),
    "village": Plan(
        ("house", "window"),
        {"tree": 0.65, "mountain": 0.45, "sun": 0.45, "cloud": 0.4, "road": 0.4, "snow": 0.3,
         "fence": 0.3, "lamp": 0.25, "bird": 0.25, "person": 0.25, "windmill": 0.15,
         "star": 0.4, "balloon": 0.12},
    ),
}  # fmt: skip
"""The classes in their order."""


def choose_objects(plan: Plan, rng: np.random.Generator, *, night: bool) -> set[str]:
    """Draw what a scene should hold: four to seven tags."""
    often = {tag: p for tag, p in plan.often.items() if tag != "star" or night}
    names = list(often)
    chances = rng.random(len(names)) - np.array(list(often.values()))
    # The likeliest first, by how far each fell below its probability.
    order = [names[i] for i in np.argsort(chances)]
    count = int((chances < 0).sum())
    free = MAX_TAGS - len(plan.always)
    count = min(max(count, _LEAST_WANTED - len(plan.always)), free)
    wanted = {*plan.always, *order[:count]}
    if "boat" in wanted and "water" not in wanted:
        wanted.remove("boat")
        wanted.add("water")
    if night and "sun" in wanted:
        wanted.remove("sun")
        wanted.add("moon")
    return wanted
