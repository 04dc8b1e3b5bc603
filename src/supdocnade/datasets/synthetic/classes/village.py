"""Villages: gabled houses in rows up a slope."""

from collections.abc import Set

import numpy as np

from supdocnade.datasets.synthetic.canvas import MARK, Canvas, unit
from supdocnade.datasets.synthetic.houses import House, paint_house
from supdocnade.datasets.synthetic.noise import Floats
from supdocnade.datasets.synthetic.palettes import mix
from supdocnade.datasets.synthetic.plants import tree, tufts
from supdocnade.datasets.synthetic.sky import paint_sky
from supdocnade.datasets.synthetic.terrain import hill_line, paint_hill, paint_range, ridge_line
from supdocnade.datasets.synthetic.things import fence, lamp, person, windmill


def paint_village(canvas: Canvas, wanted: Set[str]) -> None:
    """Paint a village."""
    rng, palette = canvas.rng, canvas.palette
    horizon, size = rng.uniform(30, 58), rng.uniform(0.6, 1.0)
    paint_sky(canvas, wanted, horizon)
    if "mountain" in wanted:
        ridge = ridge_line(canvas, horizon + 2, rng.uniform(18, 28), int(rng.integers(2, 5)))
        paint_range(canvas, ridge, 0.08, 1, snow=8 if "snow" in wanted else 0)
    hill = hill_line(canvas, horizon + 3, 2)
    paint_hill(canvas, hill, palette.land(0.3))
    if "windmill" in wanted:
        x = canvas.width * rng.uniform(0.15, 0.85)
        color = palette.facing(canvas.color_at(x, horizon - 8), 0.75)
        windmill(canvas, x, horizon + 4, min(rng.uniform(24, 30), horizon), color)
    n_rows = int(rng.integers(1, 4))
    street = rng.uniform(70, 92)
    tone = rng.uniform(0.35, 0.7)
    for number in range(n_rows):
        share = (number + 1) / n_rows
        level = horizon + 9 + (street - 3 - horizon - 9) * share**1.1
        paint_hill(canvas, hill_line(canvas, level - 3, 0.8), palette.land(0.3 + 0.35 * share))
        _row(canvas, wanted, level, size * (9 + 12 * share), tone, share)
    _foreground(canvas, wanted, street)


def _row(
    canvas: Canvas, wanted: Set[str], level: float, size: float, tone: float, share: float
) -> None:
    """Paint one row of houses, with trees in its gaps."""
    rng, palette = canvas.rng, canvas.palette
    x = -rng.uniform(0, size)
    kind = str(rng.choice(["round", "pine", "poplar"]))
    leaf = palette.land(0.45 + 0.4 * share)
    lit = 0.65 if palette.night else 0.12
    steeple = int(rng.integers(1, 4)) if share < 0.8 and rng.random() < 0.5 else -1
    roofs = palette.glow if rng.random() < 0.5 else palette.land(rng.uniform(0.5, 1))
    number = 0
    while x < canvas.width:
        front, side = size * rng.uniform(0.75, 1.1), size * rng.choice([0.0, 0.7, 1.0, 1.4])
        foot = level + rng.uniform(-1.5, 1.5)
        walls = palette.tint(palette.land(tone + rng.uniform(-0.3, 0.3)), rng.uniform(0.1, 0.6))
        walls = mix(walls, palette.sky(1), 0.28 * (1 - share))
        tiles = palette.tint(mix(roofs, palette.facing(walls, 0.6), rng.uniform(0.1, 0.6)), -0.1)
        tiles = mix(tiles, palette.sky(1), 0.2 * (1 - share))
        house = House(
            x=x,
            foot=foot,
            front=front,
            side=side,
            wall=size * rng.uniform(0.55, 0.95),
            roof=size * rng.uniform(0.6, 0.95),
        )
        if number == steeple:
            _steeple(canvas, x + front / 2, foot, size, walls, tiles)
        paint_house(canvas, house, walls, tiles, snow="snow" in wanted, lit=lit)
        x = house.right + rng.uniform(-0.1, 0.15) * size
        if rng.random() < 0.35:
            gap = rng.uniform(0.25, 0.6) * size
            if "tree" in wanted:
                tree(canvas, x + gap / 2, foot + 1, size * rng.uniform(1.0, 1.5), leaf, kind)
            x += gap
        number += 1


def _steeple(
    canvas: Canvas, x: float, foot: float, size: float, walls: Floats, tiles: Floats
) -> None:
    """Paint a church tower."""
    half, top = 0.3 * size, foot - 2.1 * size
    canvas.box(x - half, top, x + half, foot, walls, "house")
    canvas.box(x + 0.2 * half, top, x + half, foot, canvas.palette.tint(walls, -0.3), MARK)
    canvas.polygon(
        [(x - 1.2 * half, top), (x + 1.2 * half, top), (x, top - 1.1 * size)], tiles, "house"
    )
    canvas.disc(x, top + 0.4 * size, 0.13 * size, canvas.palette.facing(walls, 0.7), MARK)


def _foreground(canvas: Canvas, wanted: Set[str], level: float) -> None:
    rng, palette = canvas.rng, canvas.palette
    ground = palette.paper if "snow" in wanted else palette.land(rng.uniform(0.6, 1))
    line = hill_line(canvas, level + 2, 0.8)
    paint_hill(canvas, line, ground, "snow" if "snow" in wanted else "")
    tufts(canvas, level + 4, 102, palette.facing(ground, 0.45), 20)
    if "road" in wanted:
        color = palette.facing(ground, 0.5)
        part = canvas.window(0, level + 3, canvas.width, 100)
        top = level + 5 + 1.2 * np.sin(part.x / rng.uniform(10, 20))
        cover = canvas.edge(top - part.y) * canvas.edge(part.y - top - 7)
        canvas.paint(part, cover, color, "road")
        stones = unit(abs(canvas.noise(30, 26, octaves=1)[part.rows]) * 3 - 0.5)
        canvas.paint(part, (1 - stones) * cover * np.float32(0.7), palette.tint(color, -0.45), MARK)
    if "lamp" in wanted:
        for x in canvas.width * np.array([0.12, 0.52, 0.9]) + rng.uniform(-5, 5):
            color = palette.facing(canvas.color_at(x, level - 8, 5), 0.88)
            lamp(canvas, x, level + 5, 21, color, 1)
    if "person" in wanted:
        x = rng.uniform(0.2, 0.8) * canvas.width
        y = level + rng.uniform(6, 9)
        person(canvas, x, y, 11, palette.facing(canvas.color_at(x, y - 5, 3), 0.88))
    if "fence" in wanted:
        color = palette.facing(ground, 0.75)
        y = min(level + 14, 98)
        fence(canvas, (-2, y + 1), (canvas.width + 2, y), (9, 9), color, 13)
