"""Distances and similarities of all pairs of histograms, compiled.

On the words of our own recipe scikit-learn's χ² of Scene15 takes more than a minute, one number
after the other; here the vector units take eight at a time.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supdocnade.jit import kernel

TILE = 32
"""Histograms that stay in the cache while all others pass by."""

LEAST = np.float32(1e-30)
"""Below any share: what a word adds that neither histogram has is 0, not 0 / 0."""


def chi2_distances(first_AD: ArrayLike, second_BD: ArrayLike) -> NDArray[np.float64]:
    """Return Σ (a - b)² / (a + b) of every pair, (A, B)."""
    return _of_all_pairs(_chi2, first_AD, second_BD)


def intersections(first_AD: ArrayLike, second_BD: ArrayLike) -> NDArray[np.float64]:
    """Return Σ min(a, b) of every pair, (A, B)."""
    return _of_all_pairs(_intersection, first_AD, second_BD)


def _of_all_pairs(function, first_AD: ArrayLike, second_BD: ArrayLike) -> NDArray[np.float64]:  # type: ignore[no-untyped-def]
    first_AD, second_BD = (np.ascontiguousarray(each, np.float32) for each in (first_AD, second_BD))
    out_AB = np.empty((len(first_AD), len(second_BD)), np.float32)
    function(first_AD, second_BD, out_AB)
    return out_AB.astype(np.float64)


@kernel
def _chi2(first_AD, second_BD, out_AB):  # type: ignore[no-untyped-def]
    for start in range(0, len(second_BD), TILE):
        for a in range(len(first_AD)):
            for b in range(start, min(start + TILE, len(second_BD))):
                total = np.float32(0)
                for d in range(first_AD.shape[1]):
                    x, y = first_AD[a, d], second_BD[b, d]
                    total += (x - y) * (x - y) / (x + y + LEAST)
                out_AB[a, b] = total


@kernel
def _intersection(first_AD, second_BD, out_AB):  # type: ignore[no-untyped-def]
    for start in range(0, len(second_BD), TILE):
        for a in range(len(first_AD)):
            for b in range(start, min(start + TILE, len(second_BD))):
                total = np.float32(0)
                for d in range(first_AD.shape[1]):
                    x, y = first_AD[a, d], second_BD[b, d]
                    total += x if x < y else y
                out_AB[a, b] = total
