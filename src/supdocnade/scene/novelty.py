"""Novelty detection: photographs that are unlike those that a model was fitted on.

With classes the score is the relative Mahalanobis distance in the space of topics: how much farther
a photograph is from the nearest class than from the mean of all photographs (Ren et al., 2021,
"A simple fix to Mahalanobis distance for improving near-OOD detection"). Without classes it is the
distance to the nearest training photographs. Decision 0012 compares them with other scores.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from supdocnade.scene.references import fit_scaler
from supdocnade.threads import one_blas_thread

Floats = NDArray[np.float64]

N_NEAREST = 3
"""Novelty without classes is the distance to the training photograph of this rank."""

SHRINKAGE = 0.3
"""Share of a multiple of the identity in a covariance, since there may be more topics than
photographs."""

MAX_REFERENCES = 2000
"""Training photographs that others are compared with. Of more, every second or third … is taken."""

KNOWN_SHARE = 0.95
"""Share of photographs like the training photographs that lie within the limit."""

MARKED_UNKNOWN = {"sift": 0.22, "network": 0.44}
"""Share of photographs of classes that were left out of training that lie beyond the limit, by the
kind of features, with the score of classes: `flagged` in experiments/results/novelty.json."""


def take_references(n_photographs: int) -> slice:
    """Return the training photographs that others are compared with.

    >>> take_references(2000), take_references(2001)
    (slice(None, None, 1), slice(None, None, 2))
    """
    return slice(None, None, max(math.ceil(n_photographs / MAX_REFERENCES), 1))


class NeighbourNovelty:
    """Distance to training photographs in the space of topics, with unit variance of every topic.

    Parameters
    ----------
    reference_BH : (photographs, topics) of training photographs.
    """

    def __init__(self, reference_BH: NDArray[np.floating]):
        self.mean_H, self.scale_H = fit_scaler(reference_BH)
        self.scaled_BH = self._scale(reference_BH)

    def scores(self, hidden_BH: NDArray[np.floating]) -> Floats:
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


class ClassNovelty:
    """Distance to the nearest class, relative to that to the mean of all training photographs.

    Distances are squared Mahalanobis distances. The classes share one covariance.

    Parameters
    ----------
    reference_BH : (photographs, topics) of training photographs.
    labels : their classes; those without one are a class of their own.
    """

    def __init__(self, reference_BH: NDArray[np.floating], labels: Sequence[str | None]):
        self.mean_H, self.scale_H = fit_scaler(reference_BH)
        scaled_BH = (reference_BH - self.mean_H) / self.scale_H
        class_B = np.unique([label or "" for label in labels], return_inverse=True)[1]
        mean_CH = np.stack([scaled_BH[class_B == c].mean(axis=0) for c in range(max(class_B) + 1)])
        self._class_HH = _whiten(scaled_BH - mean_CH[class_B])
        self._all_HH = _whiten(scaled_BH)
        with one_blas_thread():
            self._white_CH = mean_CH @ self._class_HH

    def scores(self, hidden_BH: NDArray[np.floating]) -> Floats:
        """Return the scores of documents, (B,): larger for those that are unlike every class.

        Every row is computed by itself: its number does not depend on the other rows.
        """
        score_B = np.empty(len(hidden_BH))
        with one_blas_thread():
            for row, hidden_H in enumerate(hidden_BH):
                scaled_H = (hidden_H - self.mean_H) / self.scale_H
                to_classes_C = np.square(self._white_CH - scaled_H @ self._class_HH).sum(axis=1)
                score_B[row] = to_classes_C.min() - np.square(scaled_H @ self._all_HH).sum()
        return score_B


def fit_novelty(
    reference_BH: NDArray[np.floating], labels: Sequence[str | None]
) -> NeighbourNovelty | ClassNovelty:
    """Return the score for photographs like these, by classes if there are several.

    Parameters
    ----------
    reference_BH, labels : topics and classes of all training photographs; a bounded number of them
        is used.
    """
    rows = take_references(len(reference_BH))
    if len({*labels} - {None}) > 1:
        return ClassNovelty(reference_BH[rows], labels[rows])
    return NeighbourNovelty(reference_BH[rows])


def _whiten(centred_BH: Floats) -> Floats:
    """Return the matrix that makes the covariance of centred rows the identity, (H, H)."""
    n_rows, n_topics = centred_BH.shape
    with one_blas_thread():
        covariance_HH = centred_BH.T @ centred_BH / n_rows
        variance = max(np.trace(covariance_HH) / n_topics, 1e-6)
        covariance_HH *= 1 - SHRINKAGE
        covariance_HH[np.diag_indices(n_topics)] += SHRINKAGE * variance
        return np.linalg.cholesky(np.linalg.inv(covariance_HH))


def unfamiliar_above(score_B: Floats) -> float | None:
    """Return the score that one more photograph of the same kind exceeds with 5 % probability.

    Parameters
    ----------
    score_B : of held-out photographs.

    Returns
    -------
    The smallest of the n scores that is not exceeded by 95 % of n + 1 photographs; None if there
    are fewer than 19.
    """
    rank = math.ceil(KNOWN_SHARE * (len(score_B) + 1))
    return None if rank > len(score_B) else float(np.sort(score_B)[rank - 1])
