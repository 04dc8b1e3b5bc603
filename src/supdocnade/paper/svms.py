"""Kernel SVMs whose settings are chosen on photographs that nothing before them has seen.

Every method has the same grid. A kernel is exp(-γ d / m), d a distance and m its median among the
photographs that are learned from, or is given as it is, and then only C is chosen.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import normalize
from sklearn.svm import SVC

from supdocnade.jit import kernel

# Distances and similarities of all pairs of histograms, compiled.
#
# On the words of our own recipe scikit-learn's χ² of Scene15 takes more than a minute, one number
# after the other; here the vector units take eight at a time.

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


Floats = NDArray[np.float64]

C_GRID = (1.0, 10.0, 100.0)
GAMMA_GRID = (0.25, 0.5, 1.0, 2.0, 4.0)
"""In units of 1 / median distance."""

PLAIN_C_GRID = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""For kernels without γ."""


class Kernel(NamedTuple):
    """Distances, or similarities, of photographs to those that are learned from."""

    inner_AA: Floats
    """Among those that are learned from."""
    outer_BA: Floats
    """From others to them."""
    is_distance: bool = True

    @property
    def grid(self) -> tuple[tuple[float, float | None], ...]:
        """C and γ that are tried, the smoothest first."""
        if not self.is_distance:
            return tuple((C, None) for C in PLAIN_C_GRID)
        return tuple((C, gamma) for C in C_GRID for gamma in GAMMA_GRID)

    def of(self, gamma: float | None) -> tuple[Floats, Floats]:
        """Return both matrices of kernel values."""
        if gamma is None:
            return self.inner_AA, self.outer_BA
        scale = self.scale
        return np.exp(-gamma / scale * self.inner_AA), np.exp(-gamma / scale * self.outer_BA)

    @property
    def scale(self) -> float:
        """The median distance among the photographs that are learned from."""
        above = np.triu_indices(len(self.inner_AA), 1)
        return float(np.median(self.inner_AA[above])) or 1.0


def joined(kernels: Sequence[Kernel]) -> Kernel:
    """Return the sum of several distances of the same photographs, each in units of its median."""
    scales = [each.scale for each in kernels]
    parts = list(zip(kernels, scales, strict=True))
    return Kernel(
        sum((each.inner_AA / scale for each, scale in parts), np.zeros(())),
        sum((each.outer_BA / scale for each, scale in parts), np.zeros(())),
    )


class Tried(NamedTuple):
    """How well one setting of an SVM did."""

    C: float
    gamma: float | None
    accuracy: float


def try_svms(
    kernel: Kernel, label_A: NDArray[np.integer], wanted_B: NDArray[np.integer]
) -> list[Tried]:
    """Return the accuracy of every setting on photographs that were not learned from."""
    tried = []
    for C, gamma in kernel.grid:
        predicted = predict_svm(kernel, label_A, C, gamma)
        tried.append(Tried(C, gamma, float((predicted == wanted_B).mean())))
    return tried


def best(tried: Sequence[Tried]) -> Tried:
    """Return the most accurate setting; of equals the smoothest, which stands first."""
    return max(tried, key=lambda each: each.accuracy)


def predict_svm(
    kernel: Kernel, label_A: NDArray[np.integer], C: float, gamma: float | None
) -> NDArray[np.int64]:
    """Return the classes of the photographs that were not learned from, pair by pair by vote."""
    inner_AA, outer_BA = kernel.of(gamma)
    classifier = SVC(C=C, kernel="precomputed", cache_size=500).fit(inner_AA, label_A)
    predicted: NDArray[np.int64] = classifier.predict(outer_BA)
    return predicted


def rbf(learn_AD: Floats, ask_BD: Floats, *, standardise: bool = False) -> Kernel:
    """Return squared distances of features, each feature brought to unit variance if wanted."""
    if standardise:
        mean_D, scale_D = learn_AD.mean(axis=0), learn_AD.std(axis=0)
        scale_D[scale_D < 1e-12 * (1 + abs(mean_D))] = 1.0
        learn_AD, ask_BD = (learn_AD - mean_D) / scale_D, (ask_BD - mean_D) / scale_D
    return Kernel(
        euclidean_distances(learn_AD, squared=True),
        euclidean_distances(ask_BD, learn_AD, squared=True),
    )


def chi2(learn_AD: Floats, ask_BD: Floats) -> Kernel:
    """Return χ² distances Σ (a - b)² / (a + b) of histograms."""
    learn_AD, ask_BD = normalize(learn_AD, norm="l1"), normalize(ask_BD, norm="l1")
    return Kernel(chi2_distances(learn_AD, learn_AD), chi2_distances(ask_BD, learn_AD))


def intersection(
    learn_AD: sparse.csr_array, ask_BD: sparse.csr_array, weight_D: Floats | None = None
) -> Kernel:
    """Return Σ w min(a, b) of histograms, 1 for a histogram with itself.

    Parameters
    ----------
    learn_AD, ask_BD : sparse, since a pyramid has many cells and most are empty.
    weight_D : of every column; None: all the same.
    """
    weight_D = np.ones(learn_AD.shape[1]) if weight_D is None else weight_D
    learn, ask = _weighted_shares(learn_AD, weight_D), _weighted_shares(ask_BD, weight_D)
    return Kernel(intersections(learn, learn), intersections(ask, learn), is_distance=False)


def _weighted_shares(counts: sparse.csr_array, weight_D: Floats) -> NDArray[np.float32]:
    """Return rows that sum to 1."""
    values = (counts.data * weight_D[counts.indices]).astype(np.float32)
    weighted = sparse.csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
    shares: NDArray[np.float32] = normalize(weighted, norm="l1").toarray()
    return shares
