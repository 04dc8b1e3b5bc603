"""Rotation of topic features into topics that people can read.

A hidden unit is one of many that describe a document together, and units are correlated with each
other, so the words of a single unit say little. A rotation leaves the model as it is and describes
the same features by other axes: principal components, scaled to a mean square of 1 and rotated by
varimax so that each axis is large for a few documents and near zero for the others. These axes are
the topics that are shown (docs/decisions/0039-reading-topics.md). Without documents, the features
of documents that consist of one word each take their place.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument
from supdocnade.model.inference import NetworkArrays, word_log_proba
from supdocnade.schema import array
from supdocnade.threads import one_blas_thread

Floats = NDArray[np.float64]

MAX_DOCUMENTS = 10_000
"""Documents that determine the rotation, evenly spaced over those given; bounds the time."""

MAX_READ, MAX_ENTRIES = 2000, 2**22
"""Documents whose next word is predicted to find the words of topics, evenly spaced over those
given, and probabilities that are computed at a time; they bound time and memory."""

MIN_SQUARE = 1e-6
"""Components with a smaller mean square, relative to the largest, are left out."""

MAX_STEPS, TOLERANCE = 200, 1e-5
"""Steps of varimax, and the relative increase of its criterion at which they end."""


@dataclass(frozen=True, eq=False)
class TopicRotation:
    """Axes of topic features; the letter R stands for these topics, at most as many as units."""

    axes_HR: Floats = array("HR")
    """From topic features to topics, whose mean square is 1."""
    inverse_RH: Floats = array("RH")
    """From topics back to topic features."""

    @property
    def strength_R(self) -> Floats:
        """Share of each topic in the squares of the topic features, falling; they sum to 1."""
        square_R = np.square(self.inverse_RH).sum(axis=1)
        strength_R: Floats = square_R / max(square_R.sum(), np.finfo(float).tiny)
        return strength_R

    def rotate(self, hidden_BH: NDArray[np.floating]) -> Floats:
        """Return the topics of documents, (B, R), given their topic features."""
        topics_BR: Floats = hidden_BH @ self.axes_HR
        return topics_BR

    def rotate_weights(self, weight_CH: NDArray[np.floating]) -> Floats:
        """Return the weights of topics, (C, R), in a linear function of the topic features."""
        weight_CR: Floats = weight_CH @ self.inverse_RH.T
        return weight_CR


def find_rotation(hidden_BH: NDArray[np.floating], share: float = 1.0) -> TopicRotation:
    """Return the topics of the topic features of some documents, the strongest topic first.

    A topic is positive for the documents that have it: the mean of its third power is positive.

    Parameters
    ----------
    hidden_BH : topic features, finite, not all of them 0.
    share : of the squares of the topic features that the topics represent. The largest principal
        components that together reach this share are rotated.
    """
    rows = _evenly_spaced(len(hidden_BH), MAX_DOCUMENTS)
    chosen_BH = hidden_BH[rows].astype(np.float64)
    if not np.isfinite(chosen_BH).all():
        raise InvalidArgument("topics can only be read from finite topic features, got others.")
    with one_blas_thread():
        # Not centred: a topic that half of the documents have would share its axis with another.
        square_R, vectors_HR = np.linalg.eigh(chosen_BH.T @ chosen_BH / max(len(rows), 1))
        # Eigenvalues ascend. Drop components if the larger ones already represent the share.
        larger_R = square_R.sum() - np.cumsum(square_R)
        used = (square_R > MIN_SQUARE * square_R[-1]) & (larger_R < share * square_R.sum())
        if not used.any():
            raise InvalidArgument(
                "topics can only be read from documents with topic features other than 0, got "
                f"{len(hidden_BH)} documents without."
            )
        scale_R, vectors_HR = np.sqrt(square_R[used]), vectors_HR[:, used]
        scaled_BR = chosen_BH @ (vectors_HR / scale_R)
        turn_RR = _varimax(scaled_BR)
        turn_RR *= np.where(np.power(scaled_BR @ turn_RR, 3).mean(axis=0) < 0, -1.0, 1.0)
        inverse_RH = ((vectors_HR * scale_R) @ turn_RR).T
        order = np.argsort(-np.square(inverse_RH).sum(axis=1), kind="stable")
        axes_HR = (vectors_HR / scale_R) @ turn_RR[:, order]
    return TopicRotation(axes_HR, inverse_RH[order])


def rise_with_topics(
    network: NetworkArrays, hidden_BH: NDArray[np.float32], topics_BR: Floats
) -> Floats:
    """Return how much the probability of every next word rises with every topic, (R, K).

    It is a scaled covariance of p(word | document) with the topic. Divided by the standard
    deviation of p(word | document), it would favour rare words; divided by √p(word), the standard
    deviation of a drawn word, a few frequent words. The divisor is the geometric mean of the two.

    Parameters
    ----------
    hidden_BH, topics_BR : topic features and topics of some documents.
    """
    rows, words = _evenly_spaced(len(hidden_BH), MAX_READ), np.arange(network.config.n_words)
    centred_BR = topics_BR[rows] - topics_BR[rows].mean(axis=0)
    first_K = np.exp(word_log_proba(network, hidden_BH[:1], words)[0])
    rise_RK, mean_K, square_K = np.zeros((centred_BR.shape[1], len(words))), 0.0, 0.0
    step = max(MAX_ENTRIES // len(words), 1)
    with one_blas_thread():
        for first in range(0, len(rows), step):
            part = slice(first, first + step)
            # Relative to the first document: small differences are not lost in the squares.
            p_BK = np.exp(word_log_proba(network, hidden_BH[rows[part]], words)) - first_K
            rise_RK += centred_BR[part].T @ p_BK / len(rows)
            mean_K += p_BK.sum(axis=0) / len(rows)
            square_K += np.square(p_BK).sum(axis=0) / len(rows)
    deviation_K = np.sqrt(np.maximum(square_K - np.square(mean_K), 0.0))
    scale_K = np.sqrt(deviation_K * np.sqrt(first_K + mean_K))
    score_RK: Floats = np.zeros_like(rise_RK)
    np.divide(rise_RK, scale_K, out=score_RK, where=scale_K > 0)
    return score_RK


def _evenly_spaced(n_rows: int, limit: int) -> NDArray[np.int64]:
    """Return the numbers of at most `limit` rows."""
    return np.linspace(0, n_rows - 1, min(n_rows, limit)).astype(np.int64)


def _varimax(values_BR: Floats) -> Floats:
    """Return the orthogonal (R, R) matrix that maximises the variance of squared rotated values."""
    turn_RR, before = np.eye(values_BR.shape[1]), 0.0
    for _ in range(MAX_STEPS):
        rotated_BR = values_BR @ turn_RR
        target_BR = rotated_BR**3 - rotated_BR * np.square(rotated_BR).mean(axis=0)
        left, criterion_R, right = np.linalg.svd(values_BR.T @ target_BR)
        turn_RR, criterion = left @ right, float(criterion_R.sum())
        if criterion <= before * (1 + TOLERANCE):
            break
        before = criterion
    return turn_RR
