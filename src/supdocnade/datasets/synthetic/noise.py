"""Smooth random fields, the same at every size of the picture but for their finest detail."""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
"""Single precision wherever there are many."""

_SPREAD = 1.44
"""One over the standard deviation of a cubic B-spline through white noise, along one axis."""


@functools.lru_cache(maxsize=512)
def _spline(length: int, cells: int) -> Floats:
    """Return the weights of the knots of a cubic B-spline, (length, cells + 3)."""
    place = (np.arange(length) + 0.5) * cells / length
    knots = np.arange(cells + 3) - 1
    far = abs(place[:, None] - knots)
    near = 2 / 3 - far**2 + far**3 / 2
    weights = np.where(far < 1, near, np.clip(2 - far, 0, None) ** 3 / 6)
    return weights.astype(np.float32)


def smooth_noise(
    rng: np.random.Generator, shape: tuple[int, int], cells: tuple[float, float]
) -> Floats:
    """Return a smooth field of mean 0 and deviation about 1, with so many cells down and across."""
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
    """Return noise of several scales, each half as wide and `gain` as strong as the one before."""
    total = np.zeros(shape, np.float32)
    for octave in range(octaves):
        finer = (cells[0] * 2**octave, cells[1] * 2**octave)
        total += np.float32(gain**octave) * smooth_noise(rng, shape, finer)
    return total / np.float32(sum(gain ** (2 * octave) for octave in range(octaves)) ** 0.5)


def fractal_line(
    rng: np.random.Generator, length: int, cells: float, *, octaves: int = 4, gain: float = 0.5
) -> Floats:
    """Return noise along one axis, (length,), of mean 0 and deviation about 1."""
    total = np.zeros(length, np.float32)
    for octave in range(octaves):
        knots = max(round(cells * 2**octave), 1)
        grid = rng.standard_normal(knots + 3, dtype=np.float32)
        total += np.float32(gain**octave * _SPREAD) * (_spline(length, knots) @ grid)
    return total / np.float32(sum(gain ** (2 * octave) for octave in range(octaves)) ** 0.5)
