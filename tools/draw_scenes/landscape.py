"""Sky, mountain ranges, hills and water, painted alike in all classes."""

from collections.abc import Set

import numpy as np

from tools.draw_scenes.canvas import MARK, Canvas, Window, clip01, fractal_line, points_around
from tools.draw_scenes.palettes import Floats, luminance, mix


def paint_sky(canvas: Canvas, objects: Set[str], horizon: float) -> float:
    """Fill the canvas with sky and paint the objects in it.

    Returns
    -------
    x of the sun or the moon, or of its place if there is neither.
    """
    rng, palette = canvas.rng, canvas.palette
    place = clip01(canvas.y[:, 0] / max(horizon, 1)) ** rng.uniform(0.7, 1.5)
    rows = palette.sky_ramp[np.round(place * (len(palette.sky_ramp) - 1)).astype(int)]
    canvas.image[:] = rows.T[:, :, None]
    haze = np.clip(0.08 * canvas.noise(2, 1.2, octaves=3), -0.2, 0.2)
    canvas.paint(canvas.full_window, np.maximum(haze, 0), palette.paper, MARK)
    canvas.paint(canvas.full_window, np.maximum(-haze, 0), palette.sky(0), MARK)
    if "star" in objects:
        _paint_stars(canvas, horizon)
    x = float(rng.uniform(0.12, 0.88) * canvas.width)
    y = float(horizon * rng.uniform(0.2, 0.72))
    if "sun" in objects:
        _paint_sun(canvas, x, y)
    elif "moon" in objects:
        _paint_moon(canvas, x, y)
    if "cloud" in objects:
        _paint_clouds(canvas, horizon)
    if "balloon" in objects:
        _paint_balloon(canvas, horizon, x)
    if "bird" in objects:
        _paint_birds(canvas, horizon)
    return x


def _paint_stars(canvas: Canvas, horizon: float) -> None:
    rng = canvas.rng
    count = int(rng.integers(28, 70))
    for _ in range(count):
        x, y = rng.uniform(0, canvas.width), horizon * rng.random() ** 1.3
        canvas.disc(x, y, rng.uniform(0.28, 0.62), canvas.palette.paper, "star")


def _paint_sun(canvas: Canvas, x: float, y: float) -> None:
    rng, palette = canvas.rng, canvas.palette
    radius = rng.uniform(4.5, 11)
    ground = canvas.color_at(x, y)
    color = palette.glow
    if abs(luminance(color) - luminance(ground)) < 0.12 and abs(color - ground).max() < 0.3:
        color = palette.contrast(ground, 0.75)
    canvas.halo(x, y, radius * rng.uniform(3, 5), mix(color, palette.paper, 0.4), 0.5)
    if rng.random() < 0.3:
        for ring in (2.1, 1.55):
            part = canvas.window(x - ring * radius, y - ring * radius, x + 25, y + 25)
            cover = canvas.edge(np.hypot(part.x - x, part.y - y) - ring * radius)
            canvas.paint(part, cover * np.float32(0.22), color, MARK)
    canvas.disc(x, y, radius, color, "sun")
    part = canvas.window(x - radius, y - radius, x + radius, y + radius)
    inside = canvas.edge(np.hypot(part.x - x, part.y - y) - radius)
    dense = inside * clip01(0.45 * (part.y - y) / radius + 0.1)
    canvas.stipple(part, dense, palette.contrast(color, 0.35))


def _paint_moon(canvas: Canvas, x: float, y: float) -> None:
    rng, palette = canvas.rng, canvas.palette
    radius = rng.uniform(4, 8)
    color = mix(palette.paper, palette.glow, rng.uniform(0, 0.6))
    canvas.halo(x, y, radius * 4, color, 0.35)
    part = canvas.window(x - radius, y - radius, x + radius, y + radius)
    full = canvas.edge(np.hypot(part.x - x, part.y - y) - radius)
    if rng.random() < 0.5:
        shift = radius * rng.uniform(0.45, 0.8)
        full = full * (
            1 - canvas.edge(np.hypot(part.x - x - shift, part.y - y + shift / 2) - radius)
        )
    canvas.paint(part, full, color, "moon")
    seas = clip01(canvas.rough[part.rows, part.columns] - 0.3) * np.float32(0.35)
    canvas.paint(part, full * seas, palette.sky(0.3), MARK)


def _paint_clouds(canvas: Canvas, horizon: float) -> None:
    rng, palette = canvas.rng, canvas.palette
    banks = rng.random() < 0.4
    for _ in range(int(rng.integers(2, 6))):
        x = rng.uniform(-0.05, 1.05) * canvas.width
        y = horizon * rng.uniform(0.12, 0.78)
        size = rng.uniform(7, 17) * (0.45 + 0.75 * (1 - y / horizon))
        ground = canvas.color_at(x, y)
        color = mix(ground, palette.paper, rng.uniform(0.6, 0.95))
        if luminance(palette.paper) - luminance(ground) < 0.17:
            color = mix(ground, palette.land(rng.uniform(0, 0.4)), 0.65)
        if banks:
            _paint_flat_cloud(canvas, x, y, size, color)
        else:
            _paint_round_cloud(canvas, x, y, size, color)


def _paint_flat_cloud(canvas: Canvas, x: float, y: float, size: float, color: Floats) -> None:
    """Paint a cloud of horizontal strokes."""
    rng = canvas.rng
    for number in range(int(rng.integers(3, 6))):
        half = size * rng.uniform(0.4, 1.25)
        middle, height = x + rng.normal(0, 0.45) * size, y + number * size * 0.13
        thickness = size * rng.uniform(0.09, 0.17)
        canvas.line((middle - half, height), (middle + half, height), thickness, color, "cloud")


def _paint_round_cloud(canvas: Canvas, x: float, y: float, size: float, color: Floats) -> None:
    """Paint a cumulus cloud, shaded below."""
    rng = canvas.rng
    part = canvas.window(x - 1.5 * size, y - 1.1 * size, x + 1.5 * size, y + 0.4)
    distance = np.full((part.y.shape[0], part.x.shape[1]), 1e3, np.float32)
    for place in np.linspace(-0.95, 0.95, int(rng.integers(5, 8))):
        radius = size * (0.5 - 0.3 * abs(place)) * rng.uniform(0.75, 1.2)
        middle = x + size * (place + rng.normal(0, 0.05))
        np.minimum(
            distance, np.hypot(part.x - middle, part.y - y + 0.5 * radius) - radius, out=distance
        )
    cover = canvas.edge(distance) * canvas.edge(part.y - y)
    canvas.paint(part, cover, color, "cloud")
    shadow = clip01(0.75 + (part.y - y) / (0.75 * size)) * cover
    canvas.stipple(part, shadow * np.float32(0.5), canvas.palette.sky(0.35))


def _paint_birds(canvas: Canvas, horizon: float) -> None:
    rng = canvas.rng
    x, y = rng.uniform(0.15, 0.85) * canvas.width, horizon * rng.uniform(0.2, 0.6)
    color = canvas.contrast_at(x, y, 0.9, 8)
    size = rng.uniform(1.6, 3.4)
    for _ in range(int(rng.integers(3, 9))):
        at = (x + rng.normal(0, 9), min(max(y + rng.normal(0, 5), 4), 0.85 * horizon))
        span, lift = size * rng.uniform(0.75, 1.2), rng.uniform(0.3, 0.75)
        for side in (-1, 1):
            elbow = (at[0] + side * span * 0.55, at[1] - lift * span)
            tip = (at[0] + side * span * 1.25, at[1] - lift * span * 0.55)
            canvas.line(at, elbow, 0.75, color, "bird")
            canvas.line(elbow, tip, 0.75, color, "bird", end_width=0.3)


def _paint_balloon(canvas: Canvas, horizon: float, sun_x: float) -> None:
    rng, palette = canvas.rng, canvas.palette
    # Keep away from the sun.
    x = (sun_x + canvas.width * rng.uniform(0.3, 0.7)) % canvas.width
    x = min(max(x, 9), canvas.width - 9)
    radius = min(rng.uniform(3.8, 7), 0.22 * horizon)
    y = max(horizon * rng.uniform(0.2, 0.42), radius + 1)
    ground = canvas.color_at(x, y)
    color = palette.contrasting_ink(ground, rng)
    stripe = palette.contrast(color, 0.55)
    foot = y + 1.75 * radius
    for side in (-1, 1):
        canvas.line((x + 0.75 * side * radius, y + 0.55 * radius), (x, foot), 0.4, color)
    skirt = ((-0.86, 0.5), (0.86, 0.5), (0.22, 1.4), (-0.22, 1.4))
    canvas.polygon(points_around(x, y, radius, *skirt), color, "balloon")
    canvas.disc(x, y, radius, color, "balloon")
    canvas.ellipse(x, y, 0.55 * radius, radius, stripe, "balloon")
    canvas.ellipse(x, y, 0.2 * radius, radius, color, "balloon")
    basket = 0.28 * radius
    canvas.box(x - basket, foot - 0.2, x + basket, foot + 1.5 * basket, stripe, "balloon")


def hill_line(canvas: Canvas, level: float, height: float, *, cells: float = 2.0) -> Floats:
    """Return a gently rolling line (width,) around a level."""
    line = fractal_line(canvas.rng, canvas.shape[1], cells, octaves=3, gain=0.35)
    return level + np.float32(height) * line


def ridge_line(canvas: Canvas, level: float, height: float, n_peaks: int) -> tuple[Floats, Floats]:
    """Return the line of a mountain range above a level.

    Returns
    -------
    (width,) y of the line, and (width,) distance from the nearest summit, negative to its left.
    """
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
    return line.astype(np.float32), side.astype(np.float32)


def paint_range(
    canvas: Canvas,
    ridge: tuple[Floats, Floats],
    depth: float,
    light: int,
    *,
    snow: float = 0,
) -> None:
    """Paint mountains with lit and shaded flanks.

    Parameters
    ----------
    ridge : from `ridge_line`.
    light : -1 for light from the left, 1 from the right.
    snow : height of the snow, in units below the line.
    """
    palette = canvas.palette
    heights, side = ridge
    part, cover = canvas.ground_cover(heights)
    color = palette.land(depth)
    canvas.paint(part, cover, color, "mountain")
    under = part.y - heights
    folds = canvas.noise(6, 9, octaves=4, gain=0.6)[part.rows]
    # The edge of the shade runs down from the summit; its deviations grow on the way.
    spine = light * side + folds * (1.2 + 0.28 * np.clip(under, 0, 40))
    shade = clip01(0.5 - spine * np.float32(0.7 * canvas.scale)) * cover
    canvas.paint(part, shade, palette.tint(color, -0.3), MARK)
    white = np.zeros_like(cover)
    if snow:
        crooked = under + 0.22 * snow * canvas.rough[part.rows] + 0.5 * folds
        white = canvas.edge(crooked - snow) * cover
        paper = mix(palette.paper, palette.sky(0.9), 0.06)
        canvas.paint(part, white * (1 - shade), paper, "snow")
        canvas.paint(part, white * shade, mix(paper, color, 0.45), MARK)
    streaks = canvas.noise(7, 30, octaves=3, gain=0.7)[part.rows]
    bare = cover * (1 - white * np.float32(0.75)) * clip01(under / 5)
    light_streaks = clip01(streaks * 1.5 - 0.9) * bare * np.float32(0.6)
    canvas.paint(part, light_streaks, palette.contrast(color, 0.4), MARK)
    dark_streaks = clip01(-streaks * 1.5 - 1.2) * bare * np.float32(0.5)
    canvas.paint(part, dark_streaks, palette.tint(color, -0.5), MARK)
    mist = np.clip((under - 24) / 60, 0, 0.5) * cover
    canvas.stipple(part, mist, mix(palette.sky(1), color, 0.3))


def paint_hill(canvas: Canvas, heights: Floats, color: Floats, tag: str | None = "") -> Window:
    """Paint ground under a line, shaded towards its foot."""
    part, cover = canvas.ground_cover(heights)
    canvas.paint(part, cover, color, tag)
    under = clip01((part.y - heights) / 45)
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
    """Paint water with waves that grow from the horizon towards the viewer.

    Parameters
    ----------
    glint : x of a light that is mirrored.
    calm : factor of the length of the waves.
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
        present = clip01(0.5 + 1.6 * (gaps - 0.15))
        canvas.paint(part, strokes * present * cover * np.float32(0.75), ink, MARK)
    if glint is not None:
        spread = 2.5 + 0.32 * near
        column = clip01(1.2 - abs(part.x - glint) / spread)
        bend = canvas.noise(10, 7, octaves=2)[part.rows, part.columns]
        strokes = _strokes(1.3 * rows + 0.4 * bend, 1.3 * width)
        ink = mix(palette.glow, palette.paper, 0.3)
        canvas.paint(part, clip01(strokes * 1.4) * column * cover, ink, MARK)


def _strokes(place: Floats, width: Floats) -> Floats:
    """Return soft stripes, faded out where they are finer than pixels."""
    wave = np.sin(np.float32(2 * np.pi) * place) - np.float32(0.35)
    sharp = np.clip(0.5 / np.maximum(width, 1e-3) * 0.35, 0.3, 2.5)
    fine = clip01(0.5 / np.maximum(width, 1e-3) - 0.9)
    return clip01(0.5 + wave * sharp) * fine
