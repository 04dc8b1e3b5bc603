"""Small charts as SVG, in the colours of the page around them.

They have no colours of their own, only the classes of its style sheet, so that they are right in
light and in dark.
"""

from base64 import b64encode
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from supdocnade.images.decode import encode
from supdocnade.report.evaluation import Bin, interval

WIDTH, HEIGHT = 360, 250
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 34, 44


class _Plane:
    """A rectangle with numbers along its sides."""

    def __init__(self, x_range: tuple[float, float], y_range: tuple[float, float]):
        self.x_range, self.y_range = x_range, y_range

    def x(self, value: float) -> float:
        low, high = self.x_range
        return LEFT + (value - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return HEIGHT - BOTTOM - (value - low) / ((high - low) or 1) * (HEIGHT - TOP - BOTTOM)

    def grid(self, values: Sequence[float], labels: Sequence[str]) -> list[str]:
        """Return horizontal lines with numbers."""
        parts = []
        for value, label in zip(values, labels, strict=True):
            y = self.y(value)
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(_text(LEFT - 7, y + 4, label, "end"))
        return parts


def line_chart(values: Sequence[float], *, title: str, x_label: str, y_label: str) -> Markup:
    """Return the course of a number, one value after the other.

    Parameters
    ----------
    values : the first belongs to 1.
    title : what the chart says, for those who do not see it.
    """
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or max(abs(high) * 0.05, 0.5)
    plane = _Plane((1, max(len(values), 2)), (low - room, high + room))
    ticks = [low + (high - low) * step / 3 for step in range(4)] if high > low else [low]
    parts = plane.grid(ticks, [f"{tick:.3g}" for tick in ticks])
    points = [(plane.x(number), plane.y(value)) for number, value in enumerate(values, 1)]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    parts.append(f'<path class="line" d="M{path}"/>')
    parts.append(_circle(*points[-1], 3.5))
    for number in _epoch_ticks(len(values)):
        parts.append(_text(plane.x(number), HEIGHT - BOTTOM + 18, str(number), "middle"))
    return _svg(parts, title, x_label, y_label)


def _epoch_ticks(n: int) -> list[int]:
    """Return round numbers from 1 to n.

    >>> _epoch_ticks(40)
    [1, 10, 20, 30, 40]
    """
    step = next(size for size in (1, 2, 5, 10, 20, 50, 100, 200, 500, 10**9) if n / size <= 6)
    return [1, *range(step, n + 1, step)] if step > 1 else list(range(1, n + 1))


def reliability_chart(bins: Sequence[Bin], *, title: str, x_label: str, y_label: str) -> Markup:
    """Return how often answers were right against how probable they were said to be.

    The area of a dot is the number of answers, its line their 95 % interval; on the diagonal the
    model is as sure as it may be.
    """
    plane = _Plane((0, 1), (0, 1))
    ticks = (0.0, 0.25, 0.5, 0.75, 1.0)
    labels = [f"{100 * tick:.0f} %" for tick in ticks]
    parts = plane.grid(ticks, labels)
    corner, end = (plane.x(0), plane.y(0)), (plane.x(1), plane.y(1))
    parts.append(
        f'<path class="ideal" d="M{corner[0]:.1f} {corner[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"/>'
    )
    for tick, label in zip(ticks, labels, strict=True):
        anchor = "end" if tick == 1 else "middle"
        parts.append(_text(plane.x(tick), HEIGHT - BOTTOM + 18, label, anchor))
    most = max((each.right.total for each in bins), default=1)
    for each in bins:
        x, share = plane.x(each.confidence), each.right
        low, high = (plane.y(end) for end in interval(share))
        parts.append(f'<path class="span" d="M{x:.1f} {low:.1f}V{high:.1f}"/>')
        said = f"said {100 * each.confidence:.0f} %: right {share.hits} of {share.total}"
        radius = 2.5 + 7 * (share.total / most) ** 0.5
        parts.append(_circle(x, plane.y(share.value or 0.0), radius, said))
    return _svg(parts, title, x_label, y_label)


def region_chart(weights: Sequence[float], grid: tuple[int, int]) -> Markup:
    """Return where in the photograph a word counts: the cells of a grid, the strongest darkest.

    Parameters
    ----------
    weights : of all cells, row by row.
    grid : rows and columns.
    """
    rows, columns = grid
    best = max(range(len(weights)), key=lambda cell: weights[cell])
    title = f"strongest in row {best // columns + 1} of {rows}, column {best % columns + 1}"
    title += f" of {columns}"
    parts = [f"<title>{escape(title)}</title>"]
    for cell, weight in enumerate(weights):
        shade = max(weight, 0.0) / weights[best] if weights[best] > 0 else 0.0
        x, y = cell % columns, cell // columns
        parts.append(
            f'<rect class="cell" x="{x + 0.06}" y="{y + 0.06}" width="0.88" height="0.88" '
            f'fill-opacity="{0.08 + 0.92 * shade**2:.2f}"/>'
        )
    return Markup(
        f'<svg class="regions" viewBox="0 0 {columns} {rows}" role="img">{"".join(parts)}</svg>'
    )


def _svg(parts: Sequence[str], title: str, x_label: str, y_label: str) -> Markup:
    labels = [_text(WIDTH - RIGHT, HEIGHT - 6, x_label, "end"), _text(0, 13, y_label, "start")]
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f"<title>{escape(title)}</title>{''.join([*parts, *labels])}</svg>"
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _circle(x: float, y: float, radius: float, title: str = "") -> str:
    said = f"<title>{escape(title)}</title>" if title else ""
    return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">{said}</circle>'


# Pictures inside a page: as data, so that nothing has to be fetched.

COLUMNS = 4
EMPTY = 128
"""Grey level of a place without a patch."""


def jpeg_uri(content: bytes) -> str:
    """Return a JPEG file as an address that holds it."""
    return f"data:image/jpeg;base64,{b64encode(content).decode('ascii')}"


def mosaic(patches: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return patches side by side, four in a row and as many rows, (4 · side, 4 · side, 3).

    Parameters
    ----------
    patches : (up to 16, side, side, 3).
    """
    side = patches.shape[1]
    full = np.full((COLUMNS * COLUMNS, side, side, 3), EMPTY, np.uint8)
    full[: len(patches)] = patches[: len(full)]
    grid = full.reshape(COLUMNS, COLUMNS, side, side, 3)
    return grid.transpose(0, 2, 1, 3, 4).reshape(COLUMNS * side, COLUMNS * side, 3)


def mosaic_uri(patches: NDArray[np.uint8]) -> str:
    """Return patches side by side as an address that holds them."""
    return jpeg_uri(encode(mosaic(patches), "JPEG", quality=85))
