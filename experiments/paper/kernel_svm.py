"""Kernel SVMs on precomputed kernels, with settings chosen on held-out photographs.

Every method has the same grid. A kernel is exp(-γ d / m), with d a distance and m its median among
the training photographs; or it is a similarity without γ, and then only C is chosen. The SVM of
`SceneModel` (`scene/class_heads.py`) is another: one class against the rest, with smooth decision
values.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import normalize
from sklearn.svm import SVC

from supdocnade.jit import kernel as compiled
from supdocnade.scene.references import fit_scaler

Floats = NDArray[np.float64]

C_GRID = (1.0, 10.0, 100.0)
GAMMA_GRID = (0.25, 0.5, 1.0, 2.0, 4.0)
"""In units of 1 / median distance."""

SIMILARITY_C_GRID = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""For kernels without γ."""

TILE = 32
"""Histograms that stay in the cache while all others are compared with them."""

TINY = np.float32(1e-30)
"""Below any share: a word that neither histogram has adds 0 to χ², not 0 / 0."""


class Kernel(NamedTuple):
    """Distances or similarities of photographs to the training photographs."""

    inner_AA: Floats
    """Among the training photographs."""
    outer_BA: Floats
    """From other photographs to them."""
    is_distance: bool = True

    @property
    def grid(self) -> list[tuple[float, float | None]]:
        """C and γ that are tried, the smoothest first."""
        if not self.is_distance:
            return [(C, None) for C in SIMILARITY_C_GRID]
        return [(C, gamma) for C in C_GRID for gamma in GAMMA_GRID]

    @property
    def scale(self) -> float:
        """The median distance among the training photographs."""
        above = np.triu_indices(len(self.inner_AA), 1)
        return float(np.median(self.inner_AA[above])) or 1.0

    def values(self, gamma: float | None) -> tuple[Floats, Floats]:
        """Return the kernel values of both matrices."""
        if gamma is None:
            return self.inner_AA, self.outer_BA
        scale = self.scale
        return np.exp(-gamma / scale * self.inner_AA), np.exp(-gamma / scale * self.outer_BA)


def rbf_kernel(train_AD: Floats, other_BD: Floats) -> Kernel:
    """Return squared Euclidean distances of features."""
    return Kernel(
        euclidean_distances(train_AD, squared=True),
        euclidean_distances(other_BD, train_AD, squared=True),
    )


def standardize(values_BD: Floats, train_B: NDArray[np.bool_] | NDArray[np.integer]) -> Floats:
    """Return features of mean 0 and variance 1 on the training photographs."""
    mean_D, scale_D = fit_scaler(values_BD[train_B])
    return (values_BD - mean_D) / scale_D


def chi2_kernel(train_AD: Floats, other_BD: Floats) -> Kernel:
    """Return χ² distances Σ (a - b)² / (a + b) of histograms."""
    train_AD, other_BD = normalize(train_AD, norm="l1"), normalize(other_BD, norm="l1")
    return Kernel(chi2_distances(train_AD, train_AD), chi2_distances(other_BD, train_AD))


def intersection_kernel(
    train_AD: sparse.csr_array, other_BD: sparse.csr_array, weight_D: Floats | None = None
) -> Kernel:
    """Return similarities Σ w min(a, b) of histograms, 1 for a histogram with itself.

    Parameters
    ----------
    train_AD, other_BD : sparse, since most cells of a pyramid are empty.
    weight_D : of every column. By default, equal weights.
    """
    weight_D = np.ones(train_AD.shape[1]) if weight_D is None else weight_D
    train, other = _weighted_shares(train_AD, weight_D), _weighted_shares(other_BD, weight_D)
    return Kernel(intersections(train, train), intersections(other, train), is_distance=False)


def _weighted_shares(counts: sparse.csr_array, weight_D: Floats) -> NDArray[np.float32]:
    """Return weighted counts whose rows sum to 1."""
    values = (counts.data * weight_D[counts.indices]).astype(np.float32)
    weighted = sparse.csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
    shares: NDArray[np.float32] = normalize(weighted, norm="l1").toarray()
    return shares


def add_kernels(kernels: Sequence[Kernel]) -> Kernel:
    """Return the sum of distances between the same photographs, each divided by its median."""
    scaled = [(each, each.scale) for each in kernels]
    return Kernel(
        sum((each.inner_AA / scale for each, scale in scaled), np.zeros(())),
        sum((each.outer_BA / scale for each, scale in scaled), np.zeros(())),
    )


def predict_svm(
    kernel: Kernel, label_A: NDArray[np.integer], C: float, gamma: float | None
) -> NDArray[np.int64]:
    """Train an SVM and return the classes of the other photographs, by votes of class pairs."""
    inner_AA, outer_BA = kernel.values(gamma)
    classifier = SVC(C=C, kernel="precomputed", cache_size=500).fit(inner_AA, label_A)
    predicted: NDArray[np.int64] = classifier.predict(outer_BA)
    return predicted


def score_svms(
    kernel: Kernel, label_A: NDArray[np.integer], true_B: NDArray[np.integer]
) -> list[tuple[float, float | None, float]]:
    """Return C, γ and the accuracy on the other photographs, for every setting of the grid."""
    return [
        (C, gamma, float((predict_svm(kernel, label_A, C, gamma) == true_B).mean()))
        for C, gamma in kernel.grid
    ]


def best_svm(
    scores: Sequence[tuple[float, float | None, float]],
) -> tuple[float, float | None, float]:
    """Return the most accurate setting. On a tie, prefer the first, which is the smoothest."""
    return max(scores, key=lambda each: each[2])


# All pairs of histograms, compiled: eight numbers at a time. scikit-learn's χ² of Scene15 takes
# more than a minute with the words of our recipe.


def chi2_distances(first_AD: ArrayLike, second_BD: ArrayLike) -> Floats:
    """Return Σ (a - b)² / (a + b) of every pair, (A, B)."""
    return _compare_pairs(_chi2, first_AD, second_BD)


def intersections(first_AD: ArrayLike, second_BD: ArrayLike) -> Floats:
    """Return Σ min(a, b) of every pair, (A, B)."""
    return _compare_pairs(_intersection, first_AD, second_BD)


def _compare_pairs(function, first_AD: ArrayLike, second_BD: ArrayLike) -> Floats:  # type: ignore[no-untyped-def]
    first_AD, second_BD = (np.ascontiguousarray(each, np.float32) for each in (first_AD, second_BD))
    out_AB = np.empty((len(first_AD), len(second_BD)), np.float32)
    function(first_AD, second_BD, out_AB)
    return out_AB.astype(np.float64)


@compiled
def _chi2(first_AD, second_BD, out_AB):  # type: ignore[no-untyped-def]
    for start in range(0, len(second_BD), TILE):
        for a in range(len(first_AD)):
            for b in range(start, min(start + TILE, len(second_BD))):
                total = np.float32(0)
                for d in range(first_AD.shape[1]):
                    x, y = first_AD[a, d], second_BD[b, d]
                    total += (x - y) * (x - y) / (x + y + TINY)
                out_AB[a, b] = total


@compiled
def _intersection(first_AD, second_BD, out_AB):  # type: ignore[no-untyped-def]
    for start in range(0, len(second_BD), TILE):
        for a in range(len(first_AD)):
            for b in range(start, min(start + TILE, len(second_BD))):
                total = np.float32(0)
                for d in range(first_AD.shape[1]):
                    x, y = first_AD[a, d], second_BD[b, d]
                    total += x if x < y else y
                out_AB[a, b] = total
