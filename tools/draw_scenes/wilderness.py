"""Painters of coasts, dunes and mountains."""

from collections.abc import Set

import numpy as np

from tools.draw_scenes.canvas import MARK, Canvas, clip01, fractal_line
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
    paint_cactus,
    paint_cottage,
    paint_fence,
    paint_grass,
    paint_lighthouse,
    paint_palm,
    paint_person,
    paint_pine,
    paint_rock,
    paint_tree,
)
from tools.draw_scenes.palettes import Floats, mix


def paint_coast(canvas: Canvas, objects: Set[str]) -> None:
    """Paint a coast with waves up to the horizon, and a beach or a cliff."""
    rng, palette = canvas.rng, canvas.palette
    horizon = rng.uniform(26, 60)
    light_x = paint_sky(canvas, objects, horizon)
    if "mountain" in objects:
        ridge = ridge_line(canvas, horizon, rng.uniform(10, 19), int(rng.integers(2, 4)))
        paint_range(canvas, ridge, rng.uniform(0, 0.2), int(rng.choice([-1, 1])))
    sea = palette.land(rng.uniform(0.1, 0.75))
    part = canvas.window(0, horizon, canvas.width, 100)
    cover = canvas.edge(horizon - part.y) * np.ones_like(part.x)
    glint = light_x if {"sun", "moon"} & objects else None
    paint_water(canvas, part, cover, sea, horizon=horizon, glint=glint, calm=rng.uniform(0.8, 1.5))
    beach = "sand" in objects
    if "boat" in objects:
        for _ in range(int(rng.integers(1, 4))):
            _paint_boat(canvas, horizon, 66 if beach else 84)
    cliff = bool({"lighthouse", "house", "tree"} & objects)
    if "rock" in objects:
        _paint_rocks(canvas, horizon, beach)
    if cliff:
        _paint_cliff(canvas, objects, horizon)
    if beach:
        _paint_beach(canvas, objects, horizon)


def _paint_boat(canvas: Canvas, horizon: float, lowest: float) -> None:
    rng, palette = canvas.rng, canvas.palette
    y = rng.uniform(horizon + 3, lowest)
    size = 2.4 + 0.27 * (y - horizon)
    x = rng.uniform(0.3, 0.92) * canvas.width
    ground = canvas.color_at(x, y - size, 3)
    paint_boat(
        canvas, x, y, size, palette.contrast(ground, 0.85), palette.contrasting_ink(ground, rng)
    )


def _paint_rocks(canvas: Canvas, horizon: float, beach: bool) -> None:
    """Paint rocks in the water, surrounded by foam."""
    rng, palette = canvas.rng, canvas.palette
    for y in sorted(rng.uniform(horizon + 9, 70 if beach else 95, int(rng.integers(3, 6)))):
        size = rng.uniform(0.1, 0.2) * (y - horizon) + 1.5
        x = rng.uniform(0.05, 0.95) * canvas.width
        canvas.ellipse(x, y, 1.5 * size, 0.26 * size, palette.paper, MARK)
        paint_rock(canvas, x, y, size, canvas.contrast_at(x, y - size, 0.62, 3))


def _paint_cliff(canvas: Canvas, objects: Set[str], horizon: float) -> None:
    """Paint a headland with a cliff at the left, and the objects on it."""
    rng, palette = canvas.rng, canvas.palette
    reach = canvas.width * rng.uniform(0.3, 0.48)
    top = horizon - rng.uniform(-3, 12)
    foot = horizon + rng.uniform(12, 24)
    x = canvas.x[0]
    wobble = fractal_line(rng, x.size, 7, octaves=4, gain=0.6)
    brink = reach + 1.5 * wobble
    line = np.where(x < brink, top + 1.2 * wobble, top + (x - brink) * rng.uniform(3, 6))
    part, cover = canvas.ground_cover(line.astype(np.float32))
    # The cliff meets the water along an irregular line.
    shore = foot + 0.12 * (reach - part.x) + 1.0 * canvas.rough[part.rows]
    cover = cover * canvas.edge(part.y - shore)
    color = palette.land(rng.uniform(0.55, 0.95))
    ground = canvas.color_at(reach / 2, top - 3)
    if abs(color - ground).max() < 0.15:
        color = palette.contrast(ground, 0.6)
    canvas.paint(part, cover, color)
    strata = canvas.noise(5, 34, octaves=3, gain=0.7)[part.rows]
    face = clip01((part.y - line - 3) / 3) * cover
    canvas.paint(part, face * np.clip(strata * 1.6, 0, 0.8), palette.tint(color, -0.45), MARK)
    canvas.paint(part, face * np.clip(-strata * 1.6 - 0.7, 0, 0.6), palette.tint(color, 0.4), MARK)
    foam = cover * clip01(1.6 - abs(shore - part.y))
    canvas.paint(part, foam * np.float32(0.9), palette.paper, MARK)
    level = float(line[: max(int(reach * canvas.scale) - 4, 1)].mean()) + 0.8
    _paint_cliff_objects(canvas, objects, reach, level, color)


def _paint_cliff_objects(
    canvas: Canvas, objects: Set[str], reach: float, level: float, color: Floats
) -> None:
    rng, palette = canvas.rng, canvas.palette
    if "tree" in objects:
        kind = str(rng.choice(["pine", "round"]))
        for share in rng.uniform(0.02, 0.4, int(rng.integers(2, 5))):
            paint_tree(
                canvas, share * reach, level, rng.uniform(9, 16), palette.contrast(color, 0.3), kind
            )
    if "house" in objects:
        ground = canvas.color_at(0.5 * reach, level - 4)
        paint_cottage(canvas, 0.5 * reach, level, rng.uniform(10, 14), ground)
    if "lighthouse" in objects:
        ground = canvas.color_at(0.84 * reach, level - 12)
        tall = min(rng.uniform(20, 30), 0.9 * level)
        paint_lighthouse(canvas, 0.84 * reach, level, tall, palette.contrast(ground, 0.8))


def _paint_beach(canvas: Canvas, objects: Set[str], horizon: float) -> None:
    """Paint a beach in the foreground, lines of foam, and the objects on the beach."""
    rng, palette = canvas.rng, canvas.palette
    x = canvas.x[0]
    level, tilt = rng.uniform(max(horizon + 18, 66), 88), rng.uniform(-0.16, 0.16)
    curve = 2.2 * fractal_line(rng, x.size, 2.5, octaves=3, gain=0.4)
    line = (level + tilt * (x - canvas.width / 2) + curve).astype(np.float32)
    sand = palette.land(rng.uniform(0.75, 1.0))
    sea = canvas.color_at(canvas.width / 2, level - 8)
    if abs(sand - sea).max() < 0.2:
        sand = palette.contrast(sea, 0.6)
    for offset, thick in ((-6.5, 0.5), (-3.6, 0.9), (-0.7, 1.8)):
        waves = line + offset + 0.8 * fractal_line(rng, x.size, 12, octaves=2)
        part = canvas.window(0, float(waves.min()) - 3, canvas.width, float(waves.max()) + 3)
        foam = canvas.edge(abs(part.y - waves) - thick / 2)
        canvas.paint(part, foam * np.float32(0.9), palette.paper, MARK)
    part, cover = canvas.ground_cover(line)
    canvas.paint(part, cover, sand, "sand")
    wet = np.clip(0.7 - (part.y - line) / 6, 0, 0.6) * cover
    canvas.stipple(part, wet, palette.tint(sand, -0.4))
    canvas.stipple(
        part, clip01(0.16 + 0.1 * canvas.rough[part.rows]) * cover, palette.contrast(sand, 0.4)
    )
    if "fence" in objects:
        start, end = canvas.width * rng.uniform(0.4, 0.55), canvas.width * 1.02
        y = float(line.max()) + 4
        paint_fence(canvas, (end, y + 5), (start, y), (7, 5), palette.contrast(sand, 0.75), 9)
    if "person" in objects:
        at = rng.uniform(0.3, 0.8) * canvas.width
        y = float(np.interp(at, x, line)) + 4
        paint_person(canvas, at, y, rng.uniform(9, 12), palette.contrast(sand, 0.85))


def paint_dunes(canvas: Canvas, objects: Set[str]) -> None:
    """Paint dunes with sharp crests and rippled sand."""
    rng, palette = canvas.rng, canvas.palette
    horizon = rng.uniform(24, 60)
    paint_sky(canvas, objects, horizon)
    light = int(rng.choice([-1, 1]))
    if "mountain" in objects:
        ridge = ridge_line(canvas, horizon + 4, rng.uniform(12, 22), int(rng.integers(2, 5)))
        paint_range(canvas, ridge, rng.uniform(0, 0.2), light)
    n_layers = int(rng.integers(3, 6))
    first, last = rng.uniform(0.05, 0.3), rng.uniform(0.6, 1.0)
    for number in range(n_layers):
        share = number / (n_layers - 1)
        level = horizon + 3 + (84 - horizon) * share**1.2
        line, lee = _crest_line(canvas, level, 4 + 7.5 * share, light)
        color = palette.land(first + (last - first) * share)
        _paint_dune(canvas, line, lee, color, 0.25 + 0.75 * share)
        if number == n_layers - 2:
            _paint_dune_objects(canvas, objects, line)
    if "fence" in objects:
        color = canvas.contrast_at(canvas.width / 2, 94, 0.8)
        paint_fence(canvas, (canvas.width * 1.02, 97), (canvas.width * 0.45, 90), (9, 5), color, 8)


def _crest_line(canvas: Canvas, level: float, height: float, light: int) -> tuple[Floats, Floats]:
    """Return the line of a row of dunes with sharp crests and smooth hollows.

    Returns
    -------
    (width,) y of the line, and (width,) position on the shaded slope, from 0 at the crest to 1 at
    its foot and on the lit slope.
    """
    rng, x = canvas.rng, canvas.x[0]
    wave, long = rng.uniform(60, 120), rng.uniform(0.5, 0.72)
    place = x / wave + rng.random() + 0.1 * fractal_line(rng, x.size, 2, octaves=2)
    share = np.mod(place, 1)
    tooth = np.where(share < long, 1 - share / long, (share - long) / (1 - long))
    sway = 0.25 * fractal_line(rng, x.size, 2, octaves=2)
    lee = share / long if light < 0 else (1 - share) / (1 - long)
    line = level - height * (tooth**1.5 - 0.4 + sway)
    return line.astype(np.float32), np.where(lee <= 1, lee, 1).astype(np.float32)


def _paint_dune(canvas: Canvas, line: Floats, lee: Floats, color: Floats, size: float) -> None:
    """Paint the lit and the shaded slopes of a row of dunes, with ripples."""
    rng, palette = canvas.rng, canvas.palette
    part, cover = canvas.ground_cover(line)
    canvas.paint(part, cover, color, "sand")
    under = np.maximum(part.y - line, 0)
    drift = canvas.noise(3, 2.5, octaves=2, gain=0.4)[part.rows]
    # The shade begins at the crest and ends at the foot of the slope.
    reach = (7 + 17 * size) * lee**0.7 * np.sqrt(1 - lee)
    shade = canvas.edge(0.8 * (under - reach * (1 + 0.25 * drift))) * (lee < 1) * cover
    dark = palette.tint(color, -0.36)
    canvas.paint(part, shade, dark, MARK)
    spacing = rng.uniform(1.7, 2.8) * (0.45 + size)
    warp = canvas.noise(4, 5, octaves=3, gain=0.5)[part.rows]
    rows = (under + 2.4 * size * warp + 0.08 * part.x) / spacing
    wave = np.sin(np.float32(2 * np.pi) * rows) + 0.45 * drift
    fade = clip01(under / (6 * size) - 0.25) * np.clip(1.15 - 0.35 * warp, 0.2, 1)
    ripples = clip01((wave - 0.2) * 1.4) * fade * cover
    canvas.paint(part, ripples * np.float32(0.5), mix(dark, palette.ink, 0.12), MARK)
    lit = clip01((-wave - 0.45) * 1.5) * fade * cover * (1 - shade)
    canvas.paint(part, lit * np.float32(0.5), palette.tint(color, 0.4), MARK)
    canvas.stipple(part, cover * np.clip(0.1 + 0.012 * under, 0, 0.3), palette.tint(color, -0.25))


def _paint_dune_objects(canvas: Canvas, objects: Set[str], line: Floats) -> None:
    """Paint objects on the crest of a dune, apart from one another."""
    rng, palette = canvas.rng, canvas.palette
    places = iter(rng.permutation(np.linspace(0.1, 0.9, 7)) * canvas.width)

    def spot(sink: float = 1.0) -> tuple[float, float, Floats]:
        x = float(next(places))
        y = min(float(np.interp(x, canvas.x[0], line)) + sink, 80)
        return x, y, canvas.color_at(x, y - 5)

    if "house" in objects:
        x, y, ground = spot()
        paint_cottage(canvas, x, y + 1, rng.uniform(12, 16), ground)
    if "tree" in objects:
        x, y, ground = spot()
        for shift in rng.uniform(-7, 7, int(rng.integers(2, 4))):
            paint_palm(
                canvas, x + shift, y + 1, rng.uniform(14, 21), palette.contrast(ground, 0.75)
            )
    if "rock" in objects:
        for _ in range(2):
            x, y, ground = spot(2)
            paint_rock(canvas, x, y + 1, rng.uniform(3.5, 7), palette.contrast(ground, 0.6))
    if "cactus" in objects:
        for height in rng.uniform(12, 24, int(rng.integers(1, 3))):
            x, y, ground = spot()
            paint_cactus(canvas, x, y + 1.5, height, palette.contrast(ground, 0.72))
    if "person" in objects:
        x, y, ground = spot(0.6)
        for number in range(int(rng.integers(1, 4))):
            at = x + 6 * number
            y = float(np.interp(at, canvas.x[0], line)) + 0.6
            paint_person(canvas, at, min(y, 80), rng.uniform(8, 10), palette.contrast(ground, 0.85))


def paint_mountain(canvas: Canvas, objects: Set[str]) -> None:
    """Paint mountain ranges one behind the other, with trees or a lake at their feet."""
    rng = canvas.rng
    horizon, size = rng.uniform(36, 66), rng.uniform(0.5, 1.0)
    paint_sky(canvas, objects, horizon)
    light = int(rng.choice([-1, 1]))
    n_ranges = int(rng.integers(2, 5))
    nearest = rng.uniform(0.35, 0.7)
    snowy = "snow" in objects
    for number in range(n_ranges):
        share = number / (n_ranges - 1)
        height = size * rng.uniform(32, 50) * (1 - 0.45 * share)
        level = horizon + 12 * size * share
        ridge = ridge_line(canvas, level, height, int(rng.integers(2, 5)))
        snow = size * rng.uniform(9, 22) * (1 - 0.6 * share) if snowy else 0
        paint_range(canvas, ridge, 0.08 + (nearest - 0.08) * share, light, snow=snow)
    _paint_foothills(canvas, objects, horizon + 12 * size)


def _paint_foothills(canvas: Canvas, objects: Set[str], level: float) -> None:
    """Paint the ground in front of the mountains, perhaps a lake, and the objects there."""
    rng, palette = canvas.rng, canvas.palette
    ground = palette.land(rng.uniform(0.6, 0.95))
    if "tree" in objects:
        edge = hill_line(canvas, level + 1, 1.2)
        _paint_tree_belt(canvas, edge, palette.land(rng.uniform(0.55, 0.8)), 34, (5, 9))
    shore = hill_line(canvas, level + 1, 1.2, cells=3)
    if "water" in objects:
        near = rng.uniform(max(level + 8, 78), 93)
        _paint_lake(canvas, objects, shore, level, near)
        shore = hill_line(canvas, near, 2.5)
    paint_hill(canvas, shore, ground)
    first = float(shore.max())
    paint_grass(canvas, min(first + 2, 96), 101, palette.contrast(ground, 0.4), 24)
    if "house" in objects:
        x = rng.uniform(0.15, 0.85) * canvas.width
        y = min(first + 7, 96)
        paint_cottage(canvas, x, y, rng.uniform(14, 19), canvas.color_at(x, y - 5))
    if "rock" in objects:
        for x in rng.uniform(0, canvas.width, int(rng.integers(3, 6))):
            y = rng.uniform(min(first + 3, 94), 99)
            paint_rock(canvas, x, y, rng.uniform(3, 6.5), palette.contrast(ground, 0.45))
    if "fence" in objects:
        color = palette.contrast(ground, 0.75)
        paint_fence(canvas, (-2, 97), (canvas.width * 0.6, min(first + 6, 93)), (9, 6), color, 9)
    if "person" in objects:
        x, y = rng.uniform(0.2, 0.8) * canvas.width, rng.uniform(min(first + 4, 92), 96)
        paint_person(canvas, x, y, rng.uniform(9, 12), palette.contrast(ground, 0.85))
    if "tree" in objects:
        _paint_near_trees(canvas)


def _paint_lake(
    canvas: Canvas, objects: Set[str], shore: Floats, level: float, near: float
) -> None:
    """Paint a lake from a far shore to a near one, perhaps with a boat."""
    rng, palette = canvas.rng, canvas.palette
    part, cover = canvas.ground_cover(shore)
    water = palette.land(rng.uniform(0.15, 0.45))
    paint_water(canvas, part, cover, water, horizon=level - 3, calm=1.8)
    if "boat" in objects:
        x = rng.uniform(0.25, 0.75) * canvas.width
        y = level + rng.uniform(0.4, 0.8) * (near - level)
        back = canvas.color_at(x, y - 4)
        hull, sail = palette.contrast(back, 0.85), palette.contrasting_ink(back, rng)
        paint_boat(canvas, x, y, rng.uniform(6, 9), hull, sail)


def _paint_tree_belt(
    canvas: Canvas, line: Floats, color: Floats, count: int, heights: tuple[float, float]
) -> None:
    """Paint a row of conifers along a line."""
    rng = canvas.rng
    gaps = canvas.width * np.linspace(-0.02, 1.02, count)
    for x in gaps + rng.normal(0, 1.5, count):
        y = float(np.interp(x, canvas.x[0], line))
        paint_pine(canvas, x, y + 1.5, rng.uniform(*heights), color)


def _paint_near_trees(canvas: Canvas) -> None:
    """Paint a few near conifers at the left side."""
    rng = canvas.rng
    color = canvas.contrast_at(10, 75, 0.7, 9)
    for x in np.sort(rng.uniform(-0.03, 0.24, int(rng.integers(2, 5))))[::-1]:
        paint_pine(canvas, x * canvas.width, rng.uniform(97, 106), rng.uniform(32, 58), color)
