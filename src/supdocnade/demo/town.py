"""Skylines: towers with rows of windows, behind water or a park."""

from collections.abc import Set

import numpy as np

from supdocnade.demo.canvas import MARK, Canvas, pulse, unit
from supdocnade.demo.houses import House, paint_house
from supdocnade.demo.landscape import (
    hill_line,
    paint_hill,
    paint_range,
    paint_sky,
    paint_water,
    ridge_line,
)
from supdocnade.demo.objects import boat, broadleaf, fence, lamp, person, tree, tufts, windmill
from supdocnade.demo.palettes import Floats, mix


def paint_skyline(canvas: Canvas, wanted: Set[str]) -> None:
    """Paint a skyline."""
    rng, palette = canvas.rng, canvas.palette
    base = rng.uniform(52, 84) if "water" in wanted else rng.uniform(66, 92)
    # Some cities are far away.
    size = rng.uniform(0.5, 1.0)
    light_x, _ = paint_sky(canvas, wanted, base)
    if "mountain" in wanted:
        ridge = ridge_line(canvas, base - 10, rng.uniform(20, 30), int(rng.integers(3, 5)))
        paint_range(canvas, ridge, 0.05, 1)
    n_layers = int(rng.integers(2, 4))
    nearest = rng.uniform(0.55, 0.95)
    for number in range(n_layers):
        share = number / (n_layers - 1)
        color = palette.land(0.15 + (nearest - 0.15) * share)
        tall = size * rng.uniform(36, 60) * (1 - 0.35 * share)
        widths = (size * (6 + 2 * share), size * (11 + 5 * share))
        _towers(canvas, base, tall, color, widths)
    if "water" in wanted:
        _river(canvas, wanted, base, light_x if {"sun", "moon"} & wanted else None)
    else:
        paint_hill(canvas, hill_line(canvas, base, 0.5), palette.land(rng.uniform(0.6, 1)))
    if "bridge" in wanted:
        _bridge(canvas, base + 3)
    if "tree" in wanted:
        _park(canvas, base if "water" not in wanted else base + 0.5)
    if "lamp" in wanted:
        _promenade(canvas)


def _towers(
    canvas: Canvas, base: float, tall: float, color: Floats, widths: tuple[float, float]
) -> None:
    """Paint a row of towers, highest around one place."""
    rng, palette = canvas.rng, canvas.palette
    centre, spread = canvas.width * rng.uniform(0.2, 0.8), canvas.width * rng.uniform(0.25, 0.5)
    x = -rng.uniform(0, 6)
    while x < canvas.width:
        width = rng.uniform(*widths)
        swell = 0.45 + 0.55 * np.exp(-(((x - centre) / spread) ** 2))
        height = tall * swell * rng.uniform(0.6, 1.25)
        shade = palette.tint(color, rng.uniform(-0.22, 0.22))
        _tower(canvas, x, base, width, height, shade)
        x += width + (rng.uniform(0.5, 5) if rng.random() < 0.4 else rng.uniform(-1, 0.4))


def _tower(
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
    _windows(canvas, (x + 0.7, top + 1.4, x + width - 0.7, base - 1), color)


def _windows(canvas: Canvas, bounds: tuple[float, float, float, float], color: Floats) -> None:
    """Cover a front with a grid of windows, some of them lit."""
    rng, palette = canvas.rng, canvas.palette
    left, top, right, bottom = bounds
    part = canvas.window(*bounds)
    kind = rng.choice(["grid", "bands", "fins"])
    pitch_x, pitch_y = rng.uniform(1.7, 2.7), rng.uniform(2.0, 3.1)
    column, row = (part.x - left) / pitch_x, (part.y - top) / pitch_y
    step_x, step_y = 1 / pitch_x / canvas.scale, 1 / pitch_y / canvas.scale
    across = pulse(column, 0.55, step_x) if kind != "bands" else np.ones_like(part.x)
    down = pulse(row, 0.55, step_y) if kind != "fins" else np.ones_like(part.y)
    inside = canvas.span(part.x, left, right) * canvas.span(part.y, top, bottom)
    lights = rng.random((40, 24)) < (0.5 if palette.night else 0.16)
    lit = lights[np.floor(row).astype(int) % 40, np.floor(column).astype(int) % 24]
    glass = palette.facing(color, 0.5)
    glow = mix(palette.glow, color, 0.1)
    colors = np.where(lit, glow[:, None, None], glass[:, None, None])
    canvas.paint(part, across * down * inside, colors, "window")


def _river(canvas: Canvas, wanted: Set[str], base: float, glint: float | None) -> None:
    """Paint water before the city with the towers' wavering reflection."""
    rng, palette = canvas.rng, canvas.palette
    part = canvas.window(0, base, canvas.width, 100)
    cover = canvas.edge(base - part.y) * np.ones_like(part.x)
    rows = np.arange(part.rows.start, part.rows.stop)
    mirrored = np.clip(2 * part.rows.start - rows - 1, 0, None)
    city = canvas.image[:, mirrored]
    water = palette.land(rng.uniform(0.3, 0.8))
    paint_water(canvas, part, cover, water, horizon=base - 4, glint=glint, calm=1.3)
    canvas.paint(part, cover * np.float32(0.4), city, MARK)
    canvas.box(0, base - 0.8, canvas.width, base + 0.5, palette.facing(water, 0.7))
    if "boat" in wanted:
        for x in rng.uniform(0.1, 0.9, int(rng.integers(1, 3))) * canvas.width:
            y = rng.uniform(base + 5, 95)
            back = canvas.color_at(x, y - 4)
            hull, sail = palette.facing(back, 0.85), palette.against(back, rng)
            boat(canvas, x, y, rng.uniform(5, 8), hull, sail)


def _bridge(canvas: Canvas, deck: float) -> None:
    """Paint a suspension bridge from one side to the other."""
    rng, palette = canvas.rng, canvas.palette
    color = palette.facing(canvas.color_at(canvas.width / 2, deck - 12, 14), 0.8)
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
    hangers = pulse(part.x / 3.2, 0.11, 1 / 3.2 / canvas.scale) * canvas.edge(cable - part.y)
    canvas.paint(part, hangers, color, "bridge")
    for tower in towers:
        canvas.box(tower - 1.1, deck - height, tower + 1.1, deck + 9, color, "bridge")
        canvas.box(
            tower - 1.7, deck - height - 0.8, tower + 1.7, deck - height + 0.6, color, "bridge"
        )


def _park(canvas: Canvas, base: float) -> None:
    """Paint a row of trees at the feet of the towers."""
    rng, palette = canvas.rng, canvas.palette
    color = palette.facing(canvas.color_at(canvas.width / 2, base - 6, 12), 0.5)
    x = rng.uniform(-4, 4)
    while x < canvas.width + 4:
        broadleaf(canvas, x, base + 1, rng.uniform(7, 12), color)
        x += rng.uniform(4, 13)


def _promenade(canvas: Canvas) -> None:
    """Paint a quay with a row of lamps in the foreground."""
    rng, palette = canvas.rng, canvas.palette
    ground = palette.facing(canvas.color_at(canvas.width / 2, 93, 8), 0.6)
    canvas.box(0, 93, canvas.width, 101, ground)
    canvas.box(0, 93, canvas.width, 93.8, palette.facing(ground, 0.5), MARK)
    gap = canvas.width / int(rng.integers(3, 6))
    for x in np.arange(rng.uniform(0.3, 0.7) * gap, canvas.width, gap):
        color = palette.facing(canvas.color_at(x, 80, 6), 0.85)
        lamp(canvas, x, 97, rng.uniform(20, 22), color, 1)


# Villages: gabled houses in rows up a slope.


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
