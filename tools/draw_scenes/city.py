"""Painters of skylines and streets."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np

from tools.draw_scenes.canvas import MARK, Canvas, Point, Window, clip01, stripe_cover
from tools.draw_scenes.landscape import (
    hill_line,
    paint_hill,
    paint_range,
    paint_sky,
    paint_water,
    ridge_line,
)
from tools.draw_scenes.objects import (
    paint_boat,
    paint_broadleaf,
    paint_car,
    paint_lamp,
    paint_person,
)
from tools.draw_scenes.palettes import Floats, mix


def paint_skyline(canvas: Canvas, objects: Set[str]) -> None:
    """Paint a skyline behind water or a park."""
    rng, palette = canvas.rng, canvas.palette
    base = rng.uniform(52, 84) if "water" in objects else rng.uniform(66, 92)
    size = rng.uniform(0.5, 1.0)
    light_x = paint_sky(canvas, objects, base)
    if "mountain" in objects:
        ridge = ridge_line(canvas, base - 10, rng.uniform(20, 30), int(rng.integers(3, 5)))
        paint_range(canvas, ridge, 0.05, 1)
    n_layers = int(rng.integers(2, 4))
    nearest = rng.uniform(0.55, 0.95)
    for number in range(n_layers):
        share = number / (n_layers - 1)
        color = palette.land(0.15 + (nearest - 0.15) * share)
        tall = size * rng.uniform(36, 60) * (1 - 0.35 * share)
        widths = (size * (6 + 2 * share), size * (11 + 5 * share))
        _paint_towers(canvas, base, tall, color, widths)
    if "water" in objects:
        _paint_river(canvas, objects, base, light_x if {"sun", "moon"} & objects else None)
    else:
        paint_hill(canvas, hill_line(canvas, base, 0.5), palette.land(rng.uniform(0.6, 1)))
    if "bridge" in objects:
        _paint_bridge(canvas, base + 3)
    if "tree" in objects:
        _paint_park(canvas, base if "water" not in objects else base + 0.5)
    if "lamp" in objects:
        _paint_promenade(canvas)


def _paint_towers(
    canvas: Canvas, base: float, tall: float, color: Floats, widths: tuple[float, float]
) -> None:
    """Paint a row of towers, tallest around a random centre."""
    rng, palette = canvas.rng, canvas.palette
    centre, spread = canvas.width * rng.uniform(0.2, 0.8), canvas.width * rng.uniform(0.25, 0.5)
    x = -rng.uniform(0, 6)
    while x < canvas.width:
        width = rng.uniform(*widths)
        swell = 0.45 + 0.55 * np.exp(-(((x - centre) / spread) ** 2))
        height = tall * swell * rng.uniform(0.6, 1.25)
        shade = palette.tint(color, rng.uniform(-0.22, 0.22))
        _paint_tower(canvas, x, base, width, height, shade)
        x += width + (rng.uniform(0.5, 5) if rng.random() < 0.4 else rng.uniform(-1, 0.4))


def _paint_tower(
    canvas: Canvas, x: float, base: float, width: float, height: float, color: Floats
) -> None:
    rng, palette = canvas.rng, canvas.palette
    top, middle = base - height, x + width / 2
    kind = rng.choice(["flat", "flat", "steps", "spire", "slant", "dome"])
    if kind == "steps":
        for share, rise in ((0.36, 6.0), (0.66, 3.0)):
            half = share * width / 2
            canvas.box(middle - half, top - rise, middle + half, top + 1, color, "building")
        canvas.line((middle, top - 6), (middle, top - 12), 0.6, color, "building", end_width=0.3)
    elif kind == "spire":
        canvas.polygon([(x, top), (x + width, top), (middle, top - 0.8 * width)], color, "building")
        canvas.line(
            (middle, top), (middle, top - 1.3 * width), 0.6, color, "building", end_width=0.3
        )
    elif kind == "slant":
        canvas.polygon(
            [(x, top), (x + width, top), (x + width, top - 0.55 * width)], color, "building"
        )
    elif kind == "dome":
        canvas.ellipse(middle, top, 0.45 * width, 0.4 * width, color, "building")
        canvas.line((middle, top), (middle, top - 0.65 * width), 0.5, color, "building")
    elif rng.random() < 0.5:
        mast = x + width * rng.uniform(0.2, 0.8)
        canvas.line((mast, top), (mast, top - rng.uniform(3, 8)), 0.5, color, "building")
    canvas.box(x, top, x + width, base + 1, color, "building")
    side = width * rng.uniform(0.2, 0.35)
    canvas.box(x + width - side, top, x + width, base + 1, palette.tint(color, -0.28), MARK)
    _paint_window_grid(canvas, (x + 0.7, top + 1.4, x + width - 0.7, base - 1), color)


def _paint_window_grid(
    canvas: Canvas, bounds: tuple[float, float, float, float], color: Floats
) -> None:
    """Paint a grid of windows, some of them lit."""
    rng, palette = canvas.rng, canvas.palette
    left, top, right, bottom = bounds
    part = canvas.window(*bounds)
    kind = rng.choice(["grid", "bands", "fins"])
    pitch_x, pitch_y = rng.uniform(1.7, 2.7), rng.uniform(2.0, 3.1)
    column, row = (part.x - left) / pitch_x, (part.y - top) / pitch_y
    step_x, step_y = 1 / pitch_x / canvas.scale, 1 / pitch_y / canvas.scale
    across = stripe_cover(column, 0.55, step_x) if kind != "bands" else np.ones_like(part.x)
    down = stripe_cover(row, 0.55, step_y) if kind != "fins" else np.ones_like(part.y)
    inside = canvas.span(part.x, left, right) * canvas.span(part.y, top, bottom)
    lights = rng.random((40, 24)) < (0.5 if palette.night else 0.16)
    lit = lights[np.floor(row).astype(int) % 40, np.floor(column).astype(int) % 24]
    glass = palette.contrast(color, 0.5)
    glow = mix(palette.glow, color, 0.1)
    colors = np.where(lit, glow[:, None, None], glass[:, None, None])
    canvas.paint(part, across * down * inside, colors, "window")


def _paint_river(canvas: Canvas, objects: Set[str], base: float, glint: float | None) -> None:
    """Paint water in front of the city, with its reflection."""
    rng, palette = canvas.rng, canvas.palette
    part = canvas.window(0, base, canvas.width, 100)
    cover = canvas.edge(base - part.y) * np.ones_like(part.x)
    rows = np.arange(part.rows.start, part.rows.stop)
    mirrored = np.clip(2 * part.rows.start - rows - 1, 0, None)
    city = canvas.image[:, mirrored]
    water = palette.land(rng.uniform(0.3, 0.8))
    paint_water(canvas, part, cover, water, horizon=base - 4, glint=glint, calm=1.3)
    canvas.paint(part, cover * np.float32(0.4), city, MARK)
    canvas.box(0, base - 0.8, canvas.width, base + 0.5, palette.contrast(water, 0.7))
    if "boat" in objects:
        for x in rng.uniform(0.1, 0.9, int(rng.integers(1, 3))) * canvas.width:
            y = rng.uniform(base + 5, 95)
            back = canvas.color_at(x, y - 4)
            hull, sail = palette.contrast(back, 0.85), palette.contrasting_ink(back, rng)
            paint_boat(canvas, x, y, rng.uniform(5, 8), hull, sail)


def _paint_bridge(canvas: Canvas, deck: float) -> None:
    """Paint a suspension bridge across the picture."""
    rng = canvas.rng
    color = canvas.contrast_at(canvas.width / 2, deck - 12, 0.8, 14)
    span = canvas.width * rng.uniform(0.5, 0.65)
    first = rng.uniform(-0.1, 0.3) * canvas.width
    towers = [first + number * span for number in range(-1, 3)]
    height = rng.uniform(20, 28)
    canvas.box(0, deck, canvas.width, deck + 1.5, color, "bridge")
    x = canvas.x[0]
    share = np.mod(x - first, span) / span
    cable = (deck - 1.5 - (height - 3) * (2 * share - 1) ** 2).astype(np.float32)
    part = canvas.window(0, deck - height, canvas.width, deck)
    slope = np.hypot(1, np.gradient(cable, 1 / canvas.scale)).astype(np.float32)
    canvas.paint(part, canvas.edge(abs(part.y - cable) / slope - 0.45), color, "bridge")
    hangers = stripe_cover(part.x / 3.2, 0.11, 1 / 3.2 / canvas.scale) * canvas.edge(cable - part.y)
    canvas.paint(part, hangers, color, "bridge")
    for tower in towers:
        canvas.box(tower - 1.1, deck - height, tower + 1.1, deck + 9, color, "bridge")
        canvas.box(
            tower - 1.7, deck - height - 0.8, tower + 1.7, deck - height + 0.6, color, "bridge"
        )


def _paint_park(canvas: Canvas, base: float) -> None:
    """Paint a row of trees in front of the towers."""
    rng = canvas.rng
    color = canvas.contrast_at(canvas.width / 2, base - 6, 0.5, 12)
    x = rng.uniform(-4, 4)
    while x < canvas.width + 4:
        paint_broadleaf(canvas, x, base + 1, rng.uniform(7, 12), color)
        x += rng.uniform(4, 13)


def _paint_promenade(canvas: Canvas) -> None:
    """Paint a promenade with lamps in the foreground."""
    rng, palette = canvas.rng, canvas.palette
    ground = canvas.contrast_at(canvas.width / 2, 93, 0.6, 8)
    canvas.box(0, 93, canvas.width, 101, ground)
    canvas.box(0, 93, canvas.width, 93.8, palette.contrast(ground, 0.5), MARK)
    gap = canvas.width / int(rng.integers(3, 6))
    for x in np.arange(rng.uniform(0.3, 0.7) * gap, canvas.width, gap):
        color = canvas.contrast_at(x, 80, 0.85, 6)
        paint_lamp(canvas, x, 97, rng.uniform(20, 22), color, 1)


_FOCAL = 85.0
"""Distance from the eye to the picture plane, in units."""
_FAR = 85.0
_N_HOUSES = 16


@dataclass(frozen=True)
class _View:
    """Viewpoint in a street; lengths in the street are in metres."""

    x: float
    y: float
    """x and y of the vanishing point."""
    eye: float
    """Height of the eye."""
    half: float
    """Distance from the eye to either row of fronts."""
    kerb: float
    """Distance from the eye to the edges of the road."""

    def at(self, across: float, depth: float) -> Point:
        """Return the picture coordinates of a point on the ground."""
        return self.x + _FOCAL * across / depth, self.y + _FOCAL * self.eye / depth


def paint_street(canvas: Canvas, objects: Set[str]) -> None:
    """Paint a street between two rows of house fronts that run to a vanishing point."""
    rng, palette = canvas.rng, canvas.palette
    half = rng.uniform(6.5, 10)
    view = _View(
        x=canvas.width * rng.uniform(0.34, 0.66),
        y=rng.uniform(36, 66),
        eye=rng.uniform(1.8, 5.5),
        half=half,
        kerb=half - rng.uniform(2.0, 3.2),
    )
    paint_sky(canvas, objects, view.y)
    if "mountain" in objects:
        ridge = ridge_line(canvas, view.y + 2, rng.uniform(24, 32), 4)
        paint_range(canvas, ridge, 0.05, 1)
    paint_hill(canvas, hill_line(canvas, view.y - 3, 0.8), palette.land(0.2))
    _paint_street_ground(canvas, view)
    tone = rng.uniform(0.25, 0.75)
    for side in (-1, 1):
        _paint_fronts(canvas, view, side, tone + 0.14 * side)
    _paint_street_objects(canvas, view, objects)


def _paint_street_ground(canvas: Canvas, view: _View) -> None:
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
        stripe_cover(across / 1.1, 0.09, pixel / 1.1),
        stripe_cover(depth / 1.6 + 0 * part.x, 0.09, long_pixel / 1.6),
    )
    canvas.paint(part, slabs * np.float32(0.7), palette.tint(pavement, -0.4), MARK)
    road = palette.contrast(pavement, rng.uniform(0.4, 0.6))
    inside = clip01(0.5 - (abs(across) - view.kerb) / pixel)
    canvas.paint(part, inside, road, "road")
    kerb = clip01(0.5 - (abs(abs(across) - view.kerb) - 0.11) / pixel)
    canvas.paint(part, kerb, palette.contrast(road, 0.6), MARK)
    _paint_markings(canvas, part, (across, depth), (pixel, long_pixel), view, road)
    specks = np.clip(0.12 + 0.12 * canvas.rough[part.rows], 0, 0.5) * inside
    canvas.stipple(part, specks, palette.contrast(road, 0.3))


def _paint_markings(
    canvas: Canvas,
    part: Window,
    place: tuple[Floats, Floats],
    pixels: tuple[Floats, Floats],
    view: _View,
    road: Floats,
) -> None:
    rng, palette = canvas.rng, canvas.palette
    (across, depth), (pixel, long_pixel) = place, pixels
    paint = palette.contrast(road, 0.75)
    kind = rng.choice(["dashes", "crossing", "setts"])
    if kind == "setts":
        course = np.floor(depth / 0.5)
        stones = stripe_cover(across / 0.7 + 0.5 * np.mod(course, 2), 0.85, pixel / 0.7)
        stones = stones * stripe_cover(depth / 0.5, 0.85, long_pixel / 0.5)
        visible = clip01(1.3 - pixel / 0.3) * canvas.edge(
            (abs(across) - view.kerb) / pixel / np.float32(canvas.scale)
        )
        canvas.paint(part, (1 - stones) * visible * np.float32(0.6), palette.tint(road, -0.5), MARK)
        return
    middle = clip01(0.5 - (abs(across) - 0.1) / pixel)
    dashes = middle * stripe_cover(depth / 5, 0.5, long_pixel / 5)
    canvas.paint(part, dashes * np.ones_like(part.x), paint, MARK)
    if kind == "crossing":
        start = view.eye * _FOCAL / (90 - view.y)
        band = clip01(0.5 - (abs(depth - start - 2) - 1.7) / long_pixel)
        bars = stripe_cover(across / 1.2, 0.5, pixel / 1.2) * clip01(view.kerb - 0.4 - abs(across))
        canvas.paint(part, band * bars, paint, MARK)


def _paint_fronts(canvas: Canvas, view: _View, side: int, tone: float) -> None:
    """Paint the row of houses at the left (side -1) or right (1) of the street.

    The row is a vertical plane that runs into the depth. Arrays are (pixels across,), or (pixels
    down, pixels across), with lengths in metres.
    """
    rng, palette = canvas.rng, canvas.palette
    left, right = (0.0, view.x) if side < 0 else (view.x, canvas.width)
    part = canvas.window(left, 0, right, 100)
    away = np.maximum(side * (part.x[0] - view.x), 1e-3)
    depth = np.minimum(view.half * _FOCAL / away, 1e4)
    ends = np.cumsum(rng.uniform(6, 13, _N_HOUSES)) + rng.uniform(-4, 4)
    house = np.minimum(np.searchsorted(ends, depth), _N_HOUSES - 1)
    pitch = rng.uniform(2.0, 3.2, _N_HOUSES)[house]
    start = np.concatenate([[0], ends])[house]
    roof = (rng.uniform(0.5, 1.2) * rng.uniform(8, 22, _N_HOUSES))[house]
    height = view.eye - (part.y - view.y) * depth / _FOCAL
    pixel = depth / _FOCAL / canvas.scale
    # Position along the front and size of a pixel, in windows.
    column, stride = (depth - start) / pitch, depth / away / canvas.scale / pitch
    visible = (depth < _FAR).astype(np.float32)
    fog = np.float32(0.75) * clip01(depth / _FAR)

    def between(low: Floats | float, high: Floats | float) -> Floats:
        """Return the cover of the plane between two heights."""
        above = clip01(0.5 + (height - low) / pixel)
        cover: Floats = above * clip01(0.5 + (high - height) / pixel) * visible
        return cover

    def fade(colors: Sequence[Floats]) -> Floats:
        """Return the colour of each column in the fog, (3, 1, pixels across)."""
        plain = np.stack(colors, axis=1)[:, None, house]
        faded: Floats = plain + fog * (palette.sky(1)[:, None, None] - plain)
        return faded

    tones = tone + rng.uniform(-0.2, 0.2, _N_HOUSES)
    fronts = [palette.tint(palette.land(each), rng.uniform(-0.15, 0.3)) for each in tones]
    walls, trim = fade(fronts), fade([palette.contrast(front, 0.62) for front in fronts])
    canvas.paint(part, between(0, roof), walls, "building")
    storey = rng.uniform(2.8, 3.6)
    level, step = (height - 3.6) / storey, pixel / storey
    panes = stripe_cover(column - 0.25, 0.5, stride) * stripe_cover(level - 0.22, 0.56, step)
    lights = rng.random((32, 64)) < (0.55 if palette.night else 0.15)
    number = np.floor(column).astype(int) + 7 * house
    lit = lights[np.floor(level).astype(int) % 32, number % 64]
    glass = np.where(lit, fade([palette.glow] * _N_HOUSES), trim)
    canvas.paint(part, panes * between(3.8, roof - 0.9), glass, "window")
    ledges = stripe_cover(level + 0.05, 0.07, step) * between(3.4, roof)
    canvas.paint(part, ledges * np.float32(0.6), trim, MARK)
    canvas.paint(part, between(roof - 0.6, roof), trim, MARK)
    shops = between(0.5, 2.5) * stripe_cover(column - 0.1, 0.78, stride)
    canvas.paint(part, shops, trim, MARK)
    awnings = between(2.4, 3.3)
    canvas.paint(part, awnings, walls * np.float32(0.8), MARK)
    canvas.paint(part, awnings * stripe_cover(column * 4, 0.5, 4 * stride), palette.glow, MARK)


def _paint_street_objects(canvas: Canvas, view: _View, objects: Set[str]) -> None:
    """Paint lamps, trees, cars and people in the street, the far ones first."""
    rng, palette = canvas.rng, canvas.palette
    depths = np.arange(34, 8, -6.5) + rng.uniform(-1, 1)
    pavement = (view.half + view.kerb) / 2
    lamp_side, tree_side = (-1, 1) if rng.random() < 0.5 else (1, -1)
    both = rng.random() < 0.5
    for depth in depths:
        meter = _FOCAL / depth
        if "tree" in objects:
            x, y = view.at(tree_side * (view.kerb + 0.7), depth + 2)
            color = canvas.contrast_at(x, y - 5 * meter, 0.5, 4)
            paint_broadleaf(canvas, x, y, 5.5 * meter, color)
        if "lamp" in objects:
            for side in (lamp_side, -lamp_side) if both else (lamp_side,):
                x, y = view.at(side * (view.kerb + 0.4), depth)
                color = canvas.contrast_at(x, y - 4 * meter, 0.85, 3)
                paint_lamp(canvas, x, y, 5.2 * meter, color, -side)
        if "car" in objects and (rng.random() < 0.6 or depth == depths[-2]):
            lane = rng.choice([-0.5, 0.5]) * view.kerb
            x, y = view.at(lane, depth)
            color = palette.contrasting_ink(canvas.color_at(x, y - 0.7 * meter, 3), rng)
            paint_car(canvas, x, y, 1.9 * meter, color)
        if "person" in objects and (rng.random() < 0.6 or depth == depths[-1]):
            x, y = view.at(rng.choice([-1, 1]) * pavement, depth - 1)
            color = canvas.contrast_at(x, y - meter, 0.88, 2)
            paint_person(canvas, x, y, 1.75 * _FOCAL / (depth - 1), color)
