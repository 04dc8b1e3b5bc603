"""Data whose truth is known: corpora drawn from known classes, and scenes drawn as pictures.

======== ===========================================================================
module   what is there
======== ===========================================================================
planted  word counts and tags from known distributions
drawn    pictures of eight classes, with their objects as tags
files    the same as a folder of image files
plans    what a scene of each class may hold
classes  how each class is painted
sky      the sky and what hangs in it; likewise terrain, plants, houses and things
canvas   a sheet to paint on; palettes its colours, noise its random fields
======== ===========================================================================
"""

from supdocnade.demo.plans import TAGS
from supdocnade.demo.planted import PlantedScenes, planted_scenes
from supdocnade.demo.scenes import CLASSES, DrawnScene, draw_scene, drawn_scenes, write_scenes

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
