"""Painters of single objects: boulders, boats, vehicles, people, plants and houses.

An object stands at `x` with its lowest point at the level `foot`.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from tools.draw_scenes.canvas import MARK, Canvas, Point, clip01, points_around, stripe_cover
from tools.draw_scenes.palettes import Floats, luminance, mix


def paint_rock(canvas: Canvas, x: float, foot: float, size: float, color: Floats) -> None:
    """Paint a boulder with a lit face."""
    rng = canvas.rng
    turns = np.linspace(np.pi, 0, 6) + rng.uniform(-0.2, 0.2, 6)
    radii = size * rng.uniform(0.75, 1.1, 6)
    top = [
        (x + 1.15 * r * np.cos(t), foot - 0.85 * r * abs(np.sin(t)))
        for r, t in zip(radii, turns, strict=True)
    ]
    points = [(x - 1.15 * size, foot), *top[1:-1], (x + 1.15 * size, foot)]
    # The outline need not be convex, so it is painted as a fan of triangles.
    for first, second in itertools.pairwise(points[1:]):
        canvas.polygon([points[0], first, second], color, "rock")
    ridge = (x + rng.uniform(-0.2, 0.3) * size, foot - 0.35 * size)
    palette = canvas.palette
    canvas.polygon([points[1], points[2], ridge], palette.tint(color, 0.3), MARK)
    canvas.polygon([points[0], points[1], ridge], palette.tint(color, 0.16), MARK)
    canvas.polygon([ridge, points[4], points[5]], palette.tint(color, -0.3), MARK)


def paint_boat(
    canvas: Canvas, x: float, waterline: float, size: float, hull: Floats, sail: Floats
) -> None:
    """Paint a sailing boat and its reflection."""
    rng = canvas.rng
    mast = x - 0.05 * size
    deck = waterline - 0.22 * size
    for number in range(1, 4):
        half = size * (0.5 - 0.12 * number) * rng.uniform(0.7, 1)
        y = waterline + 0.12 * size * number
        canvas.line((x - half, y), (x + half, y), 0.06 * size, sail, MARK)
    hull_points = points_around(
        x, waterline, size, (-0.62, -0.22), (0.68, -0.22), (0.45, 0), (-0.45, 0)
    )
    canvas.polygon(hull_points, hull, "boat")
    canvas.line((mast, deck), (mast, deck - 1.5 * size), max(0.05 * size, 0.35), hull, "boat")
    left, right, low = mast - 0.06 * size, mast + 0.06 * size, deck - 0.12 * size
    mainsail = [(right, deck - 1.45 * size), (right, low), (x + 0.62 * size, low)]
    canvas.polygon(mainsail, sail, "boat")
    foresail = [(left, deck - 1.2 * size), (left, low), (x - 0.55 * size, low)]
    canvas.polygon(foresail, mix(sail, hull, 0.3), "boat")


def paint_lighthouse(canvas: Canvas, x: float, foot: float, height: float, color: Floats) -> None:
    """Paint a striped lighthouse, at night with its beam."""
    rng, palette = canvas.rng, canvas.palette
    half, top = 0.13 * height, foot - 0.8 * height
    other = palette.contrast(color, 0.8)
    if palette.night:
        side = rng.choice([-1, 1])
        lamp_y = top - 0.08 * height
        part, cover = canvas.polygon_cover(
            [(x, lamp_y), (x + side * 80, lamp_y - 16), (x + side * 80, lamp_y + 4)]
        )
        fade = clip01(1 - abs(part.x - x) / 80) * np.float32(0.45)
        canvas.paint(part, cover * fade, palette.glow, MARK)
    bands = int(rng.integers(4, 7))
    for number in range(bands):
        share, after = number / bands, (number + 1) / bands
        y0, y1 = foot - 0.8 * height * share, foot - 0.8 * height * after
        w0, w1 = half * (1 - 0.4 * share), half * (1 - 0.4 * after)
        band = color if number % 2 == 0 else other
        canvas.polygon([(x - w0, y0), (x + w0, y0), (x + w1, y1), (x - w1, y1)], band, "lighthouse")
    shaded = [(x, foot), (x + half, foot), (x + 0.6 * half, top), (x + 0.15 * half, top)]
    canvas.polygon(shaded, palette.ink, MARK, opacity=0.3)
    dark = palette.tint(color, -0.6)
    canvas.box(x - 0.8 * half, top - 0.03 * height, x + 0.8 * half, top, dark, "lighthouse")
    high, low = top - 0.12 * height, top - 0.03 * height
    canvas.box(x - 0.4 * half, high, x + 0.4 * half, low, palette.glow, "lighthouse")
    cap = [(x - 0.6 * half, high), (x + 0.6 * half, high), (x, high - 0.08 * height)]
    canvas.polygon(cap, dark, "lighthouse")


def paint_lamp(
    canvas: Canvas, x: float, foot: float, height: float, color: Floats, side: int
) -> None:
    """Paint a street lamp with an arm to the left (side -1) or right (1)."""
    palette = canvas.palette
    thick = max(0.035 * height, 0.45)
    top, out = foot - height, x + side * 0.2 * height
    canvas.line((x, foot), (x, top), 1.3 * thick, color, "lamp", end_width=thick)
    canvas.line((x, top), (out, top - 0.04 * height), thick, color, "lamp")
    canvas.box(x - thick, foot - 0.07 * height, x + thick, foot, color, "lamp")
    y = top + 0.01 * height
    canvas.halo(out, y, 0.35 * height, palette.glow, 0.5 if palette.night else 0.12)
    canvas.ellipse(out, y, 0.07 * height, 0.04 * height, palette.glow, "lamp")
    left, right = points_around(out, top, height, (-0.08, -0.03), (0.08, -0.03))
    canvas.line(left, right, thick, color, "lamp")


def paint_car(canvas: Canvas, x: float, foot: float, size: float, color: Floats) -> None:
    """Paint a car seen from behind, `size` wide."""
    palette = canvas.palette
    dark, half = palette.tint(color, -0.75), size / 2
    canvas.ellipse(x, foot, 1.05 * half, 0.07 * size, palette.ink)
    for side in (-1, 1):
        wheel = x + side * 0.36 * size
        canvas.box(wheel - 0.09 * size, foot - 0.2 * size, wheel + 0.09 * size, foot, dark, "car")
    cabin = ((-0.38, -0.4), (-0.29, -0.74), (0.29, -0.74), (0.38, -0.4))
    canvas.polygon(points_around(x, foot, size, *cabin), color, "car")
    glass = ((-0.31, -0.44), (-0.25, -0.69), (0.25, -0.69), (0.31, -0.44))
    canvas.polygon(points_around(x, foot, size, *glass), palette.contrast(color, 0.7), "car")
    corner, y = 0.08 * size, foot - 0.29 * size
    left, right = x - half + 2 * corner, x + half - 2 * corner
    canvas.line((left, y), (right, y), 0.3 * size, color, "car")
    left, right = x - 0.46 * size, x + 0.46 * size
    canvas.box(left, foot - 0.3 * size, right, foot - 0.13 * size, color, "car")
    for side in (-1, 1):
        light = x + side * 0.37 * size
        canvas.ellipse(light, foot - 0.31 * size, 0.07 * size, 0.045 * size, palette.glow, "car")
    plate = palette.contrast(color, 0.6)
    canvas.box(x - 0.1 * size, foot - 0.24 * size, x + 0.1 * size, foot - 0.17 * size, plate, MARK)


def paint_person(canvas: Canvas, x: float, foot: float, height: float, color: Floats) -> None:
    """Paint a walking person with a shadow."""
    stride = height * canvas.rng.uniform(0.07, 0.14)
    hip, shoulder = foot - 0.45 * height, foot - 0.78 * height
    shadow = canvas.palette.tint(canvas.color_at(x, foot, 1.5), -0.35)
    canvas.ellipse(x + 0.15 * height, foot, 0.28 * height, 0.045 * height, shadow, MARK)
    for side in (-1, 1):
        canvas.line((x, hip), (x + side * stride, foot), 0.11 * height, color, "person")
        hand = (x + side * 1.5 * stride, hip + 0.03 * height)
        canvas.line((x, shoulder), hand, 0.08 * height, color, "person")
    canvas.line((x, shoulder + 0.03 * height), (x, hip), 0.2 * height, color, "person")
    canvas.disc(x, foot - 0.92 * height, 0.09 * height, color, "person")


def paint_fence(
    canvas: Canvas, start: Point, end: Point, heights: tuple[float, float], color: Floats, n: int
) -> None:
    """Paint a fence of two rails and n + 1 posts, in perspective if its end heights differ."""
    (x0, y0), (x1, y1) = start, end
    h0, h1 = heights
    for level in (0.45, 0.85):
        first, last = (x0, y0 - level * h0), (x1, y1 - level * h1)
        canvas.line(first, last, 0.13 * h0, color, "fence", end_width=0.13 * h1)
    # The posts are equidistant on the ground, so not in the picture.
    for number in range(n + 1):
        share = number / n
        depth = share * h0 / (share * h0 + (1 - share) * h1) if h0 != h1 else share
        x, y, h = x0 + depth * (x1 - x0), y0 + depth * (y1 - y0), h0 + depth * (h1 - h0)
        canvas.line((x, y), (x, y - h), 0.18 * h, color, "fence")


def paint_windmill(canvas: Canvas, x: float, foot: float, height: float, color: Floats) -> None:
    """Paint a windmill with four sails."""
    rng, palette = canvas.rng, canvas.palette
    hub = (x, foot - 0.66 * height)
    tower = points_around(x, foot, height, (-0.19, 0), (0.19, 0), (0.11, -0.66), (-0.11, -0.66))
    canvas.polygon(tower, color, "windmill")
    shaded = [(x, foot), tower[1], tower[2], (x + 0.02, hub[1])]
    canvas.polygon(shaded, palette.ink, MARK, opacity=0.3)
    cap = palette.tint(color, -0.45)
    canvas.ellipse(x, hub[1], 0.12 * height, 0.1 * height, cap, "windmill")
    canvas.box(x - 0.03 * height, foot - 0.13 * height, x + 0.03 * height, foot, cap, MARK)
    half = 0.025 * height
    canvas.box(x - half, foot - 0.4 * height, x + half, foot - 0.33 * height, cap, MARK)
    sail = canvas.contrast_at(x, hub[1] - 0.3 * height, 0.75, 2)
    turn = rng.uniform(0, np.pi / 2)
    for quarter in range(4):
        angle = turn + quarter * np.pi / 2
        along, across = (np.cos(angle), np.sin(angle)), (-np.sin(angle), np.cos(angle))

        def at(out: float, off: float, along: Point = along, across: Point = across) -> Point:
            return (
                hub[0] + height * (out * along[0] + off * across[0]),
                hub[1] + height * (out * along[1] + off * across[1]),
            )

        canvas.line(hub, at(0.46, 0), max(0.02 * height, 0.35), sail, "windmill")
        corners = [at(0.12, 0), at(0.46, 0), at(0.46, 0.085), at(0.12, 0.085)]
        canvas.polygon(corners, sail, "windmill")
        for rung in (0.2, 0.29, 0.38):
            canvas.line(at(rung, 0), at(rung, 0.085), 0.012 * height, cap, MARK)


def paint_pine(canvas: Canvas, x: float, foot: float, height: float, color: Floats) -> None:
    """Paint a conifer with tiers of branches."""
    rng = canvas.rng
    half = height * rng.uniform(0.17, 0.27)
    part = canvas.window(x - half, foot - height, x + half, foot)
    share = np.maximum((part.y - foot + height) / height, 0)
    tiers = rng.integers(4, 8)
    teeth = np.mod(share * tiers, 1)
    reach = half * share**0.9 * (0.55 + 0.45 * teeth)
    droop = 0.12 * abs(part.x - x)
    inside = canvas.edge((abs(part.x - x) - reach) * np.float32(0.75))
    cover = inside * canvas.edge(part.y - foot + 0.06 * height + droop)
    canvas.line((x, foot - 0.2 * height), (x, foot), max(0.07 * height, 0.5), color, "tree")
    canvas.paint(part, cover, color, "tree")
    if height < 10:
        return
    shade = cover * canvas.edge(x - part.x + 0.1 * reach) * np.float32(0.6)
    canvas.paint(part, shade, canvas.palette.tint(color, -0.35), MARK)
    tips = cover * clip01((teeth - 0.72) * 3) * canvas.edge(part.x - x)
    canvas.paint(part, tips * np.float32(0.4), canvas.palette.tint(color, 0.4), MARK)


def paint_broadleaf(
    canvas: Canvas, x: float, foot: float, height: float, color: Floats, *, slim: float = 1.0
) -> None:
    """Paint a broad-leaved tree, lit from the left."""
    rng, palette = canvas.rng, canvas.palette
    trunk = palette.tint(color, -0.45)
    middle, radius = foot - 0.63 * height, 0.37 * height
    canvas.line((x, foot), (x, middle), 0.09 * height * slim + 0.3, trunk, "tree", end_width=0.4)
    for side in (-1, 1):
        tip = (x + side * 0.17 * height * slim, middle - 0.05 * height)
        canvas.line((x, foot - 0.34 * height), tip, 0.04 * height + 0.2, trunk, "tree")
    across = radius * slim
    part = canvas.window(x - 1.3 * across, foot - 1.1 * height, x + 1.3 * across, foot)
    distance = np.full((part.y.shape[0], part.x.shape[1]), 1e3, np.float32)
    for turn in np.linspace(0, 2 * np.pi, int(rng.integers(5, 8)), endpoint=False):
        lobe = radius * rng.uniform(0.5, 0.72)
        at = (x + 0.52 * across * np.cos(turn), middle + 0.5 * radius * np.sin(turn))
        far = np.hypot((part.x - at[0]) / slim, part.y - at[1]) - lobe
        np.minimum(distance, far, out=distance)
    rough = canvas.rough[part.rows, part.columns]
    cover = canvas.edge(distance + 0.05 * radius * rough)
    canvas.paint(part, cover, color, "tree")
    fall = (part.x - x) / across * 0.5 + (part.y - middle) / radius * 0.6
    leaves = clip01((fall + 0.55 * rough - 0.15) * 2.2)
    canvas.paint(part, cover * leaves * np.float32(0.75), palette.tint(color, -0.4), MARK)
    lights = clip01((-fall + 0.6 * rough - 0.75) * 2.5)
    canvas.paint(part, cover * lights * np.float32(0.7), palette.tint(color, 0.45), MARK)


def paint_tree(
    canvas: Canvas, x: float, foot: float, height: float, color: Floats, kind: str
) -> None:
    """Paint a tree: "pine", "round", "poplar" or "palm"."""
    if kind == "pine":
        paint_pine(canvas, x, foot, height, color)
    elif kind == "palm":
        paint_palm(canvas, x, foot, height, color)
    else:
        paint_broadleaf(canvas, x, foot, height, color, slim=1.0 if kind == "round" else 0.42)


def paint_palm(canvas: Canvas, x: float, foot: float, height: float, color: Floats) -> None:
    """Paint a palm with a bent trunk."""
    rng = canvas.rng
    lean = rng.uniform(-0.3, 0.3) * height
    at = (x, foot)
    for share in (0.25, 0.5, 0.75, 1.0):
        after = (x + lean * share**2, foot - 0.8 * height * share)
        canvas.line(at, after, height * (0.085 - 0.035 * share), color, "tree")
        at = after
    for turn in np.linspace(-0.25, np.pi + 0.25, 7):
        length = height * rng.uniform(0.26, 0.36)
        elbow = (at[0] + 0.6 * length * np.cos(turn), at[1] - 0.55 * length * np.sin(turn))
        y = at[1] - 0.45 * length * np.sin(turn) + 0.35 * length
        tip = (at[0] + 1.15 * length * np.cos(turn), y)
        canvas.line(at, elbow, 0.045 * height, color, "tree", end_width=0.06 * height)
        canvas.line(elbow, tip, 0.06 * height, color, "tree", end_width=0.2)


def paint_cactus(canvas: Canvas, x: float, foot: float, height: float, color: Floats) -> None:
    """Paint a cactus with arms and ribs."""
    rng = canvas.rng
    thick = 0.17 * height
    ribs = canvas.palette.contrast(color, 0.4)
    canvas.line((x, foot), (x, foot - height + thick / 2), thick, color, "cactus")
    for side in rng.permutation([-1, 1])[: int(rng.integers(1, 3))]:
        out, y = x + side * height * rng.uniform(0.22, 0.3), foot - height * rng.uniform(0.35, 0.55)
        tip = (out, y - height * rng.uniform(0.2, 0.35))
        canvas.line((x, y), (out, y), 0.75 * thick, color, "cactus")
        canvas.line((out, y), tip, 0.75 * thick, color, "cactus")
        canvas.line((out, y), tip, 0.12 * thick, ribs, MARK)
    for shift in (-0.22, 0.1):
        at = x + shift * thick
        canvas.line((at, foot), (at, foot - height + thick / 2), 0.1 * thick, ribs, MARK)


def paint_grass(canvas: Canvas, top: float, bottom: float, color: Floats, count: int) -> None:
    """Paint tufts of grass between two levels, larger near the viewer."""
    rng = canvas.rng
    for _ in range(count):
        y = rng.uniform(top, bottom)
        x = rng.uniform(0, canvas.width)
        size = 1.2 + 3.2 * (y - top) / max(100 - top, 1)
        for lean in (-0.5, 0.05, 0.55):
            canvas.line((x, y), (x + lean * size, y - size), 0.45, color, MARK, end_width=0.15)


@dataclass(frozen=True)
class House:
    """Position and size of a house: a gabled front, and a side wall to its right."""

    x: float
    """Left corner of the front."""
    foot: float
    front: float
    """Width of the gable front."""
    side: float
    """Width of the side wall."""
    wall: float
    """Height of the walls."""
    roof: float
    """Height of the roof."""

    @property
    def eaves(self) -> float:
        """Level (y) of the eaves."""
        return self.foot - self.wall

    @property
    def apex(self) -> Point:
        """Tip of the gable."""
        return self.x + self.front / 2, self.eaves - self.roof

    @property
    def right(self) -> float:
        """Right end of the side wall."""
        return self.x + self.front + self.side


def paint_house(
    canvas: Canvas, house: House, walls: Floats, tiles: Floats, *, snow: bool = False, lit: float
) -> None:
    """Paint a house; `lit` is the probability that a window is lit."""
    rng, palette = canvas.rng, canvas.palette
    x, corner, foot, eaves = house.x, house.x + house.front, house.foot, house.eaves
    apex = house.apex
    if rng.random() < 0.7:
        _paint_chimney(canvas, house, tiles)
    shaded = palette.tint(walls, -0.3)
    canvas.box(corner, eaves, house.right, foot, shaded, "house")
    canvas.polygon([(x, foot), (x, eaves), apex, (corner, eaves), (corner, foot)], walls, "house")
    part = canvas.window(x, apex[1], corner, foot)
    inside = canvas.owner[part.rows, part.columns] > 0
    low = np.clip(0.25 * (part.y - eaves) / house.wall, 0, 0.25) * inside
    canvas.stipple(part, (low + 0 * part.x).astype(np.float32), palette.tint(walls, -0.4))
    _paint_roof(canvas, house, tiles, snow=snow)
    if rng.random() < 0.4:
        _paint_timber(canvas, house, palette.contrast(walls, 0.6))
    _paint_openings(canvas, house, walls, lit)


def _paint_roof(canvas: Canvas, house: House, tiles: Floats, *, snow: bool) -> None:
    palette = canvas.palette
    over, drop = 0.07 * house.front, 0.08 * house.roof
    corner, apex = house.x + house.front, house.apex
    ridge_end = house.right - 0.12 * house.side
    low = house.eaves + drop
    front_end = (corner + over * 0.6, low)
    part, cover = canvas.polygon_cover(
        [apex, (ridge_end, apex[1]), (house.right + over, low), front_end]
    )
    canvas.paint(part, cover, tiles, "house")
    rows = house.roof / max(house.roof / 7, 1.5)
    course = (part.y - apex[1]) / house.roof * rows
    lean = (part.x - (part.y - apex[1]) * (0.5 * house.front / house.roof)) / 1.7
    lean = lean + 0.5 * np.mod(np.floor(course), 2)
    step = rows / house.roof / canvas.scale
    lines = stripe_cover(course + 0 * part.x, 0.3, step)
    joints = stripe_cover(lean, 0.22, 1.3 / 1.7 / canvas.scale)
    dark = palette.contrast(tiles, 0.45)
    canvas.paint(part, cover * np.maximum(lines, joints * np.float32(0.7)), dark, MARK)
    if snow:
        depth = (part.y - apex[1]) / house.roof + 0.12 * canvas.rough[part.rows, part.columns]
        canvas.paint(part, cover * clip01((0.72 - depth) * 6), palette.paper, "snow")
    edge = palette.paper if snow else palette.contrast(tiles, 0.35)
    thick = max(0.07 * house.front, 0.8)
    tag = "snow" if snow else "house"
    canvas.line((house.x - over, low), apex, thick, edge, tag)
    canvas.line(apex, front_end, thick, edge, tag)


def _paint_chimney(canvas: Canvas, house: House, tiles: Floats) -> None:
    """Paint a chimney behind the ridge, perhaps with smoke."""
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


def _paint_timber(canvas: Canvas, house: House, color: Floats) -> None:
    """Paint the beams of a timber frame on the front."""
    x, corner, thick = house.x, house.x + house.front, max(0.045 * house.front, 0.45)
    canvas.line((x, house.eaves), (corner, house.eaves), thick, color, MARK)
    canvas.line((house.apex[0], house.eaves), house.apex, thick, color, MARK)
    for share in (0.02, 0.98):
        post = x + share * house.front
        canvas.line((post, house.foot), (post, house.eaves), thick, color, MARK)
    low = (house.apex[0], house.eaves - 0.1 * house.roof)
    for share in (0.28, 0.72):
        high = (x + share * house.front, house.eaves - 0.35 * house.roof)
        canvas.line(high, low, thick, color, MARK)


def _paint_openings(canvas: Canvas, house: House, walls: Floats, lit: float) -> None:
    """Paint the door and the windows."""
    rng, palette = canvas.rng, canvas.palette
    size = min(0.2 * house.front, 0.3 * house.wall)
    half = 0.55 * size
    floors = 2 if house.wall > 0.95 * house.front else 1
    frame = palette.contrast(walls, 0.65)
    door = int(rng.integers(3)) if rng.random() < 0.8 else -1
    for floor in range(floors):
        middle = house.foot - house.wall * (floor + 0.55) / floors
        for number, share in enumerate((0.22, 0.5, 0.78)):
            x = house.x + share * house.front
            if floor == 0 and number == door:
                left, right, top = (x - half, x + half, house.foot - 0.62 * house.wall / floors)
                canvas.box(left, top, right, house.foot, palette.contrast(walls, 0.8), MARK)
            elif number != 1 or floors == 2:
                _paint_window(canvas, x, middle, size, frame, lit)
        count = int(house.side // (2.6 * size)) if house.side else 0
        for number in range(count):
            x = house.x + house.front + house.side * (number + 0.5) / count
            _paint_window(canvas, x, middle, size, frame, lit)
    if house.roof > 2.6 * size:
        _paint_window(
            canvas, house.apex[0], house.eaves - 0.36 * house.roof, 0.8 * size, frame, lit
        )


def _paint_window(
    canvas: Canvas, x: float, y: float, size: float, frame: Floats, lit: float
) -> None:
    palette = canvas.palette
    across, down = 0.42 * size, 0.55 * size
    canvas.box(x - across - 0.3, y - down - 0.3, x + across + 0.3, y + down + 0.4, frame, "window")
    dark = palette.ink if luminance(frame) > 0.4 else palette.tint(frame, 0.25)
    pane = palette.glow if canvas.rng.random() < lit else dark
    canvas.box(x - across, y - down, x + across, y + down, pane, "window")
    if size > 2.4:  # In smaller windows the bars would fill the panes.
        canvas.box(x - 0.15, y - down, x + 0.15, y + down, frame, MARK)
        canvas.box(x - across, y - 0.15, x + across, y + 0.15, frame, MARK)


def paint_cottage(canvas: Canvas, x: float, foot: float, size: float, ground: Floats) -> None:
    """Paint one small house, about `size` wide, that stands out from its background."""
    rng, palette = canvas.rng, canvas.palette
    front = size * rng.uniform(0.42, 0.55)
    wall, roof = front * rng.uniform(0.6, 0.85), front * rng.uniform(0.6, 0.9)
    house = House(x - size / 2, foot, front, size - front, wall, roof)
    walls = palette.contrast(ground, rng.uniform(0.7, 0.9))
    paint_house(
        canvas, house, walls, palette.contrast(walls, 0.6), lit=0.8 if palette.night else 0.1
    )
