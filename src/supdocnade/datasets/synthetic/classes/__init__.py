"""One painter a class."""

from collections.abc import Callable, Set

from supdocnade.datasets.synthetic.canvas import Canvas
from supdocnade.datasets.synthetic.classes.coast import paint_coast
from supdocnade.datasets.synthetic.classes.dunes import paint_dunes
from supdocnade.datasets.synthetic.classes.field import paint_field
from supdocnade.datasets.synthetic.classes.forest import paint_forest
from supdocnade.datasets.synthetic.classes.mountain import paint_mountain
from supdocnade.datasets.synthetic.classes.skyline import paint_skyline
from supdocnade.datasets.synthetic.classes.street import paint_street
from supdocnade.datasets.synthetic.classes.village import paint_village

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
