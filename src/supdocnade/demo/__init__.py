"""Synthetic data: drawn scenes of eight classes, and word counts from known distributions.

Each of `wilderness`, `countryside` and `city` paints some of the classes with the shapes of
`canvas`, the colours of `palettes`, and what `landscape` and `objects` have in common.
"""

from supdocnade.demo.planted import PlantedScenes, planted_scenes
from supdocnade.demo.scenes import CLASSES, TAGS, DrawnScene, draw_scene, drawn_scenes, write_scenes

__all__ = [
    "CLASSES",
    "TAGS",
    "DrawnScene",
    "PlantedScenes",
    "draw_scene",
    "drawn_scenes",
    "planted_scenes",
    "write_scenes",
]
