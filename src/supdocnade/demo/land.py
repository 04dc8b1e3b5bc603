"""Forests: trunks one behind the other in fading light."""

from collections.abc import Set

import numpy as np

from supdocnade.demo.canvas import MARK, Canvas, Window, pulse, unit
from supdocnade.demo.houses import cottage
from supdocnade.demo.landscape import hill_line, paint_hill, paint_range, paint_sky, ridge_line
from supdocnade.demo.objects import fence, person, pine, rock, tree, tufts, windmill
from supdocnade.demo.palettes import Floats, mix

# Fields: furrows and rows of crops that run to a vanishing point.

_FOCAL = 90.0
"""Units from the eye to the sheet."""


def paint_field(canvas: Canvas, wanted: Set[str]) -> None:
    """Paint fields."""
    rng, palette = canvas.rng, canvas.palette
    horizon = rng.uniform(26, 64)
    paint_sky(canvas, wanted, horizon)
    if "mountain" in wanted:
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
        _parcel(canvas, part, horizon, eye, border, 1 - 2 * number, palette.land(tone))
    if "road" in wanted:
        _road(canvas, part, horizon, border)
    _along_the_horizon(canvas, wanted, horizon)
    _in_front(canvas, wanted, horizon)


def _parcel(
    canvas: Canvas,
    part: Window,
    horizon: float,
    eye: float,
    border: float,
    side: int,
    color: Floats,
) -> None:
    """Paint the ground at one side of a border line, in rows of one direction."""
    rng, palette = canvas.rng, canvas.palette
    near = np.maximum(part.y - horizon, 0.3)
    depth = eye * _FOCAL / near
    across = (part.x - border) * depth / _FOCAL
    # Which side of the border, itself a line through the vanishing point, a pixel lies on.
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
    fade = unit(1.25 - width) * cover
    dark, light = palette.tint(color, -0.42), palette.tint(color, 0.42)
    kind = rng.choice(["furrows", "crops", "straw"])
    if kind == "furrows":
        canvas.paint(part, pulse(rows, 0.42, width) * fade * np.float32(0.9), dark, MARK)
        canvas.paint(part, pulse(rows + 0.45, 0.16, width) * fade, light, MARK)
    elif kind == "crops":
        along = (depth * np.cos(turn) - across * np.sin(turn)) / (0.8 * spacing)
        plants = _dots(rows, along, width)
        canvas.paint(part, pulse(rows, 0.3, width) * fade * np.float32(0.4), dark, MARK)
        canvas.paint(part, plants * fade, dark if rng.random() < 0.5 else light, MARK)
    else:
        straws = 2 * rows
        along = (depth * np.cos(turn) - across * np.sin(turn)) / (1.6 * spacing)
        along = along + np.mod(np.floor(straws) * 0.618, 1) + wobble * 3
        stride = depth / near / canvas.scale / (1.6 * spacing)
        straw = pulse(straws, 0.55, 2 * width) * pulse(along, 0.7, stride)
        canvas.paint(part, straw * fade * np.float32(0.85), dark, MARK)
        ears = pulse(straws + 0.3, 0.25, 2 * width) * pulse(along + 0.4, 0.4, stride)
        canvas.paint(part, ears * fade, light, MARK)
    canvas.stipple(part, 0.13 * cover, dark)


def _dots(rows: Floats, along: Floats, width: Floats) -> Floats:
    """Return round plants, one a unit of both directions."""
    shift = np.floor(rows)
    far = np.hypot(np.mod(rows, 1) - 0.5, np.mod(along + 0.37 * shift, 1) - 0.5)
    cover: Floats = unit(0.5 - (far - 0.36) / np.maximum(width, 0.02))
    return cover


def _road(canvas: Canvas, part: Window, horizon: float, middle: float) -> None:
    """Paint a dirt road along the border of the parcels."""
    rng, palette = canvas.rng, canvas.palette
    near = part.y - horizon
    ground = canvas.color_at(middle, 90, 8)
    color = palette.facing(ground, 0.5)
    half = rng.uniform(0.14, 0.24) * near + 0.3
    far = abs(part.x - middle) - half
    cover = canvas.edge(far) * canvas.edge(horizon + 0.5 - part.y)
    canvas.paint(part, cover, color, "road")
    ruts = canvas.edge(abs(abs(part.x - middle) - 0.45 * half) - 0.12 * half) * cover
    canvas.paint(part, ruts * np.float32(0.5), palette.tint(color, -0.4), MARK)
    grass = canvas.edge(abs(part.x - middle) - 0.13 * half) * cover
    canvas.stipple(part, grass * np.float32(0.7), ground)


def _along_the_horizon(canvas: Canvas, wanted: Set[str], horizon: float) -> None:
    """Put a farm, a mill and trees on the far edge of the fields."""
    rng, palette = canvas.rng, canvas.palette
    y = horizon + 3
    places = iter(rng.permutation([0.14, 0.38, 0.62, 0.86]) * canvas.width)
    grove = float(next(places))
    if "windmill" in wanted:
        x = float(next(places))
        color = palette.facing(canvas.color_at(x, y - 9), 0.75)
        windmill(canvas, x, y + 2, min(rng.uniform(20, 30), horizon), color)
    if "house" in wanted:
        x = float(next(places))
        cottage(canvas, x, y + 2, rng.uniform(14, 21), canvas.color_at(x, y - 4))
    if "tree" in wanted:
        kind = str(rng.choice(["round", "poplar", "round"]))
        color = palette.land(rng.uniform(0.55, 0.9))
        if abs(color - canvas.color_at(grove, y - 8)).max() < 0.15:
            color = palette.facing(color, 0.4)
        for shift in np.sort(rng.normal(0, 11, int(rng.integers(3, 7)))):
            tree(canvas, grove + shift, y + 1, rng.uniform(9, 19), color, kind)


def _in_front(canvas: Canvas, wanted: Set[str], horizon: float) -> None:
    rng, palette = canvas.rng, canvas.palette
    if "person" in wanted:
        x, y = rng.uniform(0.25, 0.75) * canvas.width, rng.uniform(76, 86)
        person(canvas, x, y, 0.27 * (y - horizon), palette.facing(canvas.color_at(x, y - 4), 0.88))
    if "fence" in wanted:
        color = palette.facing(canvas.color_at(canvas.width / 3, 90, 8), 0.8)
        end = (canvas.width * rng.uniform(0.55, 0.95), horizon + 8)
        if rng.random() < 0.5:
            end = (canvas.width * 1.02, rng.uniform(88, 96))
        size = rng.uniform(12, 16)
        near = size * (end[1] - horizon) / (97 - horizon)
        fence(canvas, (-2, 98), end, (size, near), color, 11)


def paint_forest(canvas: Canvas, wanted: Set[str]) -> None:
    """Paint a forest of trunks under leaves, or of conifers."""
    rng, palette = canvas.rng, canvas.palette
    ground_level = rng.uniform(52, 80)
    size = rng.uniform(0.55, 1.0)
    paint_sky(canvas, wanted, ground_level)
    if "mountain" in wanted:
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
            _on_the_ground(canvas, wanted, ground_level)
        if conifers:
            _conifers(canvas, color, share, level, size)
        else:
            _trunks(canvas, color, share, level)
            _leaves(canvas, color, share)
        if number < n_layers - 1:
            _mist(canvas, level)
    blades = palette.facing(canvas.color_at(canvas.width / 2, 96, 6), 0.5)
    tufts(canvas, 92.0, 102, blades, 26)


def _trunks(canvas: Canvas, color: Floats, share: float, level: float) -> None:
    """Paint a row of trunks with marks of bark, nearer ones thicker and fewer."""
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
            marks = unit((bark[part.rows, part.columns] - 0.95) * 2.5) * cover
            canvas.paint(part, marks * np.float32(0.85), palette.facing(color, 0.65), MARK)
        if share < 0.95:
            _branches(canvas, x, lean, foot, half, color)


def _branches(
    canvas: Canvas, x: float, lean: float, foot: float, half: float, color: Floats
) -> None:
    rng = canvas.rng
    for _ in range(int(rng.integers(1, 4))):
        up = rng.uniform(28, 68)
        side, length = rng.choice([-1, 1]), rng.uniform(5, 12)
        start = (x + lean * up, foot - up)
        end = (start[0] + side * length, start[1] - length * rng.uniform(0.4, 0.9))
        canvas.line(start, end, 0.9 * half, color, "tree", end_width=0.2)


def _leaves(canvas: Canvas, color: Floats, share: float) -> None:
    """Hang leaves from the upper edge."""
    rng, palette = canvas.rng, canvas.palette
    reach = rng.uniform(22, 38) * (1 - 0.4 * share)
    part = canvas.window(0, 0, canvas.width, 2 * reach)
    edge = canvas.noise(3, 5, octaves=3)[part.rows]
    leaves = canvas.noise(30 - 10 * share, octaves=2, gain=0.8)[part.rows]
    bias = (reach - part.y) / reach * 1.6 + 0.6 * edge
    cover = unit((bias + leaves - 0.2) * (3.5 - share))
    canvas.paint(part, cover, mix(color, palette.glow, 0.1), "tree")
    spots = canvas.noise(44 - 14 * share, octaves=1)[part.rows]
    lights = unit((0.35 * bias + spots - 1.0) * 3) * cover
    canvas.paint(part, lights * np.float32(0.6), palette.facing(color, 0.4), MARK)
    dark = unit((0.35 * bias - spots - 1.2) * 3) * cover
    canvas.paint(part, dark * np.float32(0.5), palette.tint(color, -0.4), MARK)


def _conifers(canvas: Canvas, color: Floats, share: float, level: float, size: float) -> None:
    rng = canvas.rng
    count = int(rng.integers(11, 16) * (1 - 0.6 * share) / size)
    slots = (np.arange(count) + rng.uniform(0.1, 0.9, count)) / count * canvas.width
    for x in slots:
        height = size * (rng.uniform(34, 52) + 26 * share)
        pine(canvas, x, level + rng.uniform(0, 5) * (0.3 + share), height, color)


def _mist(canvas: Canvas, level: float) -> None:
    """Let the light between the trees fade their feet."""
    part = canvas.window(0, level - 26, canvas.width, level + 8)
    density = unit(1 - abs(part.y - level) / 26) * np.float32(0.28)
    fog = canvas.palette.sky(0.85)
    canvas.paint(part, density * np.ones_like(part.x), fog, MARK)


def _on_the_ground(canvas: Canvas, wanted: Set[str], level: float) -> None:
    rng, palette = canvas.rng, canvas.palette
    ground = canvas.color_at(canvas.width / 2, 96, 5)
    if "snow" in wanted:
        part = canvas.window(0, level, canvas.width, 100)
        drifts = unit((part.y - level) / 8 + 0.7 * canvas.noise(6, 3)[part.rows])
        canvas.paint(part, drifts * np.float32(0.92), palette.paper, "snow")
        ground = palette.paper
    if "road" in wanted:
        _path(canvas, level, palette.facing(ground, 0.42))
    if "house" in wanted:
        x = rng.uniform(0.2, 0.8) * canvas.width
        cottage(canvas, x, level + 8, rng.uniform(14, 19), canvas.color_at(x, level))
    if "rock" in wanted:
        for x in rng.uniform(0.05, 0.95, int(rng.integers(2, 4))) * canvas.width:
            rock(canvas, x, rng.uniform(86, 96), rng.uniform(4, 7), palette.facing(ground, 0.55))
    if "fence" in wanted:
        color = palette.facing(ground, 0.75)
        fence(canvas, (-2, 96), (canvas.width * 0.75, level + 10), (11, 6), color, 8)
    if "person" in wanted:
        x = rng.uniform(0.35, 0.65) * canvas.width
        person(canvas, x, rng.uniform(86, 92), rng.uniform(11, 14), palette.facing(ground, 0.88))


def _path(canvas: Canvas, level: float, color: Floats) -> None:
    """Paint a path that winds from the foreground into the trees."""
    rng = canvas.rng
    part = canvas.window(0, level + 1, canvas.width, 100)
    near = np.maximum(part.y - level, 0) / (100 - level)
    bend = rng.uniform(6, 15) * rng.choice([-1, 1])
    middle = canvas.width / 2 + bend * np.sin(np.pi * 1.6 * near) + rng.uniform(-8, 8) * (1 - near)
    half = 1.2 + rng.uniform(11, 17) * near**1.6
    far = abs(part.x - middle) - half + 0.5 * canvas.rough[part.rows]
    canvas.paint(part, canvas.edge(far), color, "road")
    pebbles = unit(0.14 + 0.1 * canvas.rough[part.rows]) * canvas.edge(far)
    canvas.stipple(part, pebbles, canvas.palette.facing(color, 0.4))
