"""Coasts: waves up to the horizon, and a beach or a cliff."""

from collections.abc import Set

import numpy as np

from supdocnade.datasets.synthetic.canvas import MARK, Canvas, unit
from supdocnade.datasets.synthetic.houses import cottage
from supdocnade.datasets.synthetic.noise import Floats, fractal_line
from supdocnade.datasets.synthetic.plants import tree
from supdocnade.datasets.synthetic.sky import paint_sky
from supdocnade.datasets.synthetic.terrain import paint_range, paint_water, ridge_line
from supdocnade.datasets.synthetic.things import boat, fence, lighthouse, person, rock


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
