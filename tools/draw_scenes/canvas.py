"""Canvas with anti-aliased shapes, random fields, and a map of the object at each pixel.

Coordinates are in units of one percent of the canvas height, from the top left corner, so that a
scene is the same picture at every size. Random fields differ between sizes only in their finest
detail.
"""

import functools
from collections.abc import Sequence, Set
from typing import NamedTuple

import numpy as np

from tools.draw_scenes.palettes import Floats, Palette

Point = tuple[float, float]
"""x and y."""

MARK = None
"""Tag of a mark on a surface: the surface stays visible."""

_SPREAD = 1.44
"""Inverse standard deviation of a cubic B-spline through white noise, along one axis."""


@functools.lru_cache(maxsize=512)
def _spline(length: int, cells: int) -> Floats:
    """Return the knot weights of a cubic B-spline, (length, cells + 3)."""
    place = (np.arange(length) + 0.5) * cells / length
    knots = np.arange(cells + 3) - 1
    far = abs(place[:, None] - knots)
    near = 2 / 3 - far**2 + far**3 / 2
    weights = np.where(far < 1, near, np.clip(2 - far, 0, None) ** 3 / 6)
    return weights.astype(np.float32)


def smooth_noise(
    rng: np.random.Generator, shape: tuple[int, int], cells: tuple[float, float]
) -> Floats:
    """Return a smooth field of mean 0 and standard deviation about 1.

    cells : number of cells down and across.
    """
    down, across = (max(round(count), 1) for count in cells)
    grid = rng.standard_normal((down + 3, across + 3), dtype=np.float32)
    field: Floats = _spline(shape[0], down) @ grid @ _spline(shape[1], across).T
    return field * np.float32(_SPREAD**2)


def fractal_noise(
    rng: np.random.Generator,
    shape: tuple[int, int],
    cells: tuple[float, float],
    *,
    octaves: int = 4,
    gain: float = 0.5,
) -> Floats:
    """Return noise of several octaves, each half as wide and `gain` times as strong as the last."""
    total = np.zeros(shape, np.float32)
    for octave in range(octaves):
        finer = (cells[0] * 2**octave, cells[1] * 2**octave)
        total += np.float32(gain**octave) * smooth_noise(rng, shape, finer)
    return total / np.float32(sum(gain ** (2 * octave) for octave in range(octaves)) ** 0.5)


def fractal_line(
    rng: np.random.Generator, length: int, cells: float, *, octaves: int = 4, gain: float = 0.5
) -> Floats:
    """Return noise along one axis, (length,), of mean 0 and standard deviation about 1."""
    total = np.zeros(length, np.float32)
    for octave in range(octaves):
        knots = max(round(cells * 2**octave), 1)
        grid = rng.standard_normal(knots + 3, dtype=np.float32)
        total += np.float32(gain**octave * _SPREAD) * (_spline(length, knots) @ grid)
    return total / np.float32(sum(gain ** (2 * octave) for octave in range(octaves)) ** 0.5)


def points_around(x: float, y: float, size: float, *offsets: Point) -> list[Point]:
    """Return the points at some offsets from (x, y), in multiples of `size`."""
    return [(x + size * across, y + size * down) for across, down in offsets]


def clip01(values: Floats) -> Floats:
    """Clip values to [0, 1]; much faster than `np.clip` on small arrays."""
    cut: Floats = np.minimum(np.maximum(values, np.float32(0)), np.float32(1))
    return cut


def stripe_cover(place: Floats, duty: float, width: Floats | float) -> Floats:
    """Return the share of each pixel covered by stripes that fill `duty` of each unit of `place`.

    The stripes are averaged over `width`, the size of a pixel in units of `place`, so that stripes
    much finer than pixels become an even tone.
    """
    width = np.maximum(width, 1e-4)

    def integral(t: Floats) -> Floats:
        whole = np.floor(t)
        return whole * np.float32(duty) + np.minimum(t - whole, np.float32(duty))

    share: Floats = (integral(place + width / 2) - integral(place - width / 2)) / width
    return share


class Window(NamedTuple):
    """Rectangle of pixels with their coordinates."""

    rows: slice
    columns: slice
    x: Floats
    """(1, pixels across)."""
    y: Floats
    """(pixels down, 1)."""


class Canvas:
    """Picture under construction, with the generator of its random choices."""

    def __init__(
        self,
        size: tuple[int, int],
        palette: Palette,
        rng: np.random.Generator,
        tags: Sequence[str],
        *,
        surfaces: Set[str] = frozenset(),
        zoom: float = 1.0,
    ) -> None:
        """Create an empty canvas.

        Parameters
        ----------
        tags : names of the objects that can be painted.
        surfaces : tags of objects recognised by their texture; they are visible on any background.
        zoom : above 1, the picture shows only a part of the canvas.
        """
        self.shape, self.zoom = size, zoom
        self.scale = size[0] / 100 * zoom
        """Pixels per unit."""
        self.width = 100 * size[1] / size[0]
        """Units across the whole canvas; there are 100 down."""
        self.palette, self.rng = palette, rng
        self.image: Floats = np.zeros((3, *size), np.float32)
        """(3, height, width) RGB from 0 to 1."""
        self.owner = np.zeros(size, np.uint8)
        self._surfaces = surfaces
        self._numbers = {tag: number for number, tag in enumerate(tags, start=1)}
        hidden = 1 - 1 / zoom
        self.left, self.top = hidden * self.width * rng.random(), hidden * 100 * rng.random()
        """Canvas coordinates of the top left corner of the picture."""
        self.x: Floats = self._centres(size[1], self.left)[None]
        self.y: Floats = self._centres(size[0], self.top)[:, None]
        # A separate generator: a larger picture needs more grain but must show the same scene.
        self.grain_rng = np.random.default_rng(int(rng.integers(2**62)))
        self.grain: Floats = self.grain_rng.random(size, dtype=np.float32)
        """(height, width) uniform from 0 to 1, for stippling."""
        self.rough: Floats = self.noise(14, octaves=4, gain=0.65)
        """(height, width) of standard deviation 1, for uneven edges and tones."""

    def _centres(self, length: int, start: float) -> Floats:
        return ((np.arange(length) + 0.5) / self.scale + start).astype(np.float32)

    def noise(
        self, down: float, across: float | None = None, *, octaves: int = 4, gain: float = 0.5
    ) -> Floats:
        """Return a random field (height, width), with the given number of cells per 100 units."""
        across = (down if across is None else across) * self.width / 100
        cells = (down / self.zoom, across / self.zoom)
        return fractal_noise(self.rng, self.shape, cells, octaves=octaves, gain=gain)

    def window(self, left: float, top: float, right: float, bottom: float) -> Window:
        """Return the window, perhaps empty, that holds a box and its soft edge."""

        def pixels(first: float, last: float, length: int) -> slice:
            low, high = first * self.scale - 1, last * self.scale + 2
            return slice(int(min(max(low, 0), length)), int(min(max(high, 0), length)))

        rows = pixels(top - self.top, bottom - self.top, self.shape[0])
        columns = pixels(left - self.left, right - self.left, self.shape[1])
        return Window(rows, columns, self.x[:, columns], self.y[rows])

    @property
    def full_window(self) -> Window:
        """Window of the whole picture."""
        return Window(slice(None), slice(None), self.x, self.y)

    def edge(self, distance: Floats) -> Floats:
        """Return the covered share of each pixel from its distance outside an edge, in units."""
        return clip01(np.float32(0.5) - distance * np.float32(self.scale))

    def color_at(self, x: float, y: float, radius: float = 3.0) -> Floats:
        """Return the mean colour (3,) around a point, moved into the picture if it lies outside."""
        x = min(max(x, float(self.x[0, 0])), float(self.x[0, -1]))
        y = min(max(y, float(self.y[0, 0])), float(self.y[-1, 0]))
        part = self.window(x - radius, y - radius, x + radius, y + radius)
        mean: Floats = self.image[:, part.rows, part.columns].mean(axis=(1, 2))
        return mean

    def contrast_at(self, x: float, y: float, amount: float, radius: float = 3.0) -> Floats:
        """Return a colour that stands out from the mean colour around a point."""
        return self.palette.contrast(self.color_at(x, y, radius), amount)

    def paint(self, part: Window, cover: Floats, color: Floats, tag: str | None = "") -> None:
        """Blend a colour into a window.

        Parameters
        ----------
        cover : opacity from 0 to 1, in the shape of the window.
        color : (3,), or (3, height, width) for one colour per pixel.
        tag : name of the object; "" for an unnamed one, which hides the object below; MARK for a
            mark on the object below.
        """
        if not cover.size:
            return
        below = self.image[:, part.rows, part.columns]
        change = (color[:, None, None] if color.ndim == 1 else color) - below
        change *= cover
        if tag is not MARK:
            owner = self.owner[part.rows, part.columns]
            np.copyto(owner, 0, where=cover > 0.5)
        if tag:
            visible = cover > 0.4
            if tag not in self._surfaces:
                # An object needs some contrast with its background to be visible.
                red, green, blue = abs(change)
                visible &= np.maximum(np.maximum(red, green), blue) > 0.035
            np.copyto(owner, self._numbers[tag], where=visible)
        below += change

    def stipple(self, part: Window, density: Floats, color: Floats) -> None:
        """Paint fine dots with a density from 0 to 1."""
        cover = clip01((density - self.grain[part.rows, part.columns]) * np.float32(2.5))
        self.paint(part, cover, color, MARK)

    def halo(self, x: float, y: float, radius: float, color: Floats, strength: float) -> None:
        """Paint light around a point that fades away towards a radius."""
        part = self.window(x - radius, y - radius, x + radius, y + radius)
        far = np.hypot(part.x - x, part.y - y) / radius
        self.paint(part, np.float32(strength) * clip01(1 - far) ** 2, color, MARK)

    def disc(self, x: float, y: float, radius: float, color: Floats, tag: str | None = "") -> None:
        """Paint a disc."""
        self.ellipse(x, y, radius, radius, color, tag)

    def ellipse(
        self, x: float, y: float, across: float, down: float, color: Floats, tag: str | None = ""
    ) -> None:
        """Paint an ellipse, given its radii."""
        part = self.window(x - across, y - down, x + across, y + down)
        far = np.sqrt(((part.x - x) / across) ** 2 + ((part.y - y) / down) ** 2)
        self.paint(part, self.edge((far - 1) * min(across, down)), color, tag)

    def box(
        self,
        left: float,
        top: float,
        right: float,
        bottom: float,
        color: Floats,
        tag: str | None = "",
    ) -> None:
        """Paint a rectangle."""
        part = self.window(left, top, right, bottom)
        if part.x.size and part.y.size:
            cover = self.span(part.x, left, right) * self.span(part.y, top, bottom)
            self.paint(part, cover, color, tag)

    def span(self, place: Floats, first: float, last: float) -> Floats:
        """Return the share of each pixel that lies between two coordinates of one axis."""
        half = np.float32(0.5 / self.scale)
        inside = np.minimum(place + half, last) - np.maximum(place - half, first)
        return clip01(inside * np.float32(self.scale))

    def polygon(
        self, points: Sequence[Point], color: Floats, tag: str | None = "", *, opacity: float = 1
    ) -> None:
        """Paint a convex polygon, given its corners in either orientation."""
        part, cover = self.polygon_cover(points)
        self.paint(part, cover * np.float32(opacity), color, tag)

    def polygon_cover(self, points: Sequence[Point]) -> tuple[Window, Floats]:
        """Return the window of a convex polygon and its cover there."""
        xs, ys = zip(*points, strict=True)
        part = self.window(min(xs), min(ys), max(xs), max(ys))
        pairs = list(zip(points, [*points[1:], points[0]], strict=True))
        area = sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in pairs)
        sign = 1 if area > 0 else -1
        distance = np.full((part.y.shape[0], part.x.shape[1]), -1e6, np.float32)
        for (x0, y0), (x1, y1) in pairs:
            length = np.hypot(x1 - x0, y1 - y0)
            if length > 0:
                across, down = sign * (y1 - y0) / length, -sign * (x1 - x0) / length
                far = np.float32(across) * (part.x - x0) + np.float32(down) * (part.y - y0)
                np.maximum(distance, far, out=distance)
        return part, self.edge(distance)

    def line(
        self,
        start: Point,
        end: Point,
        width: float,
        color: Floats,
        tag: str | None = "",
        *,
        end_width: float | None = None,
    ) -> None:
        """Paint a line with round ends; its width may change along it."""
        (x0, y0), (x1, y1) = start, end
        end_width = width if end_width is None else end_width
        half = max(width, end_width) / 2
        left, right = min(x0, x1) - half, max(x0, x1) + half
        part = self.window(left, min(y0, y1) - half, right, max(y0, y1) + half)
        if not part.x.size or not part.y.size:
            return
        dx, dy = x1 - x0, y1 - y0
        dot = (part.x - x0) * dx + (part.y - y0) * dy
        along = clip01(dot / max(dx * dx + dy * dy, 1e-9))
        far = np.hypot(part.x - x0 - along * dx, part.y - y0 - along * dy)
        thickness = width + (end_width - width) * along
        # Lines thinner than a pixel become paler, not thicker.
        cover = self.edge(far - thickness / 2) * np.minimum(thickness * self.scale, 1)
        self.paint(part, cover, color, tag)

    def ground_cover(self, heights: Floats) -> tuple[Window, Floats]:
        """Return the window of the ground under a line, (width,) of y, and its cover there."""
        part = self.window(0, float(heights.min()), self.width, 100)
        slope = np.gradient(heights, 1 / self.scale)
        return part, self.edge((heights - part.y) / np.hypot(1, slope).astype(np.float32))

    def areas(self) -> dict[str, float]:
        """Return the share of the picture on which each tag is visible."""
        counts = np.bincount(self.owner.ravel(), minlength=len(self._numbers) + 1)
        return {tag: counts[number] / self.owner.size for tag, number in self._numbers.items()}
