"""Mountains: ranges one behind the other, with trees or a lake at their feet."""

from collections.abc import Set

import numpy as np

from supdocnade.datasets.synthetic.canvas import Canvas
from supdocnade.datasets.synthetic.houses import cottage
from supdocnade.datasets.synthetic.noise import Floats
from supdocnade.datasets.synthetic.plants import pine, tufts
from supdocnade.datasets.synthetic.sky import paint_sky
from supdocnade.datasets.synthetic.terrain import (
    hill_line,
    paint_hill,
    paint_range,
    paint_water,
    ridge_line,
)
from supdocnade.datasets.synthetic.things import boat, fence, person, rock


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
