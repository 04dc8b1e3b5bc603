"""Painters of fields, forests and villages."""

from collections.abc import Set

import numpy as np

from tools.draw_scenes.canvas import MARK, Canvas, Window, clip01, stripe_cover
from tools.draw_scenes.landscape import hill_line, paint_hill, paint_range, paint_sky, ridge_line
from tools.draw_scenes.objects import (
    House,
    paint_cottage,
    paint_fence,
    paint_grass,
    paint_house,
    paint_lamp,
    paint_person,
    paint_pine,
    paint_rock,
    paint_tree,
    paint_windmill,
)
from tools.draw_scenes.palettes import Floats, mix

_FOCAL = 90.0
"""Distance from the viewer to the picture plane, in units."""


def paint_field(canvas: Canvas, objects: Set[str]) -> None:
    """Paint fields with furrows or rows of crops that converge at a vanishing point."""
    rng, palette = canvas.rng, canvas.palette
    horizon = rng.uniform(26, 64)
    paint_sky(canvas, objects, horizon)
    if "mountain" in objects:
        ridge = ridge_line(canvas, horizon, rng.uniform(11, 20), int(rng.integers(2, 5)))
        paint_range(canvas, ridge, rng.uniform(0, 0.15), int(rng.choice([-1, 1])))
    for number in range(int(rng.integers(1, 3))):
        level = horizon - 2.5 + 2 * number
        line = hill_line(canvas, level, rng.uniform(1.2, 2.6))
        paint_hill(canvas, line, palette.land(0.15 + 0.2 * number))
    part = canvas.window(0, horizon, canvas.width, 100)
    border = canvas.width * rng.uniform(0.3, 0.7)
    tones = rng.permutation([rng.uniform(0.3, 0.55), rng.uniform(0.6, 0.95)])
    eye = rng.uniform(3, 7)
    for number, tone in enumerate(tones):
        _paint_parcel(canvas, part, horizon, eye, border, 1 - 2 * number, palette.land(tone))
    if "road" in objects:
        _paint_dirt_road(canvas, part, horizon, border)
    _paint_horizon_objects(canvas, objects, horizon)
    _paint_field_objects(canvas, objects, horizon)


def _paint_parcel(
    canvas: Canvas,
    part: Window,
    horizon: float,
    eye: float,
    border: float,
    side: int,
    color: Floats,
) -> None:
    """Paint the field on one side (-1 or 1) of a border line, in rows of one direction."""
    rng, palette = canvas.rng, canvas.palette
    near = np.maximum(part.y - horizon, 0.3)
    depth = eye * _FOCAL / near
    across = (part.x - border) * depth / _FOCAL
    # The border is a line through the vanishing point.
    slant = rng.uniform(-4, 4)
    cover = canvas.edge(side * (part.x - border - slant * near / 20)) * canvas.edge(
        horizon - part.y
    )
    canvas.paint(part, cover, color)
    turn = rng.uniform(-0.5, 0.5)
    spacing = rng.uniform(0.9, 1.9)
    wobble = 0.05 * canvas.noise(7, 7, octaves=2)[part.rows]
    rows = (across * np.cos(turn) + depth * np.sin(turn)) / spacing + wobble
    step = depth / _FOCAL / spacing / canvas.scale
    width = step + abs(np.sin(turn)) * depth / near / spacing / canvas.scale
    fade = clip01(1.25 - width) * cover
    dark, light = palette.tint(color, -0.42), palette.tint(color, 0.42)
    kind = rng.choice(["furrows", "crops", "straw"])
    if kind == "furrows":
        canvas.paint(part, stripe_cover(rows, 0.42, width) * fade * np.float32(0.9), dark, MARK)
        canvas.paint(part, stripe_cover(rows + 0.45, 0.16, width) * fade, light, MARK)
    elif kind == "crops":
        along = (depth * np.cos(turn) - across * np.sin(turn)) / (0.8 * spacing)
        plants = _dots(rows, along, width)
        canvas.paint(part, stripe_cover(rows, 0.3, width) * fade * np.float32(0.4), dark, MARK)
        canvas.paint(part, plants * fade, dark if rng.random() < 0.5 else light, MARK)
    else:
        straws = 2 * rows
        along = (depth * np.cos(turn) - across * np.sin(turn)) / (1.6 * spacing)
        along = along + np.mod(np.floor(straws) * 0.618, 1) + wobble * 3
        stride = depth / near / canvas.scale / (1.6 * spacing)
        straw = stripe_cover(straws, 0.55, 2 * width) * stripe_cover(along, 0.7, stride)
        canvas.paint(part, straw * fade * np.float32(0.85), dark, MARK)
        ears = stripe_cover(straws + 0.3, 0.25, 2 * width) * stripe_cover(along + 0.4, 0.4, stride)
        canvas.paint(part, ears * fade, light, MARK)
    canvas.stipple(part, 0.13 * cover, dark)


def _dots(rows: Floats, along: Floats, width: Floats) -> Floats:
    """Return the cover of round plants, one per unit of both directions."""
    shift = np.floor(rows)
    far = np.hypot(np.mod(rows, 1) - 0.5, np.mod(along + 0.37 * shift, 1) - 0.5)
    cover: Floats = clip01(0.5 - (far - 0.36) / np.maximum(width, 0.02))
    return cover


def _paint_dirt_road(canvas: Canvas, part: Window, horizon: float, middle: float) -> None:
    """Paint a dirt road along the border of the fields."""
    rng, palette = canvas.rng, canvas.palette
    near = part.y - horizon
    ground = canvas.color_at(middle, 90, 8)
    color = palette.contrast(ground, 0.5)
    half = rng.uniform(0.14, 0.24) * near + 0.3
    far = abs(part.x - middle) - half
    cover = canvas.edge(far) * canvas.edge(horizon + 0.5 - part.y)
    canvas.paint(part, cover, color, "road")
    ruts = canvas.edge(abs(abs(part.x - middle) - 0.45 * half) - 0.12 * half) * cover
    canvas.paint(part, ruts * np.float32(0.5), palette.tint(color, -0.4), MARK)
    grass = canvas.edge(abs(part.x - middle) - 0.13 * half) * cover
    canvas.stipple(part, grass * np.float32(0.7), ground)


def _paint_horizon_objects(canvas: Canvas, objects: Set[str], horizon: float) -> None:
    """Paint a house, a windmill and trees at the far edge of the fields."""
    rng, palette = canvas.rng, canvas.palette
    y = horizon + 3
    places = iter(rng.permutation([0.14, 0.38, 0.62, 0.86]) * canvas.width)
    grove = float(next(places))
    if "windmill" in objects:
        x = float(next(places))
        color = canvas.contrast_at(x, y - 9, 0.75)
        paint_windmill(canvas, x, y + 2, min(rng.uniform(20, 30), horizon), color)
    if "house" in objects:
        x = float(next(places))
        paint_cottage(canvas, x, y + 2, rng.uniform(14, 21), canvas.color_at(x, y - 4))
    if "tree" in objects:
        kind = str(rng.choice(["round", "poplar", "round"]))
        color = palette.land(rng.uniform(0.55, 0.9))
        if abs(color - canvas.color_at(grove, y - 8)).max() < 0.15:
            color = palette.contrast(color, 0.4)
        for shift in np.sort(rng.normal(0, 11, int(rng.integers(3, 7)))):
            paint_tree(canvas, grove + shift, y + 1, rng.uniform(9, 19), color, kind)


def _paint_field_objects(canvas: Canvas, objects: Set[str], horizon: float) -> None:
    rng = canvas.rng
    if "person" in objects:
        x, y = rng.uniform(0.25, 0.75) * canvas.width, rng.uniform(76, 86)
        paint_person(canvas, x, y, 0.27 * (y - horizon), canvas.contrast_at(x, y - 4, 0.88))
    if "fence" in objects:
        color = canvas.contrast_at(canvas.width / 3, 90, 0.8, 8)
        end = (canvas.width * rng.uniform(0.55, 0.95), horizon + 8)
        if rng.random() < 0.5:
            end = (canvas.width * 1.02, rng.uniform(88, 96))
        size = rng.uniform(12, 16)
        near = size * (end[1] - horizon) / (97 - horizon)
        paint_fence(canvas, (-2, 98), end, (size, near), color, 11)


def paint_forest(canvas: Canvas, objects: Set[str]) -> None:
    """Paint a forest of bare trunks under leaves, or of conifers, in layers that fade away."""
    rng, palette = canvas.rng, canvas.palette
    ground_level = rng.uniform(52, 80)
    size = rng.uniform(0.55, 1.0)
    paint_sky(canvas, objects, ground_level)
    if "mountain" in objects:
        ridge = ridge_line(canvas, ground_level - 8, rng.uniform(22, 32), 3)
        paint_range(canvas, ridge, 0.05, 1)
    conifers = rng.random() < 0.4
    n_layers = int(rng.integers(3, 5))
    last = rng.uniform(0.75, 1.0)
    for number in range(n_layers):
        share = number / (n_layers - 1)
        color = palette.land(0.12 + (last - 0.12) * share)
        level = ground_level + (93 - ground_level) * share**1.5
        paint_hill(canvas, hill_line(canvas, level, 1.2), mix(color, palette.sky(1), 0.15))
        if number == n_layers - 1:
            _paint_forest_objects(canvas, objects, ground_level)
        if conifers:
            _paint_conifers(canvas, color, share, level, size)
        else:
            _paint_trunks(canvas, color, share, level)
            _paint_leaves(canvas, color, share)
        if number < n_layers - 1:
            _paint_mist(canvas, level)
    blades = canvas.contrast_at(canvas.width / 2, 96, 0.5, 6)
    paint_grass(canvas, 92.0, 102, blades, 26)


def _paint_trunks(canvas: Canvas, color: Floats, share: float, level: float) -> None:
    """Paint a row of trunks with bark, thicker and fewer in near layers."""
    rng, palette = canvas.rng, canvas.palette
    count = int(rng.integers(9, 14) * (1 - 0.55 * share))
    slots = (np.arange(count) + rng.uniform(0.1, 0.9, count)) / count * canvas.width
    bark = canvas.noise(40, 9, octaves=2)
    for x in slots:
        half = (0.7 + 2.4 * share) * rng.uniform(0.7, 1.35)
        foot, lean = level + rng.uniform(0, 4) * (0.3 + share), rng.normal(0, 0.045)
        shift = lean * foot
        part = canvas.window(min(x, x + shift) - 2 * half, 0, max(x, x + shift) + 2 * half, foot)
        up = foot - part.y
        middle = x + lean * up
        thick = half * (1 - 0.003 * up) + half * 0.7 * np.exp(-up / 2.5)
        off = part.x - middle
        cover = canvas.edge(abs(off) - thick) * canvas.edge(part.y - foot)
        canvas.paint(part, cover, color, "tree")
        shade = np.clip(off / thick * 0.5 + 0.15, 0, 0.5) * cover
        canvas.stipple(part, shade, palette.tint(color, -0.5))
        if share > 0.2:
            marks = clip01((bark[part.rows, part.columns] - 0.95) * 2.5) * cover
            canvas.paint(part, marks * np.float32(0.85), palette.contrast(color, 0.65), MARK)
        if share < 0.95:
            _paint_branches(canvas, x, lean, foot, half, color)


def _paint_branches(
    canvas: Canvas, x: float, lean: float, foot: float, half: float, color: Floats
) -> None:
    rng = canvas.rng
    for _ in range(int(rng.integers(1, 4))):
        up = rng.uniform(28, 68)
        side, length = rng.choice([-1, 1]), rng.uniform(5, 12)
        start = (x + lean * up, foot - up)
        end = (start[0] + side * length, start[1] - length * rng.uniform(0.4, 0.9))
        canvas.line(start, end, 0.9 * half, color, "tree", end_width=0.2)


def _paint_leaves(canvas: Canvas, color: Floats, share: float) -> None:
    """Paint leaves at the upper edge."""
    rng, palette = canvas.rng, canvas.palette
    reach = rng.uniform(22, 38) * (1 - 0.4 * share)
    part = canvas.window(0, 0, canvas.width, 2 * reach)
    edge = canvas.noise(3, 5, octaves=3)[part.rows]
    leaves = canvas.noise(30 - 10 * share, octaves=2, gain=0.8)[part.rows]
    bias = (reach - part.y) / reach * 1.6 + 0.6 * edge
    cover = clip01((bias + leaves - 0.2) * (3.5 - share))
    canvas.paint(part, cover, mix(color, palette.glow, 0.1), "tree")
    spots = canvas.noise(44 - 14 * share, octaves=1)[part.rows]
    lights = clip01((0.35 * bias + spots - 1.0) * 3) * cover
    canvas.paint(part, lights * np.float32(0.6), palette.contrast(color, 0.4), MARK)
    dark = clip01((0.35 * bias - spots - 1.2) * 3) * cover
    canvas.paint(part, dark * np.float32(0.5), palette.tint(color, -0.4), MARK)


def _paint_conifers(canvas: Canvas, color: Floats, share: float, level: float, size: float) -> None:
    rng = canvas.rng
    count = int(rng.integers(11, 16) * (1 - 0.6 * share) / size)
    slots = (np.arange(count) + rng.uniform(0.1, 0.9, count)) / count * canvas.width
    for x in slots:
        height = size * (rng.uniform(34, 52) + 26 * share)
        paint_pine(canvas, x, level + rng.uniform(0, 5) * (0.3 + share), height, color)


def _paint_mist(canvas: Canvas, level: float) -> None:
    """Paint mist around the feet of a layer of trees."""
    part = canvas.window(0, level - 26, canvas.width, level + 8)
    density = clip01(1 - abs(part.y - level) / 26) * np.float32(0.28)
    fog = canvas.palette.sky(0.85)
    canvas.paint(part, density * np.ones_like(part.x), fog, MARK)


def _paint_forest_objects(canvas: Canvas, objects: Set[str], level: float) -> None:
    rng, palette = canvas.rng, canvas.palette
    ground = canvas.color_at(canvas.width / 2, 96, 5)
    if "snow" in objects:
        part = canvas.window(0, level, canvas.width, 100)
        drifts = clip01((part.y - level) / 8 + 0.7 * canvas.noise(6, 3)[part.rows])
        canvas.paint(part, drifts * np.float32(0.92), palette.paper, "snow")
        ground = palette.paper
    if "road" in objects:
        _paint_forest_path(canvas, level, palette.contrast(ground, 0.42))
    if "house" in objects:
        x = rng.uniform(0.2, 0.8) * canvas.width
        paint_cottage(canvas, x, level + 8, rng.uniform(14, 19), canvas.color_at(x, level))
    if "rock" in objects:
        for x in rng.uniform(0.05, 0.95, int(rng.integers(2, 4))) * canvas.width:
            paint_rock(
                canvas, x, rng.uniform(86, 96), rng.uniform(4, 7), palette.contrast(ground, 0.55)
            )
    if "fence" in objects:
        color = palette.contrast(ground, 0.75)
        paint_fence(canvas, (-2, 96), (canvas.width * 0.75, level + 10), (11, 6), color, 8)
    if "person" in objects:
        x = rng.uniform(0.35, 0.65) * canvas.width
        paint_person(
            canvas, x, rng.uniform(86, 92), rng.uniform(11, 14), palette.contrast(ground, 0.88)
        )


def _paint_forest_path(canvas: Canvas, level: float, color: Floats) -> None:
    """Paint a winding path from the foreground into the forest."""
    rng = canvas.rng
    part = canvas.window(0, level + 1, canvas.width, 100)
    near = np.maximum(part.y - level, 0) / (100 - level)
    bend = rng.uniform(6, 15) * rng.choice([-1, 1])
    middle = canvas.width / 2 + bend * np.sin(np.pi * 1.6 * near) + rng.uniform(-8, 8) * (1 - near)
    half = 1.2 + rng.uniform(11, 17) * near**1.6
    far = abs(part.x - middle) - half + 0.5 * canvas.rough[part.rows]
    canvas.paint(part, canvas.edge(far), color, "road")
    pebbles = clip01(0.14 + 0.1 * canvas.rough[part.rows]) * canvas.edge(far)
    canvas.stipple(part, pebbles, canvas.palette.contrast(color, 0.4))


def paint_village(canvas: Canvas, objects: Set[str]) -> None:
    """Paint a village with rows of gabled houses up a slope."""
    rng, palette = canvas.rng, canvas.palette
    horizon, size = rng.uniform(30, 58), rng.uniform(0.6, 1.0)
    paint_sky(canvas, objects, horizon)
    if "mountain" in objects:
        ridge = ridge_line(canvas, horizon + 2, rng.uniform(18, 28), int(rng.integers(2, 5)))
        paint_range(canvas, ridge, 0.08, 1, snow=8 if "snow" in objects else 0)
    hill = hill_line(canvas, horizon + 3, 2)
    paint_hill(canvas, hill, palette.land(0.3))
    if "windmill" in objects:
        x = canvas.width * rng.uniform(0.15, 0.85)
        color = canvas.contrast_at(x, horizon - 8, 0.75)
        paint_windmill(canvas, x, horizon + 4, min(rng.uniform(24, 30), horizon), color)
    n_rows = int(rng.integers(1, 4))
    street = rng.uniform(70, 92)
    tone = rng.uniform(0.35, 0.7)
    for number in range(n_rows):
        share = (number + 1) / n_rows
        level = horizon + 9 + (street - 3 - horizon - 9) * share**1.1
        paint_hill(canvas, hill_line(canvas, level - 3, 0.8), palette.land(0.3 + 0.35 * share))
        _paint_house_row(canvas, objects, level, size * (9 + 12 * share), tone, share)
    _paint_village_foreground(canvas, objects, street)


def _paint_house_row(
    canvas: Canvas, objects: Set[str], level: float, size: float, tone: float, share: float
) -> None:
    """Paint one row of houses, with trees in the gaps."""
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
        tiles = palette.tint(mix(roofs, palette.contrast(walls, 0.6), rng.uniform(0.1, 0.6)), -0.1)
        tiles = mix(tiles, palette.sky(1), 0.2 * (1 - share))
        wall, roof = size * rng.uniform(0.55, 0.95), size * rng.uniform(0.6, 0.95)
        house = House(x, foot, front, side, wall, roof)
        if number == steeple:
            _paint_steeple(canvas, x + front / 2, foot, size, walls, tiles)
        paint_house(canvas, house, walls, tiles, snow="snow" in objects, lit=lit)
        x = house.right + rng.uniform(-0.1, 0.15) * size
        if rng.random() < 0.35:
            gap = rng.uniform(0.25, 0.6) * size
            if "tree" in objects:
                paint_tree(canvas, x + gap / 2, foot + 1, size * rng.uniform(1.0, 1.5), leaf, kind)
            x += gap
        number += 1


def _paint_steeple(
    canvas: Canvas, x: float, foot: float, size: float, walls: Floats, tiles: Floats
) -> None:
    """Paint a church tower behind a house."""
    half, top = 0.3 * size, foot - 2.1 * size
    canvas.box(x - half, top, x + half, foot, walls, "house")
    canvas.box(x + 0.2 * half, top, x + half, foot, canvas.palette.tint(walls, -0.3), MARK)
    canvas.polygon(
        [(x - 1.2 * half, top), (x + 1.2 * half, top), (x, top - 1.1 * size)], tiles, "house"
    )
    canvas.disc(x, top + 0.4 * size, 0.13 * size, canvas.palette.contrast(walls, 0.7), MARK)


def _paint_village_foreground(canvas: Canvas, objects: Set[str], level: float) -> None:
    rng, palette = canvas.rng, canvas.palette
    ground = palette.paper if "snow" in objects else palette.land(rng.uniform(0.6, 1))
    line = hill_line(canvas, level + 2, 0.8)
    paint_hill(canvas, line, ground, "snow" if "snow" in objects else "")
    paint_grass(canvas, level + 4, 102, palette.contrast(ground, 0.45), 20)
    if "road" in objects:
        color = palette.contrast(ground, 0.5)
        part = canvas.window(0, level + 3, canvas.width, 100)
        top = level + 5 + 1.2 * np.sin(part.x / rng.uniform(10, 20))
        cover = canvas.edge(top - part.y) * canvas.edge(part.y - top - 7)
        canvas.paint(part, cover, color, "road")
        stones = clip01(abs(canvas.noise(30, 26, octaves=1)[part.rows]) * 3 - 0.5)
        canvas.paint(part, (1 - stones) * cover * np.float32(0.7), palette.tint(color, -0.45), MARK)
    if "lamp" in objects:
        for x in canvas.width * np.array([0.12, 0.52, 0.9]) + rng.uniform(-5, 5):
            color = canvas.contrast_at(x, level - 8, 0.88, 5)
            paint_lamp(canvas, x, level + 5, 21, color, 1)
    if "person" in objects:
        x = rng.uniform(0.2, 0.8) * canvas.width
        y = level + rng.uniform(6, 9)
        paint_person(canvas, x, y, 11, canvas.contrast_at(x, y - 5, 0.88, 3))
    if "fence" in objects:
        color = palette.contrast(ground, 0.75)
        y = min(level + 14, 98)
        paint_fence(canvas, (-2, y + 1), (canvas.width + 2, y), (9, 9), color, 13)
