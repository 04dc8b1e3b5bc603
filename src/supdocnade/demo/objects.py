"""Things that people built or left in a landscape, each standing on a given place."""

import itertools

import numpy as np

from supdocnade.demo.canvas import MARK, Canvas, Point, unit
from supdocnade.demo.palettes import Floats, mix


def rock(canvas: Canvas, x: float, foot: float, size: float, color: Floats) -> None:
    """Paint a boulder with a lit face."""
    rng = canvas.rng
    turns = np.linspace(np.pi, 0, 6) + rng.uniform(-0.2, 0.2, 6)
    radii = size * rng.uniform(0.75, 1.1, 6)
    top = [
        (x + 1.15 * r * np.cos(t), foot - 0.85 * r * abs(np.sin(t)))
        for r, t in zip(radii, turns, strict=True)
    ]
    points = [(x - 1.15 * size, foot), *top[1:-1], (x + 1.15 * size, foot)]
    _hull(canvas, points, color, "rock")
    ridge = (x + rng.uniform(-0.2, 0.3) * size, foot - 0.35 * size)
    palette = canvas.palette
    canvas.polygon([points[1], points[2], ridge], palette.tint(color, 0.3), MARK)
    canvas.polygon([points[0], points[1], ridge], palette.tint(color, 0.16), MARK)
    canvas.polygon([ridge, points[4], points[5]], palette.tint(color, -0.3), MARK)


def _hull(canvas: Canvas, points: list[Point], color: Floats, tag: str) -> None:
    """Paint a fan of triangles, which need not be convex as a whole."""
    for first, second in itertools.pairwise(points[1:]):
        canvas.polygon([points[0], first, second], color, tag)


def boat(
    canvas: Canvas, x: float, waterline: float, size: float, hull: Floats, sail: Floats
) -> None:
    """Paint a sailing boat and its broken reflection."""
    rng = canvas.rng
    mast = x - 0.05 * size
    deck = waterline - 0.22 * size
    for number in range(1, 4):
        half = size * (0.5 - 0.12 * number) * rng.uniform(0.7, 1)
        y = waterline + 0.12 * size * number
        canvas.line((x - half, y), (x + half, y), 0.06 * size, sail, MARK)
    canvas.polygon(
        [
            (x - 0.62 * size, deck),
            (x + 0.68 * size, deck),
            (x + 0.45 * size, waterline),
            (x - 0.45 * size, waterline),
        ],
        hull,
        "boat",
    )
    canvas.line((mast, deck), (mast, deck - 1.5 * size), max(0.05 * size, 0.35), hull, "boat")
    canvas.polygon(
        [
            (mast + 0.06 * size, deck - 1.45 * size),
            (mast + 0.06 * size, deck - 0.12 * size),
            (x + 0.62 * size, deck - 0.12 * size),
        ],
        sail,
        "boat",
    )
    canvas.polygon(
        [
            (mast - 0.06 * size, deck - 1.2 * size),
            (mast - 0.06 * size, deck - 0.12 * size),
            (x - 0.55 * size, deck - 0.12 * size),
        ],
        mix(sail, hull, 0.3),
        "boat",
    )


def lighthouse(canvas: Canvas, x: float, foot: float, height: float, color: Floats) -> None:
    """Paint a striped tower with its lantern, and a beam at night."""
    rng, palette = canvas.rng, canvas.palette
    half, top = 0.13 * height, foot - 0.8 * height
    other = palette.facing(color, 0.8)
    if palette.night:
        side = rng.choice([-1, 1])
        lamp_y = top - 0.08 * height
        part, cover = canvas.polygon_cover(
            [(x, lamp_y), (x + side * 80, lamp_y - 16), (x + side * 80, lamp_y + 4)]
        )
        fade = unit(1 - abs(part.x - x) / 80) * np.float32(0.45)
        canvas.paint(part, cover * fade, palette.glow, MARK)
    bands = int(rng.integers(4, 7))
    for number in range(bands):
        share, after = number / bands, (number + 1) / bands
        y0, y1 = foot - 0.8 * height * share, foot - 0.8 * height * after
        w0, w1 = half * (1 - 0.4 * share), half * (1 - 0.4 * after)
        band = color if number % 2 == 0 else other
        canvas.polygon([(x - w0, y0), (x + w0, y0), (x + w1, y1), (x - w1, y1)], band, "lighthouse")
    part, cover = canvas.polygon_cover(
        [(x, foot), (x + half, foot), (x + 0.6 * half, top), (x + 0.15 * half, top)]
    )
    canvas.paint(part, cover * np.float32(0.3), palette.ink, MARK)
    dark = palette.tint(color, -0.6)
    canvas.box(x - 0.8 * half, top - 0.03 * height, x + 0.8 * half, top, dark, "lighthouse")
    lamp_top = top - 0.12 * height
    canvas.box(
        x - 0.4 * half, lamp_top, x + 0.4 * half, top - 0.03 * height, palette.glow, "lighthouse"
    )
    canvas.polygon(
        [(x - 0.6 * half, lamp_top), (x + 0.6 * half, lamp_top), (x, lamp_top - 0.08 * height)],
        dark,
        "lighthouse",
    )


def lamp(canvas: Canvas, x: float, foot: float, height: float, color: Floats, side: int) -> None:
    """Paint a street lamp whose arm reaches to one side."""
    palette = canvas.palette
    thick = max(0.035 * height, 0.45)
    top, out = foot - height, x + side * 0.2 * height
    canvas.line((x, foot), (x, top), 1.3 * thick, color, "lamp", end_width=thick)
    canvas.line((x, top), (out, top - 0.04 * height), thick, color, "lamp")
    canvas.box(x - thick, foot - 0.07 * height, x + thick, foot, color, "lamp")
    y = top + 0.01 * height
    radius = 0.35 * height
    part = canvas.window(out - radius, y - radius, out + radius, y + radius)
    far = np.hypot(part.x - out, part.y - y) / radius
    shine = np.float32(0.5 if palette.night else 0.12) * unit(1 - far) ** 2
    canvas.paint(part, shine, palette.glow, MARK)
    canvas.ellipse(out, y, 0.07 * height, 0.04 * height, palette.glow, "lamp")
    canvas.line(
        (out - 0.08 * height, top - 0.03 * height),
        (out + 0.08 * height, top - 0.03 * height),
        thick,
        color,
        "lamp",
    )


def car(canvas: Canvas, x: float, foot: float, size: float, color: Floats) -> None:
    """Paint a car seen from behind, `size` wide."""
    palette = canvas.palette
    dark, half = palette.tint(color, -0.75), size / 2
    canvas.ellipse(x, foot, 1.05 * half, 0.07 * size, palette.ink)
    for side in (-1, 1):
        wheel = x + side * 0.36 * size
        canvas.box(wheel - 0.09 * size, foot - 0.2 * size, wheel + 0.09 * size, foot, dark, "car")
    canvas.polygon(
        [
            (x - 0.38 * size, foot - 0.4 * size),
            (x - 0.29 * size, foot - 0.74 * size),
            (x + 0.29 * size, foot - 0.74 * size),
            (x + 0.38 * size, foot - 0.4 * size),
        ],
        color,
        "car",
    )
    canvas.polygon(
        [
            (x - 0.31 * size, foot - 0.44 * size),
            (x - 0.25 * size, foot - 0.69 * size),
            (x + 0.25 * size, foot - 0.69 * size),
            (x + 0.31 * size, foot - 0.44 * size),
        ],
        palette.facing(color, 0.7),
        "car",
    )
    round_box = 0.08 * size
    canvas.line(
        (x - half + 2 * round_box, foot - 0.29 * size),
        (x + half - 2 * round_box, foot - 0.29 * size),
        0.3 * size,
        color,
        "car",
    )
    canvas.box(
        x - 0.46 * size, foot - 0.3 * size, x + 0.46 * size, foot - 0.13 * size, color, "car"
    )
    for side in (-1, 1):
        light = x + side * 0.37 * size
        canvas.ellipse(light, foot - 0.31 * size, 0.07 * size, 0.045 * size, palette.glow, "car")
    plate = palette.facing(color, 0.6)
    canvas.box(x - 0.1 * size, foot - 0.24 * size, x + 0.1 * size, foot - 0.17 * size, plate, MARK)


def person(canvas: Canvas, x: float, foot: float, height: float, color: Floats) -> None:
    """Paint a walking figure and the shadow at its feet."""
    stride = height * canvas.rng.uniform(0.07, 0.14)
    hip, shoulder = foot - 0.45 * height, foot - 0.78 * height
    canvas.ellipse(
        x + 0.15 * height,
        foot,
        0.28 * height,
        0.045 * height,
        canvas.palette.tint(canvas.color_at(x, foot, 1.5), -0.35),
        MARK,
    )
    for side in (-1, 1):
        canvas.line((x, hip), (x + side * stride, foot), 0.11 * height, color, "person")
        canvas.line(
            (x, shoulder),
            (x + side * 1.5 * stride, hip + 0.03 * height),
            0.08 * height,
            color,
            "person",
        )
    canvas.line((x, shoulder + 0.03 * height), (x, hip), 0.2 * height, color, "person")
    canvas.disc(x, foot - 0.92 * height, 0.09 * height, color, "person")


def fence(
    canvas: Canvas, start: Point, end: Point, heights: tuple[float, float], color: Floats, n: int
) -> None:
    """Paint posts and two rails from one place to another, in perspective if heights differ."""
    (x0, y0), (x1, y1) = start, end
    h0, h1 = heights
    for level in (0.45, 0.85):
        canvas.line(
            (x0, y0 - level * h0),
            (x1, y1 - level * h1),
            0.13 * h0,
            color,
            "fence",
            end_width=0.13 * h1,
        )
    # Posts stand at even distances on the ground: their numbers grow as one over the depth.
    for number in range(n + 1):
        share = number / n
        depth = share * h0 / (share * h0 + (1 - share) * h1) if h0 != h1 else share
        x, y, h = x0 + depth * (x1 - x0), y0 + depth * (y1 - y0), h0 + depth * (h1 - h0)
        canvas.line((x, y), (x, y - h), 0.18 * h, color, "fence")


def windmill(canvas: Canvas, x: float, foot: float, height: float, color: Floats) -> None:
    """Paint a mill with four sails."""
    rng, palette = canvas.rng, canvas.palette
    hub = (x, foot - 0.66 * height)
    canvas.polygon(
        [
            (x - 0.19 * height, foot),
            (x + 0.19 * height, foot),
            (x + 0.11 * height, hub[1]),
            (x - 0.11 * height, hub[1]),
        ],
        color,
        "windmill",
    )
    part, cover = canvas.polygon_cover(
        [(x, foot), (x + 0.19 * height, foot), (x + 0.11 * height, hub[1]), (x + 0.02, hub[1])]
    )
    canvas.paint(part, cover * np.float32(0.3), palette.ink, MARK)
    cap = palette.tint(color, -0.45)
    canvas.ellipse(x, hub[1], 0.12 * height, 0.1 * height, cap, "windmill")
    canvas.box(x - 0.03 * height, foot - 0.13 * height, x + 0.03 * height, foot, cap, MARK)
    canvas.box(
        x - 0.025 * height, foot - 0.4 * height, x + 0.025 * height, foot - 0.33 * height, cap, MARK
    )
    sail = palette.facing(canvas.color_at(x, hub[1] - 0.3 * height, 2), 0.75)
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
        canvas.polygon(
            [at(0.12, 0), at(0.46, 0), at(0.46, 0.085), at(0.12, 0.085)], sail, "windmill"
        )
        for rung in (0.2, 0.29, 0.38):
            canvas.line(at(rung, 0), at(rung, 0.085), 0.012 * height, cap, MARK)


# Trees and other plants, each standing on a given place.


def pine(canvas: Canvas, x: float, foot: float, height: float, color: Floats) -> None:
    """Paint a conifer: storeys of branches that widen downwards."""
    rng = canvas.rng
    half = height * rng.uniform(0.17, 0.27)
    part = canvas.window(x - half, foot - height, x + half, foot)
    share = np.maximum((part.y - foot + height) / height, 0)
    storeys = rng.integers(4, 8)
    teeth = np.mod(share * storeys, 1)
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
    tips = cover * unit((teeth - 0.72) * 3) * canvas.edge(part.x - x)
    canvas.paint(part, tips * np.float32(0.4), canvas.palette.tint(color, 0.4), MARK)


def broadleaf(
    canvas: Canvas, x: float, foot: float, height: float, color: Floats, *, slim: float = 1.0
) -> None:
    """Paint a tree with a round crown of leaves, lit from its left."""
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
    leaves = unit((fall + 0.55 * rough - 0.15) * 2.2)
    canvas.paint(part, cover * leaves * np.float32(0.75), palette.tint(color, -0.4), MARK)
    lights = unit((-fall + 0.6 * rough - 0.75) * 2.5)
    canvas.paint(part, cover * lights * np.float32(0.7), palette.tint(color, 0.45), MARK)


def tree(canvas: Canvas, x: float, foot: float, height: float, color: Floats, kind: str) -> None:
    """Paint a tree: "pine", "round", "poplar" or "palm"."""
    if kind == "pine":
        pine(canvas, x, foot, height, color)
    elif kind == "palm":
        palm(canvas, x, foot, height, color)
    else:
        broadleaf(canvas, x, foot, height, color, slim=1.0 if kind == "round" else 0.42)


def palm(canvas: Canvas, x: float, foot: float, height: float, color: Floats) -> None:
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
        tip = (
            at[0] + 1.15 * length * np.cos(turn),
            at[1] - 0.45 * length * np.sin(turn) + 0.35 * length,
        )
        canvas.line(at, elbow, 0.045 * height, color, "tree", end_width=0.06 * height)
        canvas.line(elbow, tip, 0.06 * height, color, "tree", end_width=0.2)


def cactus(canvas: Canvas, x: float, foot: float, height: float, color: Floats) -> None:
    """Paint a saguaro with its arms and ribs."""
    rng = canvas.rng
    thick = 0.17 * height
    ribs = canvas.palette.facing(color, 0.4)
    canvas.line((x, foot), (x, foot - height + thick / 2), thick, color, "cactus")
    for side in rng.permutation([-1, 1])[: int(rng.integers(1, 3))]:
        out, joint = side * height * rng.uniform(0.22, 0.3), foot - height * rng.uniform(0.35, 0.55)
        up = joint - height * rng.uniform(0.2, 0.35)
        canvas.line((x, joint), (x + out, joint), 0.75 * thick, color, "cactus")
        canvas.line((x + out, joint), (x + out, up), 0.75 * thick, color, "cactus")
        canvas.line((x + out, joint), (x + out, up), 0.12 * thick, ribs, MARK)
    for shift in (-0.22, 0.1):
        at = x + shift * thick
        canvas.line((at, foot), (at, foot - height + thick / 2), 0.1 * thick, ribs, MARK)


def tufts(canvas: Canvas, top: float, bottom: float, color: Floats, count: int) -> None:
    """Paint blades of grass on the ground between two levels, larger when nearer."""
    rng = canvas.rng
    for _ in range(count):
        y = rng.uniform(top, bottom)
        x = rng.uniform(0, canvas.width)
        size = 1.2 + 3.2 * (y - top) / max(100 - top, 1)
        for lean in (-0.5, 0.05, 0.55):
            canvas.line((x, y), (x + lean * size, y - size), 0.45, color, MARK, end_width=0.15)
