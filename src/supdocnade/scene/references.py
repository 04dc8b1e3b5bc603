"""Training photographs that others are compared with.

A photograph is a point: its topics and, if a network describes it, the features of every map. The
squared distance of two photographs is the weighted mean over these blocks of the mean squared
difference of their standardised entries, so that blocks with many entries do not outweigh the
others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from supdocnade.seeding import named_generator
from supdocnade.threads import one_blas_thread

Floats = NDArray[np.float64]
Float32s = NDArray[np.float32]

MAX_REFERENCES = 10_000
"""Of more photographs, as many of every class are chosen as possible."""

TOPIC_WEIGHT = 0.25
"""Weight of the topics, where every map of a network has 1. The topics have seen the classes of the
training photographs, so these differ more from each other than from new photographs."""

MAX_TOPIC = 6e4
"""Larger values of a topic would not fit into a file, which has the precision of float16."""


@dataclass(frozen=True, eq=False)
class References:
    """Photographs as points. Others are compared with them."""

    mean_X: Floats
    factor_X: Floats
    """An entry x of a photograph is (x - mean) · factor of its point."""
    point_NX: Float32s
    """(photographs, topics and features)."""
    n_topics: int

    @classmethod
    def of(
        cls, topics_NH: Float32s, features_NF: Float32s | None = None, widths: Sequence[int] = ()
    ) -> "References":
        """Return photographs as points.

        Parameters
        ----------
        widths : numbers of features of the blocks of features.
        """
        vector_NX = _join(topics_NH, features_NF)
        mean_X, spread_X = fit_scaler(vector_NX)
        blocks = np.array([topics_NH.shape[1], *widths])
        weights = np.array([TOPIC_WEIGHT, *np.ones(len(widths))]) if len(widths) else np.ones(1)
        weight_X = np.repeat(np.sqrt(weights / (weights.sum() * blocks)), blocks)
        factor_X = weight_X / spread_X
        point_NX = ((vector_NX - mean_X) * factor_X).astype(np.float32)
        return cls(mean_X, factor_X, point_NX, topics_NH.shape[1])

    @cached_property
    def square_N(self) -> Float32s:
        """Squared lengths of the points, (N,)."""
        squares: Float32s = np.square(self.point_NX).sum(axis=1)
        return squares

    def take(self, rows: NDArray[np.int64]) -> "References":
        """Return some of these photographs, as the same points."""
        return replace(self, point_NX=self.point_NX[rows])

    def compare(self, topics_BH: Float32s, features_BF: Float32s | None = None) -> "Compared":
        """Return photographs with their distances from these."""
        return Compared(_join(topics_BH, features_BF), self)

    def distances(self, vector_BX: NDArray[np.floating]) -> Float32s:
        """Return the squared distances of photographs from these, (B, N).

        Every row is computed by itself: its numbers do not depend on the other rows.
        """
        distance_BN = np.empty((len(vector_BX), len(self.point_NX)), np.float32)
        with one_blas_thread():
            for row, vector_X in enumerate(vector_BX):
                point_X = ((vector_X - self.mean_X) * self.factor_X).astype(np.float32)
                np.matmul(self.point_NX, point_X, out=distance_BN[row])
                distance_BN[row] *= -2
                distance_BN[row] += self.square_N + np.square(point_X).sum()
        np.maximum(distance_BN, 0, out=distance_BN)
        return distance_BN

    def mutual_distances(self) -> Float32s:
        """Return the squared distances of all pairs of these photographs, (N, N)."""
        with one_blas_thread():
            distance_NN = self.point_NX @ self.point_NX.T
        distance_NN *= -2
        distance_NN += self.square_N
        distance_NN += self.square_N[:, None]
        np.maximum(distance_NN, 0, out=distance_NN)
        distances_NN: Float32s = distance_NN
        return distances_NN


@dataclass(frozen=True, eq=False)
class Compared:
    """Photographs as vectors of topics and features, and their distances from references."""

    vector_BX: NDArray[np.floating]
    """(photographs, topics and features)."""
    references: References

    def __len__(self) -> int:
        """Return the number of photographs."""
        return len(self.vector_BX)

    @cached_property
    def topics_BH(self) -> NDArray[np.floating]:
        """(photographs, topics)."""
        return np.ascontiguousarray(self.vector_BX[:, : self.references.n_topics])

    def take(self, rows: NDArray[np.int64]) -> "Compared":
        """Return some of the photographs."""
        return Compared(self.vector_BX[rows], self.references)

    @cached_property
    def distance_BN(self) -> Float32s:
        """(photographs, references) squared distances."""
        return self.references.distances(self.vector_BX)


def choose_references(label_B: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of the photographs that others are compared with, in their order.

    Parameters
    ----------
    label_B : numbers of their classes. Photographs without one are a class of their own.
    """
    if len(label_B) <= MAX_REFERENCES:
        return np.arange(len(label_B))
    shuffled = named_generator(0, "references").permutation(len(label_B))
    rank_B = np.empty(len(label_B), np.int64)
    for label in np.unique(label_B):
        members = shuffled[label_B[shuffled] == label]
        rank_B[members] = np.arange(len(members))
    return np.sort(shuffled[np.argsort(rank_B[shuffled], kind="stable")][:MAX_REFERENCES])


def round_topics(topics_BH: Float32s) -> Float32s:
    """Return topics with the precision that they have in a file, that of float16."""
    return np.clip(topics_BH, -MAX_TOPIC, MAX_TOPIC).astype(np.float16).astype(np.float32)


def fit_scaler(values_BX: NDArray[np.floating]) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of every column, 1 for a constant column."""
    mean_X = values_BX.mean(axis=0, dtype=np.float64)
    scale_X = values_BX.std(axis=0, dtype=np.float64)
    scale_X[scale_X < 1e-12 * (1 + abs(mean_X))] = 1.0
    return mean_X, scale_X


def _join(topics_BH: Float32s, features_BF: Float32s | None) -> Float32s:
    return topics_BH if features_BF is None else np.hstack([topics_BH, features_BF])
