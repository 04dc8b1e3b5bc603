"""A diverging colour scale that is also a grey scale: from dark blue over grey to bright yellow."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LIGHTNESS = (0.22, 0.60, 0.97)
"""Of -1, 0 and 1 in OKLab, where equal steps look equal."""

CHROMA = (0.13, 0.15)
HUES = (4.75, 1.45)
"""Of the dark and of the bright end: blue, and yellow that comes from orange; in radians."""


def diverging(values: Floats) -> Floats:
    """Return colours of numbers in [-1, 1], (..., 3) sRGB in [0, 1]; larger ones are lighter.

    >>> diverging(np.array([-1.0, 0.0, 1.0])).mean(axis=1).round(1).tolist()
    [0.1, 0.5, 0.9]
    """
    t = np.clip(values, -1.0, 1.0)
    lightness = np.interp(t, (-1, 0, 1), LIGHTNESS)
    size = np.abs(t)
    # Towards the ends there is less room for colour between black and white.
    chroma = np.where(t < 0, *CHROMA) * np.sin(0.75 * np.pi * size)
    hue = np.where(t < 0, HUES[0], HUES[1] + 0.45 * (size - 1))
    return _to_srgb(lightness, chroma * np.cos(hue), chroma * np.sin(hue))


def lightness(colours: Floats) -> Floats:
    """Return the OKLab lightness of sRGB colours in [0, 1]."""
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    cones = np.cbrt(linear @ _RGB_TO_LMS.T)
    result: Floats = cones @ np.array([0.2104542553, 0.7936177850, -0.0040720468])
    return result


def _to_srgb(lightness: Floats, a: Floats, b: Floats) -> Floats:
    """Return sRGB colours of OKLab (Ottosson 2020), clipped to those that a screen has."""
    cones = np.stack(
        [
            lightness + 0.3963377774 * a + 0.2158037573 * b,
            lightness - 0.1055613458 * a - 0.0638541728 * b,
            lightness - 0.0894841775 * a - 1.2914855480 * b,
        ],
        axis=-1,
    )
    linear = np.clip(cones**3 @ np.linalg.inv(_RGB_TO_LMS).T, 0.0, 1.0)
    result: Floats = np.where(
        linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055
    )
    return result


_RGB_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
