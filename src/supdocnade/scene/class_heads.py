"""The classifier of photographs: a support vector machine with an RBF kernel and squared loss.

Another classifier is another subclass of `ClassHead`.

There is one machine per class against the rest, so that a score is a smooth function of topics and
features: it can be calibrated and explained. With the squared loss (Suykens and Vandewalle, 1999,
"Least squares support vector machine classifiers") one system of linear equations gives the
machines of all classes. Its accuracy is at least that of the hinge loss, and its training takes a
fraction of the time (docs/decisions/0043-three-depths.md).
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from supdocnade.scene.calibration import SVMSettings, mean_probability
from supdocnade.scene.references import Compared, References
from supdocnade.schema import array, stored
from supdocnade.threads import one_blas_thread

Floats = NDArray[np.float64]

GRID = tuple(SVMSettings(*each) for each in itertools.product((0.2, 0.5, 1.0), (0.1, 0.3)))
"""Candidates."""


class Score(NamedTuple):
    """A differentiable function of the topics and features of photographs."""

    value: Callable[[Floats], Floats]
    """From (Q, X) topics and features to (Q,) scores."""
    gradient: Callable[[Floats], Floats]
    """From (Q, X) topics and features to (Q, X) derivatives."""


class ClassHead(ABC):
    """A classifier of photographs."""

    name: ClassVar[str]
    """Name in files."""
    explained: ClassVar[str]
    """The scores, in words."""

    @abstractmethod
    def scores(self, photographs: Compared) -> Floats:
        """Return the scores of all classes, (B, C); a row does not depend on the other rows."""

    @abstractmethod
    def gradient(self, photographs: Compared, weight_BC: Floats) -> Floats:
        """Return the gradients of Σ_c weight_c score_c by topics and features, (B, X)."""

    @abstractmethod
    def describe(self) -> str:
        """Return what predicts the class, in words."""

    def probabilities(self, photographs: Compared, temperature: float) -> Floats:
        """Return the probabilities of all classes, the softmax of scores / temperature, (B, C)."""
        probability: Floats = softmax(self.scores(photographs) / temperature, axis=1)
        return probability

    def explain(self, number: int, references: References) -> Score:
        """Return the score of a class as a differentiable function."""

        def gradient(vector_QX: Floats) -> Floats:
            photographs = Compared(vector_QX, references)
            n_classes = self.scores(Compared(vector_QX[:1], references)).shape[1]
            weight_C = np.eye(n_classes)[number]
            return self.gradient(photographs, np.tile(weight_C, (len(vector_QX), 1)))

        return Score(
            lambda vector_QX: self.scores(Compared(vector_QX, references))[:, number], gradient
        )


@dataclass(frozen=True, eq=False)
class RBFSVM(ClassHead):
    """f_c(x) = Σ_n A[c, n] exp(-γ d²(x, n)) + b_c, over the references n."""

    name = "svm"
    explained = "decision value of the SVM"

    coefficient_CN: NDArray[np.float32] = array("CN", np.float32)
    """0 for references without a class."""
    intercept_C: Floats = array("C")
    gamma: float = stored(above=0)

    @classmethod
    def fit(
        cls,
        references: References,
        label_N: NDArray[np.int64],
        n_classes: int,
        settings: SVMSettings,
    ) -> "RBFSVM":
        """Return the machine that was learned from references.

        Parameters
        ----------
        label_N : numbers of their classes, at least two different ones; below 0: unknown.
        """
        return next(fit_machines(references, label_N, n_classes, [settings]))

    def scores(self, photographs: Compared) -> Floats:
        """Return the decision values, (B, C)."""
        values_BC = np.empty((len(photographs), len(self.intercept_C)))
        with one_blas_thread():
            for row, distance_N in enumerate(photographs.distance_BN):
                kernel_N = np.exp(-np.float32(self.gamma) * distance_N)
                values_BC[row] = self.coefficient_CN @ kernel_N
        values_BC += self.intercept_C
        return values_BC

    def gradient(self, photographs: Compared, weight_BC: Floats) -> Floats:
        """Return the gradients of Σ_c weight_c f_c by topics and features, (B, X)."""
        references = photographs.references
        pull_BN = weight_BC.astype(np.float32) @ self.coefficient_CN
        pull_BN *= np.exp(-np.float32(self.gamma) * photographs.distance_BN)
        point_BX = (photographs.vector_BX - references.mean_X) * references.factor_X
        away_BX = pull_BN.sum(axis=1, dtype=np.float64)[:, None] * point_BX
        away_BX -= pull_BN @ references.point_NX
        slope_BX: Floats = -2 * self.gamma * away_BX * references.factor_X
        return slope_BX

    def describe(self) -> str:
        """Return what predicts the class, in words."""
        n_used = int(np.any(self.coefficient_CN != 0, axis=0).sum())
        return f"a support vector machine that compares with {n_used} photographs"


def fit_machines(
    references: References, label_N: NDArray[np.int64], n_classes: int, grid: list[SVMSettings]
) -> Iterator[RBFSVM]:
    """Yield the machine of every setting.

    Parameters
    ----------
    label_N, n_classes : as for `RBFSVM.fit`.
    """
    from scipy.linalg import cho_factor, cho_solve

    known = np.flatnonzero(label_N >= 0)
    # Beside the targets, ±1 for every class, a column of ones gives the intercepts.
    target_NT = np.ones((len(known), n_classes + 1))
    target_NT[:, :n_classes] = np.where(label_N[known, None] == np.arange(n_classes), 1.0, -1.0)
    distance_NN = references.take(known).mutual_distances()
    for settings in grid:
        kernel_NN = np.exp(-settings.gamma * distance_NN, dtype=np.float64)
        kernel_NN[np.diag_indices(len(known))] += settings.penalty
        with one_blas_thread():
            factor = cho_factor(kernel_NN, overwrite_a=True, check_finite=False)
            solved_NT = cho_solve(factor, target_NT, check_finite=False)
        sums_T = solved_NT.sum(axis=0)
        intercept_C = sums_T[:-1] / sums_T[-1]
        coefficient_CN = np.zeros((n_classes, len(label_N)), np.float32)
        coefficient_CN[:, known] = (solved_NT[:, :-1] - solved_NT[:, -1:] * intercept_C).T
        yield RBFSVM(coefficient_CN, intercept_C, settings.gamma)


def choose_machine(
    references: References,
    label_N: NDArray[np.int64],
    n_classes: int,
    held_out: Compared,
    true_B: NDArray[np.int64],
    on_fit: Callable[[int, int], None],
) -> tuple[SVMSettings, RBFSVM]:
    """Return the best settings on held-out photographs, and their machine.

    They are compared by `mean_probability`, which has less variance than the accuracy on few
    photographs. On a tie, prefer the smallest gamma, which is the smoothest.

    Parameters
    ----------
    label_N, n_classes : as for `RBFSVM.fit`.
    held_out, true_B : held-out photographs with known classes. If there are none, the default
        settings are taken.
    on_fit : called with the number of settings tried and of all.
    """
    grid = [*GRID] if len(held_out) else [SVMSettings()]
    found = []
    for number, machine in enumerate(fit_machines(references, label_N, n_classes, grid)):
        found.append((grid[number], machine, mean_probability(machine.scores(held_out), true_B)))
        on_fit(number + 1, len(grid))
    settings, machine, _ = max(found, key=lambda each: each[2])
    return settings, machine
