"""Trees and other plants, each standing on a given place."""

import numpy as np

from supdocnade.datasets.synthetic.canvas import MARK, Canvas, unit
from supdocnade.datasets.synthetic.noise import Floats


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
