"""Lines over the number of topics, as small SVG files that are right on light and dark pages."""

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from markupsafe import escape

WIDTH, HEIGHT = 640, 380
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 28, 46
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#7f7f7f", "#56b4e9")
"""Apart for nearly all eyes, and readable on white and on black (Okabe and Ito)."""

MOST_TICKS = 7
ASIDE = 4
"""Pixels between methods of one number of topics, so that their bars do not hide each other."""


class Point(NamedTuple):
    """A mean and its standard deviation."""

    x: int
    mean: float
    spread: float


def topic_chart(
    lines: Mapping[str, Sequence[Point]], levels: Mapping[str, float], *, title: str, y_label: str
) -> str:
    """Return a chart of methods against the number of topics, which are evenly spaced.

    Parameters
    ----------
    lines : the points of every method.
    levels : methods without topics, drawn as horizontal lines.
    """
    xs = sorted({point.x for points in lines.values() for point in points})
    values = [p.mean + sign * p.spread for ps in lines.values() for p in ps for sign in (-1, 1)]
    values += list(levels.values())
    low, high = min(values), max(values)
    room = 0.05 * (high - low) or 1.0
    low, high = low - room, high + room

    def x_of(x: int) -> float:
        step = (WIDTH - LEFT - RIGHT - 200) / max(len(xs) - 1, 1)
        return LEFT + 20 + xs.index(x) * step

    def y_of(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    right = WIDTH - RIGHT - 160
    parts = []
    for value in round_ticks(low, high):
        y = y_of(value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#8884" fill="none"/>')
        parts.append(_text(LEFT - 6, y + 4, f"{value:g}", "end"))
    parts += [_text(x_of(x), HEIGHT - BOTTOM + 18, str(x), "middle") for x in xs]
    names = [*lines, *levels]
    for number, name in enumerate(names):
        colour = COLOURS[number % len(COLOURS)]
        legend = TOP + 10 + 19 * number
        dash = ' stroke-dasharray="5 4"' if name in levels else ""
        parts.append(
            f'<path d="M{right + 12} {legend}h18" stroke="{colour}" stroke-width="2"{dash}/>'
        )
        parts.append(_text(right + 35, legend + 4, name, "start"))
        if name in levels:
            y = y_of(levels[name])
            parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="{colour}" fill="none"{dash}/>')
            continue
        aside = ASIDE * (number - (len(lines) - 1) / 2)
        places = [(x_of(p.x) + aside, y_of(p.mean), p) for p in lines[name]]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in places)
        parts.append(f'<path d="M{path}" stroke="{colour}" stroke-width="2" fill="none"/>')
        for across, y, point in places:
            ends = y_of(point.mean - point.spread), y_of(point.mean + point.spread)
            parts.append(f'<path d="M{across:.1f} {ends[0]:.1f}V{ends[1]:.1f}" stroke="{colour}"/>')
            said = f"{name}, {point.x} topics: {point.mean:.1f} ± {point.spread:.1f}"
            parts.append(
                f'<circle cx="{across:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}">'
                f"<title>{escape(said)}</title></circle>"
            )
    parts.append(_text(right, HEIGHT - 8, "topics", "end"))
    parts.append(_text(4, 14, y_label, "start"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12" fill="#777">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>\n"
    )


def round_ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two others, as many as there is room for.

    >>> round_ticks(71.3, 80.2)
    [72.0, 74.0, 76.0, 78.0, 80.0]
    """
    power = 10.0 ** floor(log10((high - low) / MOST_TICKS))
    for step in (power, 2 * power, 5 * power, 10 * power):
        first, last = ceil(low / step), floor(high / step)
        if last - first < MOST_TICKS:
            break
    return [round(number * step, 10) for number in range(first, last + 1)]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
