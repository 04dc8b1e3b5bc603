"""Novelty detection: photographs that are unlike those that a model was fitted on.

The measure is the distance to the nearest training photographs in the space of topics. It needs no
classes, and separates classes that were left out of training better than the likelihood of the
words (docs/experiments.md).
"""

import math

import numpy as np
from numpy.typing import NDArray

from supdocnade.scene.svm import fit_scaler

Floats = NDArray[np.float64]

N_NEAREST = 3
"""The distance is that to this training photograph, in the order of distances."""

MAX_REFERENCES = 2000
"""Training photographs that others are compared with; of more, every second, third, ... one."""

KNOWN_SHARE = 0.95
"""Share of photographs like the training photographs that lie within the limit."""


def take_references(n_photographs: int) -> slice:
    """Return the training photographs that others are compared with.

    >>> take_references(2000), take_references(2001)
    (slice(None, None, 1), slice(None, None, 2))
    """
    return slice(None, None, max(math.ceil(n_photographs / MAX_REFERENCES), 1))


class TopicNeighbours:
    """Training photographs in the space of topics, with unit variance of every topic.

    Parameters
    ----------
    reference_BH : (photographs, topics) of training photographs.
    """

    def __init__(self, reference_BH: NDArray[np.floating]):
        self.mean_H, self.scale_H = fit_scaler(reference_BH)
        self.scaled_BH = self._scale(reference_BH)

    def distances(self, hidden_BH: NDArray[np.floating]) -> Floats:
        """Return the distance of documents to their third nearest training photograph, (B,).

        Every row is computed by itself: its number does not depend on the other rows.
        """
        place = min(N_NEAREST, len(self.scaled_BH)) - 1
        distance_B = np.empty(len(hidden_BH))
        for row, scaled_H in enumerate(self._scale(hidden_BH)):
            squared_B = np.square(self.scaled_BH - scaled_H).sum(axis=1)
            distance_B[row] = math.sqrt(np.partition(squared_B, place)[place])
        return distance_B

    def _scale(self, hidden_BH: NDArray[np.floating]) -> Floats:
        scaled_BH: Floats = (hidden_BH - self.mean_H) / self.scale_H
        return scaled_BH


def unfamiliar_above(distance_B: Floats) -> float | None:
    """Return the distance that one more photograph of the same kind exceeds with 5 % probability.

    Parameters
    ----------
    distance_B : of held-out photographs.

    Returns
    -------
    The smallest of these distances that at least 95 % of n + 1 photographs lie within; None if
    there are fewer than 19.
    """
    rank = math.ceil(KNOWN_SHARE * (len(distance_B) + 1))
    return None if rank > len(distance_B) else float(np.sort(distance_B)[rank - 1])
