"""Streets: two rows of house fronts that run to a vanishing point."""

from collections.abc import Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.demo.canvas import MARK, Canvas, Point, Window, pulse, unit
from supdocnade.demo.landscape import hill_line, paint_hill, paint_range, paint_sky, ridge_line
from supdocnade.demo.objects import broadleaf, car, lamp, person
from supdocnade.demo.palettes import Floats

_FOCAL = 85.0
"""Units from the eye to the sheet; lengths in the street are in metres."""
_FAR = 85.0
_N_HOUSES = 16


@dataclass(frozen=True)
class _View:
    """The eye in the street."""

    x: float
    """Of the vanishing point."""
    y: float
    eye: float
    """Metres above the ground."""
    half: float
    """Metres from the eye to either row of fronts."""
    kerb: float
    """Metres from the eye to the edges of the road."""

    def at(self, across: float, depth: float) -> Point:
        """Return where a place on the ground lies on the sheet."""
        return self.x + _FOCAL * across / depth, self.y + _FOCAL * self.eye / depth


def paint_street(canvas: Canvas, wanted: Set[str]) -> None:
    """Paint a street."""
    rng, palette = canvas.rng, canvas.palette
    half = rng.uniform(6.5, 10)
    view = _View(
        x=canvas.width * rng.uniform(0.34, 0.66),
        y=rng.uniform(36, 66),
        eye=rng.uniform(1.8, 5.5),
        half=half,
        kerb=half - rng.uniform(2.0, 3.2),
    )
    paint_sky(canvas, wanted, view.y)
    if "mountain" in wanted:
        ridge = ridge_line(canvas, view.y + 2, rng.uniform(24, 32), 4)
        paint_range(canvas, ridge, 0.05, 1)
    paint_hill(canvas, hill_line(canvas, view.y - 3, 0.8), palette.land(0.2))
    _ground(canvas, view)
    tone = rng.uniform(0.25, 0.75)
    for side in (-1, 1):
        _fronts(canvas, _wall(canvas, view, side), tone + 0.14 * side)
    _furniture(canvas, view, wanted)


def _ground(canvas: Canvas, view: _View) -> None:
    """Paint the road, its markings and the pavements."""
    rng, palette = canvas.rng, canvas.palette
    part = canvas.window(0, view.y, canvas.width, 100)
    near = np.maximum(part.y - view.y, 0.2)
    depth = view.eye * _FOCAL / near
    across = (part.x - view.x) * depth / _FOCAL
    pixel = depth / _FOCAL / canvas.scale
    long_pixel = depth / near / canvas.scale
    pavement = palette.land(rng.uniform(0.2, 0.5))
    everywhere = canvas.edge(view.y - part.y) * np.ones_like(part.x)
    canvas.paint(part, everywhere, pavement)
    slabs = np.maximum(
        pulse(across / 1.1, 0.09, pixel / 1.1),
        pulse(depth / 1.6 + 0 * part.x, 0.09, long_pixel / 1.6),
    )
    canvas.paint(part, slabs * np.float32(0.7), palette.tint(pavement, -0.4), MARK)
    road = palette.facing(pavement, rng.uniform(0.4, 0.6))
    inside = unit(0.5 - (abs(across) - view.kerb) / pixel)
    canvas.paint(part, inside, road, "road")
    kerb = unit(0.5 - (abs(abs(across) - view.kerb) - 0.11) / pixel)
    canvas.paint(part, kerb, palette.facing(road, 0.6), MARK)
    _markings(canvas, part, (across, depth), (pixel, long_pixel), view, road)
    specks = np.clip(0.12 + 0.12 * canvas.rough[part.rows], 0, 0.5) * inside
    canvas.stipple(part, specks, palette.facing(road, 0.3))


def _markings(
    canvas: Canvas,
    part: Window,
    place: tuple[Floats, Floats],
    pixels: tuple[Floats, Floats],
    view: _View,
    road: Floats,
) -> None:
    rng, palette = canvas.rng, canvas.palette
    (across, depth), (pixel, long_pixel) = place, pixels
    paint = palette.facing(road, 0.75)
    kind = rng.choice(["dashes", "crossing", "setts"])
    if kind == "setts":
        course = np.floor(depth / 0.5)
        stones = pulse(across / 0.7 + 0.5 * np.mod(course, 2), 0.85, pixel / 0.7)
        stones = stones * pulse(depth / 0.5, 0.85, long_pixel / 0.5)
        shown = unit(1.3 - pixel / 0.3) * canvas.edge(
            (abs(across) - view.kerb) / pixel / np.float32(canvas.scale)
        )
        canvas.paint(part, (1 - stones) * shown * np.float32(0.6), palette.tint(road, -0.5), MARK)
        return
    middle = unit(0.5 - (abs(across) - 0.1) / pixel)
    dashes = middle * pulse(depth / 5, 0.5, long_pixel / 5)
    canvas.paint(part, dashes * np.ones_like(part.x), paint, MARK)
    if kind == "crossing":
        start = view.eye * _FOCAL / (90 - view.y)
        band = unit(0.5 - (abs(depth - start - 2) - 1.7) / long_pixel)
        bars = pulse(across / 1.2, 0.5, pixel / 1.2) * unit(view.kerb - 0.4 - abs(across))
        canvas.paint(part, band * bars, paint, MARK)


class _Wall(NamedTuple):
    """One row of houses as a plane that runs into the depth."""

    part: Window
    house: NDArray[np.intp]
    """(width,) the number of the house in each column of pixels."""
    tall: Floats
    """(width,) metres to the roof."""
    up: Floats
    """(height, width) metres above the ground."""
    pixel: Floats
    """(width,) metres of the height that one pixel spans."""
    column: Floats
    """(width,) place along the front, in windows."""
    stride: Floats
    """(width,) windows that one pixel spans."""
    shown: Floats
    """(width,) 1 where there are houses, 0 beyond the last."""
    fog: Floats
    """(width,) how much of the colour is the sky's."""

    def between(self, low: Floats | float, high: Floats | float) -> Floats:
        """Return what lies between two heights."""
        above = unit(0.5 + (self.up - low) / self.pixel)
        cover: Floats = above * unit(0.5 + (high - self.up) / self.pixel) * self.shown
        return cover

    def colors(self, of_houses: list[Floats], sky: Floats) -> Floats:
        """Return the colour of each column, (3, 1, width), from those of the houses."""
        plain = np.stack(of_houses, axis=1)[:, None, self.house]
        faded: Floats = plain + self.fog * (sky[:, None, None] - plain)
        return faded


def _wall(canvas: Canvas, view: _View, side: int) -> _Wall:
    """Return the plane at the left, -1, or the right, 1, cut into houses."""
    rng = canvas.rng
    left, right = (0.0, view.x) if side < 0 else (view.x, canvas.width)
    part = canvas.window(left, 0, right, 100)
    away = np.maximum(side * (part.x[0] - view.x), 1e-3)
    depth = np.minimum(view.half * _FOCAL / away, 1e4)
    ends = np.cumsum(rng.uniform(6, 13, _N_HOUSES)) + rng.uniform(-4, 4)
    house = np.minimum(np.searchsorted(ends, depth), _N_HOUSES - 1)
    pitch = rng.uniform(2.0, 3.2, _N_HOUSES)[house]
    start = np.concatenate([[0], ends])[house]
    return _Wall(
        part=part,
        house=house,
        tall=(rng.uniform(0.5, 1.2) * rng.uniform(8, 22, _N_HOUSES))[house],
        up=view.eye - (part.y - view.y) * depth / _FOCAL,
        pixel=depth / _FOCAL / canvas.scale,
        column=(depth - start) / pitch,
        stride=depth / away / canvas.scale / pitch,
        shown=(depth < _FAR).astype(np.float32),
        fog=np.float32(0.75) * unit(depth / _FAR),
    )


def _fronts(canvas: Canvas, wall: _Wall, tone: float) -> None:
    """Paint one row of houses with their windows, ledges and shops."""
    rng, palette = canvas.rng, canvas.palette
    tones = tone + rng.uniform(-0.2, 0.2, _N_HOUSES)
    fronts = [palette.tint(palette.land(each), rng.uniform(-0.15, 0.3)) for each in tones]
    sky = palette.sky(1)
    walls = wall.colors(fronts, sky)
    trim = wall.colors([palette.facing(front, 0.62) for front in fronts], sky)
    whole = wall.between(0, wall.tall)
    canvas.paint(wall.part, whole, walls, "building")
    storey = rng.uniform(2.8, 3.6)
    level, step = (wall.up - 3.6) / storey, wall.pixel / storey
    panes = pulse(wall.column - 0.25, 0.5, wall.stride) * pulse(level - 0.22, 0.56, step)
    lights = rng.random((32, 64)) < (0.55 if palette.night else 0.15)
    number = np.floor(wall.column).astype(int) + 7 * wall.house
    lit = lights[np.floor(level).astype(int) % 32, number % 64]
    glass = np.where(lit, wall.colors([palette.glow] * _N_HOUSES, sky), trim)
    canvas.paint(wall.part, panes * wall.between(3.8, wall.tall - 0.9), glass, "window")
    ledges = pulse(level + 0.05, 0.07, step) * wall.between(3.4, wall.tall)
    canvas.paint(wall.part, ledges * np.float32(0.6), trim, MARK)
    canvas.paint(wall.part, wall.between(wall.tall - 0.6, wall.tall), trim, MARK)
    shops = wall.between(0.5, 2.5) * pulse(wall.column - 0.1, 0.78, wall.stride)
    canvas.paint(wall.part, shops, trim, MARK)
    awnings = wall.between(2.4, 3.3)
    canvas.paint(wall.part, awnings, walls * np.float32(0.8), MARK)
    stripes = pulse(wall.column * 4, 0.5, 4 * wall.stride)
    canvas.paint(wall.part, awnings * stripes, palette.glow, MARK)


def _furniture(canvas: Canvas, view: _View, wanted: Set[str]) -> None:
    """Put lamps, trees, cars and people into the street, far ones first."""
    rng, palette = canvas.rng, canvas.palette
    depths = np.arange(34, 8, -6.5) + rng.uniform(-1, 1)
    pavement = (view.half + view.kerb) / 2
    lamp_side, tree_side = (-1, 1) if rng.random() < 0.5 else (1, -1)
    both = rng.random() < 0.5
    for depth in depths:
        unit = _FOCAL / depth
        if "tree" in wanted:
            x, y = view.at(tree_side * (view.kerb + 0.7), depth + 2)
            color = palette.facing(canvas.color_at(x, y - 5 * unit, 4), 0.5)
            broadleaf(canvas, x, y, 5.5 * unit, color)
        if "lamp" in wanted:
            for side in (lamp_side, -lamp_side) if both else (lamp_side,):
                x, y = view.at(side * (view.kerb + 0.4), depth)
                color = palette.facing(canvas.color_at(x, y - 4 * unit, 3), 0.85)
                lamp(canvas, x, y, 5.2 * unit, color, -side)
        if "car" in wanted and (rng.random() < 0.6 or depth == depths[-2]):
            lane = rng.choice([-0.5, 0.5]) * view.kerb
            x, y = view.at(lane, depth)
            color = palette.against(canvas.color_at(x, y - 0.7 * unit, 3), rng)
            car(canvas, x, y, 1.9 * unit, color)
        if "person" in wanted and (rng.random() < 0.6 or depth == depths[-1]):
            x, y = view.at(rng.choice([-1, 1]) * pavement, depth - 1)
            color = palette.facing(canvas.color_at(x, y - unit, 2), 0.88)
            person(canvas, x, y, 1.75 * _FOCAL / (depth - 1), color)
