"""Ground: ridges, hills, water and the surfaces they share."""

from typing import NamedTuple

import numpy as np

from supdocnade.datasets.synthetic.canvas import MARK, Canvas, Window, unit
from supdocnade.datasets.synthetic.noise import Floats, fractal_line
from supdocnade.datasets.synthetic.palettes import luminance, mix


class Ridge(NamedTuple):
    """The line of a mountain range."""

    heights: Floats
    """(width,) y of the line."""
    side: Floats
    """(width,) units from the nearest summit, below zero to its left."""


def hill_line(canvas: Canvas, level: float, height: float, *, cells: float = 2.0) -> Floats:
    """Return a softly rolling line around a level."""
    line = fractal_line(canvas.rng, canvas.shape[1], cells, octaves=3, gain=0.35)
    return level + np.float32(height) * line


def ridge_line(canvas: Canvas, level: float, height: float, n_peaks: int) -> Ridge:
    """Return a line of summits that rise above a level."""
    rng, x = canvas.rng, canvas.x[0]
    slots = (np.arange(n_peaks) + rng.uniform(0.15, 0.85, n_peaks)) / n_peaks
    summits = slots * canvas.width * 1.1 - 0.05 * canvas.width
    tops = height * rng.uniform(0.5, 1.0, n_peaks)
    slopes = rng.uniform(0.55, 1.05, (2, n_peaks))
    away = x[None] - summits[:, None]
    fall = np.where(away < 0, -away * slopes[0][:, None], away * slopes[1][:, None])
    rise = tops[:, None] - fall
    highest = rise.argmax(axis=0)
    crags = fractal_line(rng, x.size, 9, octaves=5, gain=0.6)
    line = level - np.maximum(rise.max(axis=0), -0.15 * height) - 0.05 * height * crags
    side = np.take_along_axis(away, highest[None], axis=0)[0]
    return Ridge(line.astype(np.float32), side.astype(np.float32))


def paint_range(canvas: Canvas, ridge: Ridge, depth: float, light: int, *, snow: float = 0) -> None:
    """Paint mountains with a lit and a shaded flank, perhaps with snow on their upper part.

    Parameters
    ----------
    light : -1: it comes from the left, 1: from the right.
    snow : units from the line down to which snow lies.
    """
    palette = canvas.palette
    part, cover = canvas.below(ridge.heights)
    color = palette.land(depth)
    canvas.paint(part, cover, color, "mountain")
    under = part.y - ridge.heights
    folds = canvas.noise(6, 9, octaves=4, gain=0.6)[part.rows]
    # The spine runs down from the summit, crooked by an amount that grows with the depth.
    spine = light * ridge.side + folds * (1.2 + 0.28 * np.clip(under, 0, 40))
    shade = unit(0.5 - spine * np.float32(0.7 * canvas.scale)) * cover
    canvas.paint(part, shade, palette.tint(color, -0.3), MARK)
    white = np.zeros_like(cover)
    if snow:
        crooked = under + 0.22 * snow * canvas.rough[part.rows] + 0.5 * folds
        white = canvas.edge(crooked - snow) * cover
        paper = mix(palette.paper, palette.sky(0.9), 0.06)
        canvas.paint(part, white * (1 - shade), paper, "snow")
        canvas.paint(part, white * shade, mix(paper, color, 0.45), MARK)
    streaks = canvas.noise(7, 30, octaves=3, gain=0.7)[part.rows]
    bare = cover * (1 - white * np.float32(0.75)) * unit(under / 5)
    canvas.paint(
        part, unit(streaks * 1.5 - 0.9) * bare * np.float32(0.6), palette.facing(color, 0.4), MARK
    )
    canvas.paint(
        part, unit(-streaks * 1.5 - 1.2) * bare * np.float32(0.5), palette.tint(color, -0.5), MARK
    )
    mist = np.clip((under - 24) / 60, 0, 0.5) * cover
    canvas.stipple(part, mist, mix(palette.sky(1), color, 0.3))


def paint_hill(canvas: Canvas, heights: Floats, color: Floats, tag: str | None = "") -> Window:
    """Paint ground under a line, with a stippled shade towards its foot."""
    part, cover = canvas.below(heights)
    canvas.paint(part, cover, color, tag)
    under = unit((part.y - heights) / 45)
    tufts = np.clip(0.12 + 0.1 * canvas.rough[part.rows], 0, 0.4)
    canvas.stipple(part, cover * (0.3 * under + tufts), canvas.palette.tint(color, -0.28))
    return part


def paint_water(
    canvas: Canvas,
    part: Window,
    cover: Floats,
    color: Floats,
    *,
    horizon: float,
    glint: float | None = None,
    calm: float = 1.0,
) -> None:
    """Paint water whose waves grow from the horizon towards the viewer.

    Parameters
    ----------
    glint : x under which a light is mirrored.
    calm : waves are longer and fewer when it is higher.
    """
    palette = canvas.palette
    canvas.paint(part, cover, color, "water")
    light, dark = palette.tint(color, 0.5), palette.tint(color, -0.4)
    if luminance(color) > 0.75:
        light = palette.paper
    near = np.maximum(part.y - horizon, 0.4)
    rows = np.float32(7.5 / calm) * np.log(near + 2.0)
    width = np.float32(7.5 / calm / canvas.scale) / (near + 2.0)
    for number, ink in enumerate((dark, light)):
        bend = canvas.noise(10, 5, octaves=2)[part.rows, part.columns]
        gaps = canvas.noise(26, 5 / calm, octaves=2)[part.rows, part.columns]
        strokes = _strokes(rows + 0.28 * bend + 0.5 * number, width)
        present = unit(0.5 + 1.6 * (gaps - 0.15))
        canvas.paint(part, strokes * present * cover * np.float32(0.75), ink, MARK)
    if glint is not None:
        spread = 2.5 + 0.32 * near
        column = unit(1.2 - abs(part.x - glint) / spread)
        bend = canvas.noise(10, 7, octaves=2)[part.rows, part.columns]
        strokes = _strokes(1.3 * rows + 0.4 * bend, 1.3 * width)
        ink = mix(palette.glow, palette.paper, 0.3)
        canvas.paint(part, unit(strokes * 1.4) * column * cover, ink, MARK)


def _strokes(place: Floats, width: Floats) -> Floats:
    """Return soft stripes that vanish where they are finer than pixels."""
    wave = np.sin(np.float32(2 * np.pi) * place) - np.float32(0.35)
    sharp = np.clip(0.5 / np.maximum(width, 1e-3) * 0.35, 0.3, 2.5)
    fine = unit(0.5 / np.maximum(width, 1e-3) - 0.9)
    return unit(0.5 + wave * sharp) * fine
