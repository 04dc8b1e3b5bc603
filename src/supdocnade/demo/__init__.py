"""Synthetic data: drawn scenes of eight classes, and word counts from known distributions."""

from supdocnade.demo.planted import PlantedScenes, planted_scenes
from supdocnade.demo.scenes import CLASSES, DrawnScene, drawn_scenes, write_scenes

__all__ = [
    "CLASSES",
    "DrawnScene",
    "PlantedScenes",
    "drawn_scenes",
    "planted_scenes",
    "write_scenes",
]
