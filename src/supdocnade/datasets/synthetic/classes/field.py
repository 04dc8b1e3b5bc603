"""Fields: furrows and rows of crops that run to a vanishing point."""

from collections.abc import Set

import numpy as np

from supdocnade.datasets.synthetic.canvas import MARK, Canvas, Window, pulse, unit
from supdocnade.datasets.synthetic.houses import cottage
from supdocnade.datasets.synthetic.noise import Floats
from supdocnade.datasets.synthetic.plants import tree
from supdocnade.datasets.synthetic.sky import paint_sky
from supdocnade.datasets.synthetic.terrain import hill_line, paint_hill, paint_range, ridge_line
from supdocnade.datasets.synthetic.things import fence, person, windmill

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
