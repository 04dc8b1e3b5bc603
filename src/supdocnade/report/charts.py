"""Charts of reliability in SVG, and pictures inside a page as data URIs.

Charts are coloured by the classes of the page's style sheet, so that they follow its light or dark
theme.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from supdocnade.images.decode import encode
from supdocnade.metrics import share_interval


class Plot:
    """A plotting area, its two scales, and the SVG parts drawn so far.

    Parameters
    ----------
    margins : pixels on the left, right, top and bottom.
    padding : pixels between the sides of the area and the ends of the x scale.
    """

    def __init__(
        self,
        x_range: tuple[float, float],
        y_range: tuple[float, float],
        *,
        size: tuple[int, int] = (360, 250),
        margins: tuple[int, int, int, int] = (46, 14, 34, 44),
        padding: int = 0,
    ):
        self.x_range, self.y_range, self.padding = x_range, y_range, padding
        self.width, self.height = size
        self.left, right, self.top, bottom = margins
        self.right, self.bottom = self.width - right, self.height - bottom
        self.parts: list[str] = []

    def x(self, value: float) -> float:
        """Return the pixel of a number on the x scale."""
        low, high = self.x_range
        width = self.right - self.left - 2 * self.padding
        return self.left + self.padding + (value - low) / ((high - low) or 1) * width

    def y(self, value: float) -> float:
        """Return the pixel of a number on the y scale."""
        low, high = self.y_range
        return self.bottom - (value - low) / ((high - low) or 1) * (self.bottom - self.top)

    def path(self, d: str, style: str) -> None:
        """Draw an SVG path."""
        self.parts.append(f'<path d="{d}" {style}/>')

    def level(self, value: float, style: str) -> None:
        """Draw a horizontal line across the area."""
        self.path(f"M{self.left} {self.y(value):.1f}H{self.right}", style)

    def line(self, points: Sequence[tuple[float, float]], style: str) -> None:
        """Draw a line through pixels."""
        self.path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), style)

    def bar(self, x: float, low: float, high: float, style: str) -> None:
        """Draw a vertical error bar at pixel x."""
        self.path(f"M{x:.1f} {self.y(low):.1f}V{self.y(high):.1f}", style)

    def dot(self, x: float, y: float, radius: float, style: str, title: str = "") -> None:
        """Draw a dot at a pixel."""
        tooltip = f"<title>{escape(title)}</title>" if title else ""
        self.parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" {style}>{tooltip}</circle>'
        )

    def text(self, x: float, y: float, text: str, anchor: str) -> None:
        """Write text at a pixel."""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def y_ticks(self, ticks: Mapping[float, str], style: str) -> None:
        """Draw a grid line with its label at every value."""
        for value, label in ticks.items():
            self.level(value, style)
            self.text(self.left - 6, self.y(value) + 4, label, "end")

    def x_tick(self, value: float, label: str, anchor: str = "middle") -> None:
        """Write a label below a number on the x scale."""
        self.text(self.x(value), self.bottom + 18, label, anchor)

    def svg(self, title: str, attributes: str, more: str = "") -> Markup:
        """Return the drawing as an SVG element."""
        return Markup(
            f'<svg {attributes} viewBox="0 0 {self.width} {self.height}" role="img"{more}>'
            f"<title>{escape(title)}</title>{''.join(self.parts)}</svg>"
        )

    def labelled_svg(self, title: str, x_label: str, y_label: str) -> Markup:
        """Return the chart as a part of a page."""
        self.text(self.right, self.height - 6, x_label, "end")
        self.text(0, 13, y_label, "start")
        return self.svg(title, 'class="chart"')


def reliability_chart(
    bins: Sequence[tuple[float, int, int]], *, title: str, x_label: str, y_label: str
) -> Markup:
    """Return a chart of the share of correct predictions against their predicted probability.

    The area of a dot is the number of predictions, its bar their 95 % interval; the predictions of
    a calibrated model lie on the diagonal.

    Parameters
    ----------
    bins : mean confidence, right answers and answers of every bin.
    """
    plot = Plot((0, 1), (0, 1))
    ticks = {tick: f"{100 * tick:.0f} %" for tick in (0.0, 0.25, 0.5, 0.75, 1.0)}
    plot.y_ticks(ticks, 'class="grid"')
    plot.line([(plot.x(end), plot.y(end)) for end in (0, 1)], 'class="ideal"')
    for tick, label in ticks.items():
        plot.x_tick(tick, label, "end" if tick == 1 else "middle")
    largest = max((total for *_, total in bins), default=1)
    for confidence, hits, total in bins:
        x = plot.x(confidence)
        plot.bar(x, *share_interval(hits, total), 'class="span"')
        tooltip = f"predicted {100 * confidence:.0f} %: right {hits} of {total}"
        radius = 2.5 + 7 * (total / largest) ** 0.5
        plot.dot(x, plot.y(hits / total), radius, 'class="dot"', tooltip)
    return plot.labelled_svg(title, x_label, y_label)


COLUMNS = 4
EMPTY = 128
"""Grey level of a cell without a patch."""


def jpeg_uri(content: bytes) -> str:
    """Return a JPEG file as a data URI."""
    return f"data:image/jpeg;base64,{b64encode(content).decode('ascii')}"


def mosaic(patches: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return patches side by side, four in a row and as many rows, (4 · side, 4 · side, 3).

    The patches are (up to 16, side, side, 3).
    """
    side = patches.shape[1]
    full = np.full((COLUMNS * COLUMNS, side, side, 3), EMPTY, np.uint8)
    full[: len(patches)] = patches[: len(full)]
    grid = full.reshape(COLUMNS, COLUMNS, side, side, 3)
    return grid.transpose(0, 2, 1, 3, 4).reshape(COLUMNS * side, COLUMNS * side, 3)


def mosaic_uri(patches: NDArray[np.uint8]) -> str:
    """Return the mosaic of some patches as a data URI."""
    return jpeg_uri(encode(mosaic(patches), "JPEG", quality=85))
