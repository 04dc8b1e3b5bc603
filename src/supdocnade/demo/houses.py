"""Houses with gables and tiled roofs."""

from dataclasses import dataclass

import numpy as np

from supdocnade.demo.canvas import MARK, Canvas, Point, pulse, unit
from supdocnade.demo.palettes import Floats, luminance, mix


@dataclass(frozen=True, kw_only=True)
class House:
    """Where a house stands and how large it is: a gable front, and a side to its right."""

    x: float
    """Of the left corner of the front."""
    foot: float
    front: float
    """Width of the gable front."""
    side: float
    """Width of the side with the slope of the roof."""
    wall: float
    """Height of the eaves."""
    roof: float
    """Height of the roof above them."""

    @property
    def eaves(self) -> float:
        """The level, y, of the eaves."""
        return self.foot - self.wall

    @property
    def apex(self) -> Point:
        """The tip of the gable."""
        return self.x + self.front / 2, self.eaves - self.roof

    @property
    def right(self) -> float:
        """The right end."""
        return self.x + self.front + self.side


def paint_house(
    canvas: Canvas,
    house: House,
    walls: Floats,
    tiles: Floats,
    *,
    snow: bool = False,
    lit: float = 0,
) -> None:
    """Paint a house; `lit` is the probability of a light in a window."""
    rng, palette = canvas.rng, canvas.palette
    x, corner, foot, eaves = house.x, house.x + house.front, house.foot, house.eaves
    apex = house.apex
    if rng.random() < 0.7:
        _chimney(canvas, house, tiles)
    shaded = palette.tint(walls, -0.3)
    canvas.box(corner, eaves, house.right, foot, shaded, "house")
    canvas.polygon([(x, foot), (x, eaves), apex, (corner, eaves), (corner, foot)], walls, "house")
    part = canvas.window(x, apex[1], corner, foot)
    inside = canvas.owner[part.rows, part.columns] > 0
    low = np.clip(0.25 * (part.y - eaves) / house.wall, 0, 0.25) * inside
    canvas.stipple(part, (low + 0 * part.x).astype(np.float32), palette.tint(walls, -0.4))
    _roof(canvas, house, tiles, snow=snow)
    if rng.random() < 0.4:
        _timber(canvas, house, palette.facing(walls, 0.6))
    _openings(canvas, house, walls, lit)


def _roof(canvas: Canvas, house: House, tiles: Floats, *, snow: bool) -> None:
    palette = canvas.palette
    over, drop = 0.07 * house.front, 0.08 * house.roof
    corner, apex = house.x + house.front, house.apex
    ridge_end = house.right - 0.12 * house.side
    slope: list[Point] = [
        apex,
        (ridge_end, apex[1]),
        (house.right + over, house.eaves + drop),
        (corner + over * 0.6, house.eaves + drop),
    ]
    part, cover = canvas.polygon_cover(slope)
    canvas.paint(part, cover, tiles, "house")
    rows = house.roof / max(house.roof / 7, 1.5)
    course = (part.y - apex[1]) / house.roof * rows
    lean = (part.x - (part.y - apex[1]) * (0.5 * house.front / house.roof)) / 1.7
    lean = lean + 0.5 * np.mod(np.floor(course), 2)
    step = rows / house.roof / canvas.scale
    lines = pulse(course + 0 * part.x, 0.3, step)
    joints = pulse(lean, 0.22, 1.3 / 1.7 / canvas.scale)
    dark = palette.facing(tiles, 0.45)
    canvas.paint(part, cover * np.maximum(lines, joints * np.float32(0.7)), dark, MARK)
    if snow:
        depth = (part.y - apex[1]) / house.roof + 0.12 * canvas.rough[part.rows, part.columns]
        canvas.paint(part, cover * unit((0.72 - depth) * 6), palette.paper, "snow")
    edge = palette.paper if snow else palette.facing(tiles, 0.35)
    thick = max(0.07 * house.front, 0.8)
    left = (house.x - over, house.eaves + drop)
    canvas.line(left, apex, thick, edge, "snow" if snow else "house")
    canvas.line(
        apex, (corner + over * 0.6, house.eaves + drop), thick, edge, "snow" if snow else "house"
    )


def _chimney(canvas: Canvas, house: House, tiles: Floats) -> None:
    """Paint a chimney behind the ridge, with smoke."""
    rng, palette = canvas.rng, canvas.palette
    x = house.apex[0] + house.side * rng.uniform(0.35, 0.6) if house.side else house.apex[0]
    wide, top = 0.11 * house.front + 0.5, house.apex[1] - 0.32 * house.roof
    if rng.random() < 0.45:
        color = mix(canvas.color_at(x, top - 6, 2), palette.paper, 0.45)
        at = (x, top)
        for number in range(1, 6):
            after = (at[0] + rng.uniform(-0.4, 1.3), at[1] - rng.uniform(1.4, 2.4))
            canvas.line(at, after, 0.9 + 0.35 * number, color, MARK)
            at = after
    canvas.box(x - wide, top, x + wide, house.eaves, palette.tint(tiles, -0.35), "house")
    canvas.box(x - 1.25 * wide, top, x + 1.25 * wide, top + 0.7, palette.tint(tiles, 0.3), "house")


def _timber(canvas: Canvas, house: House, color: Floats) -> None:
    """Draw the beams of a timber frame on the front."""
    x, corner, thick = house.x, house.x + house.front, max(0.045 * house.front, 0.45)
    canvas.line((x, house.eaves), (corner, house.eaves), thick, color, MARK)
    canvas.line((house.apex[0], house.eaves), house.apex, thick, color, MARK)
    for share in (0.02, 0.98):
        canvas.line(
            (x + share * house.front, house.foot),
            (x + share * house.front, house.eaves),
            thick,
            color,
            MARK,
        )
    for side in (0.28, 0.72):
        low = (house.apex[0], house.eaves - 0.1 * house.roof)
        canvas.line(
            (x + side * house.front, house.eaves - 0.35 * house.roof), low, thick, color, MARK
        )


def _openings(canvas: Canvas, house: House, walls: Floats, lit: float) -> None:
    """Paint the door and the windows of both sides."""
    rng, palette = canvas.rng, canvas.palette
    size = min(0.2 * house.front, 0.3 * house.wall)
    floors = 2 if house.wall > 0.95 * house.front else 1
    frame = palette.facing(walls, 0.65)
    door = int(rng.integers(3)) if rng.random() < 0.8 else -1
    for floor in range(floors):
        middle = house.foot - house.wall * (floor + 0.55) / floors
        for number, share in enumerate((0.22, 0.5, 0.78)):
            x = house.x + share * house.front
            if floor == 0 and number == door:
                canvas.box(
                    x - 0.55 * size,
                    house.foot - 0.62 * house.wall / floors,
                    x + 0.55 * size,
                    house.foot,
                    palette.facing(walls, 0.8),
                    MARK,
                )
            elif number != 1 or floors == 2:
                _window(canvas, x, middle, size, frame, lit)
        count = int(house.side // (2.6 * size)) if house.side else 0
        for number in range(count):
            x = house.x + house.front + house.side * (number + 0.5) / count
            _window(canvas, x, middle, size, frame, lit)
    if house.roof > 2.6 * size:
        _window(canvas, house.apex[0], house.eaves - 0.36 * house.roof, 0.8 * size, frame, lit)


def _window(canvas: Canvas, x: float, y: float, size: float, frame: Floats, lit: float) -> None:
    palette = canvas.palette
    across, down = 0.42 * size, 0.55 * size
    canvas.box(x - across - 0.3, y - down - 0.3, x + across + 0.3, y + down + 0.4, frame, "window")
    dark = palette.ink if luminance(frame) > 0.4 else palette.tint(frame, 0.25)
    pane = palette.glow if canvas.rng.random() < lit else dark
    canvas.box(x - across, y - down, x + across, y + down, pane, "window")
    if size > 2.4:  # In smaller ones the bars would fill the panes.
        canvas.box(x - 0.15, y - down, x + 0.15, y + down, frame, MARK)
        canvas.box(x - across, y - 0.15, x + across, y + 0.15, frame, MARK)


def cottage(canvas: Canvas, x: float, foot: float, size: float, ground: Floats) -> None:
    """Paint one small house, about `size` wide, that stands out from its ground."""
    rng, palette = canvas.rng, canvas.palette
    front = size * rng.uniform(0.42, 0.55)
    house = House(
        x=x - size / 2,
        foot=foot,
        front=front,
        side=size - front,
        wall=front * rng.uniform(0.6, 0.85),
        roof=front * rng.uniform(0.6, 0.9),
    )
    walls = palette.facing(ground, rng.uniform(0.7, 0.9))
    paint_house(canvas, house, walls, palette.facing(walls, 0.6), lit=0.8 if palette.night else 0.1)
