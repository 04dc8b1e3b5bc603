"""Coasts: waves up to the horizon, and a beach or a cliff."""

from collections.abc import Set
from typing import NamedTuple

import numpy as np

from supdocnade.demo.canvas import MARK, Canvas, fractal_line, unit
from supdocnade.demo.houses import cottage
from supdocnade.demo.landscape import (
    hill_line,
    paint_hill,
    paint_range,
    paint_sky,
    paint_water,
    ridge_line,
)
from supdocnade.demo.objects import (
    boat,
    cactus,
    fence,
    lighthouse,
    palm,
    person,
    pine,
    rock,
    tree,
    tufts,
)
from supdocnade.demo.palettes import Floats, mix


def paint_coast(canvas: Canvas, wanted: Set[str]) -> None:
    """Paint a coast."""
    rng, palette = canvas.rng, canvas.palette
    horizon = rng.uniform(26, 60)
    light_x, _ = paint_sky(canvas, wanted, horizon)
    if "mountain" in wanted:
        ridge = ridge_line(canvas, horizon, rng.uniform(10, 19), int(rng.integers(2, 4)))
        paint_range(canvas, ridge, rng.uniform(0, 0.2), int(rng.choice([-1, 1])))
    sea = palette.land(rng.uniform(0.1, 0.75))
    part = canvas.window(0, horizon, canvas.width, 100)
    cover = canvas.edge(horizon - part.y) * np.ones_like(part.x)
    glint = light_x if {"sun", "moon"} & wanted else None
    paint_water(canvas, part, cover, sea, horizon=horizon, glint=glint, calm=rng.uniform(0.8, 1.5))
    beach = "sand" in wanted
    if "boat" in wanted:
        for _ in range(int(rng.integers(1, 4))):
            _boat(canvas, horizon, 66 if beach else 84)
    cliff = bool({"lighthouse", "house", "tree"} & wanted)
    if "rock" in wanted:
        _rocks(canvas, horizon, beach)
    if cliff:
        _cliff(canvas, wanted, horizon)
    if beach:
        _beach(canvas, wanted, horizon)


def _boat(canvas: Canvas, horizon: float, lowest: float) -> None:
    rng, palette = canvas.rng, canvas.palette
    y = rng.uniform(horizon + 3, lowest)
    size = 2.4 + 0.27 * (y - horizon)
    x = rng.uniform(0.3, 0.92) * canvas.width
    ground = canvas.color_at(x, y - size, 3)
    boat(canvas, x, y, size, palette.facing(ground, 0.85), palette.against(ground, rng))


def _rocks(canvas: Canvas, horizon: float, beach: bool) -> None:
    """Paint rocks in the water, each in a ring of foam."""
    rng, palette = canvas.rng, canvas.palette
    for y in sorted(rng.uniform(horizon + 9, 70 if beach else 95, int(rng.integers(3, 6)))):
        size = rng.uniform(0.1, 0.2) * (y - horizon) + 1.5
        x = rng.uniform(0.05, 0.95) * canvas.width
        canvas.ellipse(x, y, 1.5 * size, 0.26 * size, palette.paper, MARK)
        rock(canvas, x, y, size, palette.facing(canvas.color_at(x, y - size, 3), 0.62))


def _cliff(canvas: Canvas, wanted: Set[str], horizon: float) -> None:
    """Paint a headland at the left that falls steeply into the sea."""
    rng, palette = canvas.rng, canvas.palette
    reach = canvas.width * rng.uniform(0.3, 0.48)
    top = horizon - rng.uniform(-3, 12)
    foot = horizon + rng.uniform(12, 24)
    x = canvas.x[0]
    wobble = fractal_line(rng, x.size, 7, octaves=4, gain=0.6)
    brink = reach + 1.5 * wobble
    line = np.where(x < brink, top + 1.2 * wobble, top + (x - brink) * rng.uniform(3, 6))
    part, cover = canvas.below(line.astype(np.float32))
    # The foot follows the water, not a straight line.
    shore = foot + 0.12 * (reach - part.x) + 1.0 * canvas.rough[part.rows]
    cover = cover * canvas.edge(part.y - shore)
    color = palette.land(rng.uniform(0.55, 0.95))
    ground = canvas.color_at(reach / 2, top - 3)
    if abs(color - ground).max() < 0.15:
        color = palette.facing(ground, 0.6)
    canvas.paint(part, cover, color)
    strata = canvas.noise(5, 34, octaves=3, gain=0.7)[part.rows]
    face = unit((part.y - line - 3) / 3) * cover
    canvas.paint(part, face * np.clip(strata * 1.6, 0, 0.8), palette.tint(color, -0.45), MARK)
    canvas.paint(part, face * np.clip(-strata * 1.6 - 0.7, 0, 0.6), palette.tint(color, 0.4), MARK)
    foam = cover * unit(1.6 - abs(shore - part.y))
    canvas.paint(part, foam * np.float32(0.9), palette.paper, MARK)
    level = float(line[: max(int(reach * canvas.scale) - 4, 1)].mean()) + 0.8
    _on_the_cliff(canvas, wanted, reach, level, color)


def _on_the_cliff(
    canvas: Canvas, wanted: Set[str], reach: float, level: float, color: Floats
) -> None:
    rng, palette = canvas.rng, canvas.palette
    if "tree" in wanted:
        kind = str(rng.choice(["pine", "round"]))
        for share in rng.uniform(0.02, 0.4, int(rng.integers(2, 5))):
            tree(canvas, share * reach, level, rng.uniform(9, 16), palette.facing(color, 0.3), kind)
    if "house" in wanted:
        ground = canvas.color_at(0.5 * reach, level - 4)
        cottage(canvas, 0.5 * reach, level, rng.uniform(10, 14), ground)
    if "lighthouse" in wanted:
        ground = canvas.color_at(0.84 * reach, level - 12)
        tall = min(rng.uniform(20, 30), 0.9 * level)
        lighthouse(canvas, 0.84 * reach, level, tall, palette.facing(ground, 0.8))


def _beach(canvas: Canvas, wanted: Set[str], horizon: float) -> None:
    """Paint a beach in the foreground, with lines of foam along it."""
    rng, palette = canvas.rng, canvas.palette
    x = canvas.x[0]
    level, tilt = rng.uniform(max(horizon + 18, 66), 88), rng.uniform(-0.16, 0.16)
    curve = 2.2 * fractal_line(rng, x.size, 2.5, octaves=3, gain=0.4)
    line = (level + tilt * (x - canvas.width / 2) + curve).astype(np.float32)
    sand = palette.land(rng.uniform(0.75, 1.0))
    sea = canvas.color_at(canvas.width / 2, level - 8)
    if abs(sand - sea).max() < 0.2:
        sand = palette.facing(sea, 0.6)
    for offset, thick in ((-6.5, 0.5), (-3.6, 0.9), (-0.7, 1.8)):
        waves = line + offset + 0.8 * fractal_line(rng, x.size, 12, octaves=2)
        part = canvas.window(0, float(waves.min()) - 3, canvas.width, float(waves.max()) + 3)
        foam = canvas.edge(abs(part.y - waves) - thick / 2)
        canvas.paint(part, foam * np.float32(0.9), palette.paper, MARK)
    part, cover = canvas.below(line)
    canvas.paint(part, cover, sand, "sand")
    wet = np.clip(0.7 - (part.y - line) / 6, 0, 0.6) * cover
    canvas.stipple(part, wet, palette.tint(sand, -0.4))
    canvas.stipple(
        part, unit(0.16 + 0.1 * canvas.rough[part.rows]) * cover, palette.facing(sand, 0.4)
    )
    if "fence" in wanted:
        start, end = canvas.width * rng.uniform(0.4, 0.55), canvas.width * 1.02
        y = float(line.max()) + 4
        fence(canvas, (end, y + 5), (start, y), (7, 5), palette.facing(sand, 0.75), 9)
    if "person" in wanted:
        at = rng.uniform(0.3, 0.8) * canvas.width
        y = float(np.interp(at, x, line)) + 4
        person(canvas, at, y, rng.uniform(9, 12), palette.facing(sand, 0.85))


# Deserts: dunes with sharp crests and rippled sand.


def paint_dunes(canvas: Canvas, wanted: Set[str]) -> None:
    """Paint a desert."""
    rng, palette = canvas.rng, canvas.palette
    horizon = rng.uniform(24, 60)
    paint_sky(canvas, wanted, horizon)
    light = int(rng.choice([-1, 1]))
    if "mountain" in wanted:
        ridge = ridge_line(canvas, horizon + 4, rng.uniform(12, 22), int(rng.integers(2, 5)))
        paint_range(canvas, ridge, rng.uniform(0, 0.2), light)
    n_layers = int(rng.integers(3, 6))
    first, last = rng.uniform(0.05, 0.3), rng.uniform(0.6, 1.0)
    for number in range(n_layers):
        share = number / (n_layers - 1)
        level = horizon + 3 + (84 - horizon) * share**1.2
        crest = _crest(canvas, level, 4 + 7.5 * share, light)
        color = palette.land(first + (last - first) * share)
        _dune(canvas, crest, color, 0.25 + 0.75 * share)
        if number == n_layers - 2:
            _on_the_sand(canvas, wanted, crest.heights)
    if "fence" in wanted:
        color = palette.facing(canvas.color_at(canvas.width / 2, 94), 0.8)
        fence(canvas, (canvas.width * 1.02, 97), (canvas.width * 0.45, 90), (9, 5), color, 8)


class _Crest(NamedTuple):
    """The line of a row of dunes."""

    heights: Floats
    """(width,) y of the line."""
    lee: Floats
    """(width,) place on the slope away from the light: 0 at the crest, 1 at its foot, else NaN."""


def _crest(canvas: Canvas, level: float, height: float, light: int) -> _Crest:
    """Return a line of long slopes that meet in sharp crests and smooth hollows."""
    rng, x = canvas.rng, canvas.x[0]
    wave, long = rng.uniform(60, 120), rng.uniform(0.5, 0.72)
    place = x / wave + rng.random() + 0.1 * fractal_line(rng, x.size, 2, octaves=2)
    share = np.mod(place, 1)
    tooth = np.where(share < long, 1 - share / long, (share - long) / (1 - long))
    sway = 0.25 * fractal_line(rng, x.size, 2, octaves=2)
    lee = share / long if light < 0 else (1 - share) / (1 - long)
    lee = np.where(lee <= 1, lee, np.nan)
    return _Crest(
        (level - height * (tooth**1.5 - 0.4 + sway)).astype(np.float32), lee.astype(np.float32)
    )


def _dune(canvas: Canvas, crest: _Crest, color: Floats, size: float) -> None:
    """Paint a dune: its lit side, the shaded side behind a winding crest, and ripples."""
    rng, palette = canvas.rng, canvas.palette
    line = crest.heights
    part, cover = canvas.below(line)
    canvas.paint(part, cover, color, "sand")
    under = np.maximum(part.y - line, 0)
    drift = canvas.noise(3, 2.5, octaves=2, gain=0.4)[part.rows]
    # The shade begins at the crest, swings down and ends at the foot of the slope.
    lee = np.nan_to_num(crest.lee, nan=1.0)
    reach = (7 + 17 * size) * lee**0.7 * np.sqrt(1 - lee)
    shade = canvas.edge(0.8 * (under - reach * (1 + 0.25 * drift))) * (lee < 1) * cover
    dark = palette.tint(color, -0.36)
    canvas.paint(part, shade, dark, MARK)
    spacing = rng.uniform(1.7, 2.8) * (0.45 + size)
    warp = canvas.noise(4, 5, octaves=3, gain=0.5)[part.rows]
    rows = (under + 2.4 * size * warp + 0.08 * part.x) / spacing
    wave = np.sin(np.float32(2 * np.pi) * rows) + 0.45 * drift
    fade = unit(under / (6 * size) - 0.25) * np.clip(1.15 - 0.35 * warp, 0.2, 1)
    ripples = unit((wave - 0.2) * 1.4) * fade * cover
    canvas.paint(part, ripples * np.float32(0.5), mix(dark, palette.ink, 0.12), MARK)
    lit = unit((-wave - 0.45) * 1.5) * fade * cover * (1 - shade)
    canvas.paint(part, lit * np.float32(0.5), palette.tint(color, 0.4), MARK)
    canvas.stipple(part, cover * np.clip(0.1 + 0.012 * under, 0, 0.3), palette.tint(color, -0.25))


def _on_the_sand(canvas: Canvas, wanted: Set[str], line: Floats) -> None:
    """Put what is wanted on the crest of a dune, apart from one another."""
    rng, palette = canvas.rng, canvas.palette
    places = iter(rng.permutation(np.linspace(0.1, 0.9, 7)) * canvas.width)

    def spot(sink: float = 1.0) -> tuple[float, float, Floats]:
        x = float(next(places))
        y = min(float(np.interp(x, canvas.x[0], line)) + sink, 80)
        return x, y, canvas.color_at(x, y - 5)

    if "house" in wanted:
        x, y, ground = spot()
        cottage(canvas, x, y + 1, rng.uniform(12, 16), ground)
    if "tree" in wanted:
        x, y, ground = spot()
        for shift in rng.uniform(-7, 7, int(rng.integers(2, 4))):
            palm(canvas, x + shift, y + 1, rng.uniform(14, 21), palette.facing(ground, 0.75))
    if "rock" in wanted:
        for _ in range(2):
            x, y, ground = spot(2)
            rock(canvas, x, y + 1, rng.uniform(3.5, 7), palette.facing(ground, 0.6))
    if "cactus" in wanted:
        for height in rng.uniform(12, 24, int(rng.integers(1, 3))):
            x, y, ground = spot()
            cactus(canvas, x, y + 1.5, height, palette.facing(ground, 0.72))
    if "person" in wanted:
        x, y, ground = spot(0.6)
        for number in range(int(rng.integers(1, 4))):
            at = x + 6 * number
            y = float(np.interp(at, canvas.x[0], line)) + 0.6
            person(canvas, at, min(y, 80), rng.uniform(8, 10), palette.facing(ground, 0.85))


# Mountains: ranges one behind the other, with trees or a lake at their feet.


def paint_mountain(canvas: Canvas, wanted: Set[str]) -> None:
    """Paint mountains."""
    rng = canvas.rng
    horizon, size = rng.uniform(36, 66), rng.uniform(0.5, 1.0)
    paint_sky(canvas, wanted, horizon)
    light = int(rng.choice([-1, 1]))
    n_ranges = int(rng.integers(2, 5))
    nearest = rng.uniform(0.35, 0.7)
    snowy = "snow" in wanted
    for number in range(n_ranges):
        share = number / (n_ranges - 1)
        height = size * rng.uniform(32, 50) * (1 - 0.45 * share)
        level = horizon + 12 * size * share
        ridge = ridge_line(canvas, level, height, int(rng.integers(2, 5)))
        snow = size * rng.uniform(9, 22) * (1 - 0.6 * share) if snowy else 0
        paint_range(canvas, ridge, 0.08 + (nearest - 0.08) * share, light, snow=snow)
    _foot(canvas, wanted, horizon + 12 * size)


def _foot(canvas: Canvas, wanted: Set[str], level: float) -> None:
    """Paint the ground before the mountains, or a lake, and what stands there."""
    rng, palette = canvas.rng, canvas.palette
    ground = palette.land(rng.uniform(0.6, 0.95))
    if "tree" in wanted:
        edge = hill_line(canvas, level + 1, 1.2)
        _trees(canvas, edge, palette.land(rng.uniform(0.55, 0.8)), 34, (5, 9))
    shore = hill_line(canvas, level + 1, 1.2, cells=3)
    if "water" in wanted:
        near = rng.uniform(max(level + 8, 78), 93)
        _lake(canvas, wanted, shore, level, near)
        shore = hill_line(canvas, near, 2.5)
    paint_hill(canvas, shore, ground)
    first = float(shore.max())
    tufts(canvas, min(first + 2, 96), 101, palette.facing(ground, 0.4), 24)
    if "house" in wanted:
        x = rng.uniform(0.15, 0.85) * canvas.width
        y = min(first + 7, 96)
        cottage(canvas, x, y, rng.uniform(14, 19), canvas.color_at(x, y - 5))
    if "rock" in wanted:
        for x in rng.uniform(0, canvas.width, int(rng.integers(3, 6))):
            y = rng.uniform(min(first + 3, 94), 99)
            rock(canvas, x, y, rng.uniform(3, 6.5), palette.facing(ground, 0.45))
    if "fence" in wanted:
        color = palette.facing(ground, 0.75)
        fence(canvas, (-2, 97), (canvas.width * 0.6, min(first + 6, 93)), (9, 6), color, 9)
    if "person" in wanted:
        x, y = rng.uniform(0.2, 0.8) * canvas.width, rng.uniform(min(first + 4, 92), 96)
        person(canvas, x, y, rng.uniform(9, 12), palette.facing(ground, 0.85))
    if "tree" in wanted:
        _large_trees(canvas)


def _lake(canvas: Canvas, wanted: Set[str], shore: Floats, level: float, near: float) -> None:
    """Paint a lake from a far shore to a near one, perhaps with a boat."""
    rng, palette = canvas.rng, canvas.palette
    part, cover = canvas.below(shore)
    water = palette.land(rng.uniform(0.15, 0.45))
    paint_water(canvas, part, cover, water, horizon=level - 3, calm=1.8)
    if "boat" in wanted:
        x, y = (
            rng.uniform(0.25, 0.75) * canvas.width,
            level + rng.uniform(0.4, 0.8) * (near - level),
        )
        back = canvas.color_at(x, y - 4)
        hull, sail = palette.facing(back, 0.85), palette.against(back, rng)
        boat(canvas, x, y, rng.uniform(6, 9), hull, sail)


def _trees(
    canvas: Canvas, line: Floats, color: Floats, count: int, heights: tuple[float, float]
) -> None:
    """Paint a belt of conifers along a line."""
    rng = canvas.rng
    gaps = canvas.width * np.linspace(-0.02, 1.02, count)
    for x in gaps + rng.normal(0, 1.5, count):
        y = float(np.interp(x, canvas.x[0], line))
        pine(canvas, x, y + 1.5, rng.uniform(*heights), color)


def _large_trees(canvas: Canvas) -> None:
    """Frame the picture with a few near conifers at one side."""
    rng, palette = canvas.rng, canvas.palette
    color = palette.facing(canvas.color_at(10, 75, 9), 0.7)
    for x in np.sort(rng.uniform(-0.03, 0.24, int(rng.integers(2, 5))))[::-1]:
        pine(canvas, x * canvas.width, rng.uniform(97, 106), rng.uniform(32, 58), color)
