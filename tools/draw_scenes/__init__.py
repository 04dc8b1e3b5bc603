"""Scenes of eight classes, drawn as prints: `python -m tools.draw_scenes` writes those of the demo.

Each of `wilderness`, `countryside` and `city` paints some of the classes with the shapes of
`canvas`, the colours of `palettes`, and what `landscape` and `objects` have in common.
"""

from tools.draw_scenes.scenes import TAGS, draw_scene, drawn_scenes

__all__ = ["TAGS", "draw_scene", "drawn_scenes"]
