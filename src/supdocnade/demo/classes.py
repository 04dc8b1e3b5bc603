"""One painter a class."""

from collections.abc import Callable, Set

from supdocnade.demo.canvas import Canvas
from supdocnade.demo.land import paint_field, paint_forest
from supdocnade.demo.nature import paint_coast, paint_dunes, paint_mountain
from supdocnade.demo.street import paint_street
from supdocnade.demo.town import paint_skyline, paint_village

Painter = Callable[[Canvas, Set[str]], None]

PAINTERS: dict[str, Painter] = {
    "coast": paint_coast,
    "dunes": paint_dunes,
    "field": paint_field,
    "forest": paint_forest,
    "mountain": paint_mountain,
    "skyline": paint_skyline,
    "street": paint_street,
    "village": paint_village,
}
