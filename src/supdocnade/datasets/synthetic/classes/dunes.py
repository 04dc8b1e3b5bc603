"""Deserts: dunes with sharp crests and rippled sand."""

from collections.abc import Set
from typing import NamedTuple

import numpy as np

from supdocnade.datasets.synthetic.canvas import MARK, Canvas, unit
from supdocnade.datasets.synthetic.houses import cottage
from supdocnade.datasets.synthetic.noise import Floats, fractal_line
from supdocnade.datasets.synthetic.palettes import mix
from supdocnade.datasets.synthetic.plants import cactus, palm
from supdocnade.datasets.synthetic.sky import paint_sky
from supdocnade.datasets.synthetic.terrain import paint_range, ridge_line
from supdocnade.datasets.synthetic.things import fence, person, rock


def paint_dunes(canvas: Canvas, wanted: Set[str]) -> None:
    """Paint a desert."""
    rng, palette = canvas.rng, canvas.palette
    horizon = rng.uniform(24, 60)
    paint_sky(canvas, wanted, horizon)
    light = int(rng.choice([-1, 1]))
    if "mountain" in wanted:
        ridge = ridge_line(canvas, horizon + 4, rng.uniform(12, 22), int(rng.integers(2, 5)))
        paint_range(canvas, ridge, rng.uniform(0, 0.2), light)
    n_layers = int(rng.integers(3, 6))
    first, last = rng.uniform(0.05, 0.3), rng.uniform(0.6, 1.0)
    for number in range(n_layers):
        share = number / (n_layers - 1)
        level = horizon + 3 + (84 - horizon) * share**1.2
        crest = _crest(canvas, level, 4 + 7.5 * share, light)
        color = palette.land(first + (last - first) * share)
        _dune(canvas, crest, color, 0.25 + 0.75 * share)
        if number == n_layers - 2:
            _on_the_sand(canvas, wanted, crest.heights)
    if "fence" in wanted:
        color = palette.facing(canvas.color_at(canvas.width / 2, 94), 0.8)
        fence(canvas, (canvas.width * 1.02, 97), (canvas.width * 0.45, 90), (9, 5), color, 8)


class _Crest(NamedTuple):
    """The line of a row of dunes."""

    heights: Floats
    """(width,) y of the line."""
    lee: Floats
    """(width,) place on the slope away from the light: 0 at the crest, 1 at its foot, else NaN."""


def _crest(canvas: Canvas, level: float, height: float, light: int) -> _Crest:
    """Return a line of long slopes that meet in sharp crests and smooth hollows."""
    rng, x = canvas.rng, canvas.x[0]
    wave, long = rng.uniform(60, 120), rng.uniform(0.5, 0.72)
    place = x / wave + rng.random() + 0.1 * fractal_line(rng, x.size, 2, octaves=2)
    share = np.mod(place, 1)
    tooth = np.where(share < long, 1 - share / long, (share - long) / (1 - long))
    sway = 0.25 * fractal_line(rng, x.size, 2, octaves=2)
    lee = share / long if light < 0 else (1 - share) / (1 - long)
    lee = np.where(lee <= 1, lee, np.nan)
    return _Crest(
        (level - height * (tooth**1.5 - 0.4 + sway)).astype(np.float32), lee.astype(np.float32)
    )


def _dune(canvas: Canvas, crest: _Crest, color: Floats, size: float) -> None:
    """Paint a dune: its lit side, the shaded side behind a winding crest, and ripples."""
    rng, palette = canvas.rng, canvas.palette
    line = crest.heights
    part, cover = canvas.below(line)
    canvas.paint(part, cover, color, "sand")
    under = np.maximum(part.y - line, 0)
    drift = canvas.noise(3, 2.5, octaves=2, gain=0.4)[part.rows]
    # The shade begins at the crest, swings down and ends at the foot of the slope.
    lee = np.nan_to_num(crest.lee, nan=1.0)
    reach = (7 + 17 * size) * lee**0.7 * np.sqrt(1 - lee)
    shade = canvas.edge(0.8 * (under - reach * (1 + 0.25 * drift))) * (lee < 1) * cover
    dark = palette.tint(color, -0.36)
    canvas.paint(part, shade, dark, MARK)
    spacing = rng.uniform(1.7, 2.8) * (0.45 + size)
    warp = canvas.noise(4, 5, octaves=3, gain=0.5)[part.rows]
    rows = (under + 2.4 * size * warp + 0.08 * part.x) / spacing
    wave = np.sin(np.float32(2 * np.pi) * rows) + 0.45 * drift
    fade = unit(under / (6 * size) - 0.25) * np.clip(1.15 - 0.35 * warp, 0.2, 1)
    ripples = unit((wave - 0.2) * 1.4) * fade * cover
    canvas.paint(part, ripples * np.float32(0.5), mix(dark, palette.ink, 0.12), MARK)
    lit = unit((-wave - 0.45) * 1.5) * fade * cover * (1 - shade)
    canvas.paint(part, lit * np.float32(0.5), palette.tint(color, 0.4), MARK)
    canvas.stipple(part, cover * np.clip(0.1 + 0.012 * under, 0, 0.3), palette.tint(color, -0.25))


def _on_the_sand(canvas: Canvas, wanted: Set[str], line: Floats) -> None:
    """Put what is wanted on the crest of a dune, apart from one another."""
    rng, palette = canvas.rng, canvas.palette
    places = iter(rng.permutation(np.linspace(0.1, 0.9, 7)) * canvas.width)

    def spot(sink: float = 1.0) -> tuple[float, float, Floats]:
        x = float(next(places))
        y = min(float(np.interp(x, canvas.x[0], line)) + sink, 80)
        return x, y, canvas.color_at(x, y - 5)

    if "house" in wanted:
        x, y, ground = spot()
        cottage(canvas, x, y + 1, rng.uniform(12, 16), ground)
    if "tree" in wanted:
        x, y, ground = spot()
        for shift in rng.uniform(-7, 7, int(rng.integers(2, 4))):
            palm(canvas, x + shift, y + 1, rng.uniform(14, 21), palette.facing(ground, 0.75))
    if "rock" in wanted:
        for _ in range(2):
            x, y, ground = spot(2)
            rock(canvas, x, y + 1, rng.uniform(3.5, 7), palette.facing(ground, 0.6))
    if "cactus" in wanted:
        for height in rng.uniform(12, 24, int(rng.integers(1, 3))):
            x, y, ground = spot()
            cactus(canvas, x, y + 1.5, height, palette.facing(ground, 0.72))
    if "person" in wanted:
        x, y, ground = spot(0.6)
        for number in range(int(rng.integers(1, 4))):
            at = x + 6 * number
            y = float(np.interp(at, canvas.x[0], line)) + 0.6
            person(canvas, at, min(y, 80), rng.uniform(8, 10), palette.facing(ground, 0.85))
