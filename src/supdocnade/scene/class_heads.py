"""Classifiers on topic features: the softmax of the topic model, and the paper's RBF SVM.

There is one SVM per class against the rest, so that a score is a smooth function of the topics: it
can be calibrated and explained. scikit-learn trains the SVMs; their support vectors, coefficients
and intercepts are stored and evaluated here, without scikit-learn.

The exact SVM needs the kernel of all pairs of documents. Where they are too many, Nyström's
approximation takes its place: k(a, b) ≈ k(a, M) K_MM^-1 k(M, b) with some documents M, the
landmarks. A linear SVM with weights w on the features k(a, M) K_MM^-1/2 is an SVM with the support
vectors M and the coefficients K_MM^-1/2 w, so nothing else changes.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument
from supdocnade.likelihood.cpu.row_products import affine
from supdocnade.model.inference import NetworkArrays
from supdocnade.scene.calibration import mean_probability
from supdocnade.scene.heads import ClassHead, Floats, Topics
from supdocnade.schema import array, stored
from supdocnade.seeding import named_generator
from supdocnade.threads import one_blas_thread

C_GRID = (1.0, 10.0, 100.0)
GAMMA_GRID = (0.1, 0.3, 1.0, 3.0)
"""In units of 1 / topics: features have unit variance."""

GRID = tuple(itertools.product(C_GRID, GAMMA_GRID))

MAX_EXACT_SVM = 12_900
"""Labelled documents of an exact SVM, whose training needs 4 GB; the kernel of more is approximated
on any machine, so that one seed gives one model."""

N_LANDMARKS, MAX_APPROXIMATE, MAX_LINEAR_JOBS = 500, 10_000, 4
"""Landmarks of an approximate SVM, documents that it is trained on at most, and threads that train
it, each with a copy of all features: 0.5 GB."""

TOLERANCE = 0.1
"""Tolerance of an approximate SVM; a smaller one takes longer and is not more accurate."""

MIN_EIGENVALUE = 1e-10
"""Smaller eigenvalues of K_MM, whose largest is near the number of landmarks, are rounding."""


@dataclass(frozen=True, eq=False)
class SoftmaxHead(ClassHead):
    """The softmax of the topic model: p(c) ∝ exp(U h + d)_c."""

    name = "softmax"
    explained = "logit of the softmax"

    weight_CH: NDArray[np.float32] = array("CH", np.float32)
    bias_C: NDArray[np.float32] = array("C", np.float32)

    @classmethod
    def of(cls, network: NetworkArrays) -> "SoftmaxHead":
        """Return the head of a topic model."""
        return cls(network["label_weight"], network["label_bias"])

    @classmethod
    def fit(
        cls,
        network: NetworkArrays,
        hidden_BH: Topics,
        label_B: NDArray[np.int64],
        settings: Mapping[str, float],
        *,
        n_jobs: int | None = None,
        approximate: bool = False,
    ) -> "SoftmaxHead":
        """Return the head; it was learned with the topics."""
        return cls.of(network)

    def describe(self) -> str:
        """Return what predicts the class, in words."""
        return "the softmax of the topic model"

    def scores(self, hidden_BH: Topics) -> Floats:
        """Return U h + d, (B, C)."""
        logits_BC: Floats = affine(hidden_BH, self.weight_CH, self.bias_C).astype(np.float64)
        return logits_BC

    def gradient(self, hidden_BH: Topics, weight_BC: Floats) -> Floats:
        """Return weight U, (B, H)."""
        slopes_BH: Floats = weight_BC @ self.weight_CH.astype(np.float64)
        return slopes_BH


@dataclass(frozen=True, eq=False, kw_only=True)
class RBFSVM(ClassHead):
    """f_c(h) = Σ_s A[c, s] exp(-γ |z(h) - z_s|²) + b_c, with z(h) = (h - mean) / scale."""

    name = "svm"
    explained = "decision value of the SVM"
    min_classes = 2
    max_exact = MAX_EXACT_SVM
    defaults: ClassVar[Mapping[str, float]] = {"C": 10.0, "gamma": 1.0}

    mean_H: Floats = array("H")
    scale_H: Floats = array("H", above=0)
    support_SH: Floats = array("SH")
    """(support vectors, topics), scaled."""
    coefficient_CS: Floats = array("CS")
    intercept_C: Floats = array("C")
    gamma: float = stored(above=0)

    @classmethod
    def choose(
        cls,
        hidden_BH: Topics,
        label_B: NDArray[np.int64],
        held_out_BH: Topics,
        true_B: NDArray[np.int64],
        n_classes: int,
        *,
        on_fit: Callable[[int, int], None],
        n_jobs: int | None = None,
        approximate: bool = False,
    ) -> Mapping[str, float]:
        """Return C and γ of the best SVM on held-out documents.

        That is the SVM with the largest `mean_probability`, which has less variance than the
        accuracy on few documents. On a tie, prefer the smallest C, then the smallest γ, which is
        the smoothest.
        """
        mean_H, scale_H = fit_scaler(hidden_BH)
        hidden_BH, label_B, n_support = _order_documents(hidden_BH, label_B, approximate)
        scaled_BH, other_BH = ((each - mean_H) / scale_H for each in (hidden_BH, held_out_BH))
        inner_BS = squared_distances(scaled_BH, scaled_BH[:n_support])
        outer_BS = squared_distances(other_BH, scaled_BH[:n_support])
        ranked = []
        for C, gamma in GRID:
            width = gamma / hidden_BH.shape[1]
            fits = _fit_all(inner_BS, width, label_B, n_classes, C, n_jobs, approximate)
            outer = np.exp(-width * outer_BS)
            values = np.stack([outer @ coefficient + b for coefficient, b in fits], axis=1)
            ranked.append((-mean_probability(values, true_B), C, gamma))
            on_fit(len(ranked), len(GRID))
        _, C, gamma = min(ranked)
        return {"C": C, "gamma": gamma}

    @classmethod
    def fit(
        cls,
        network: NetworkArrays,
        hidden_BH: Topics,
        label_B: NDArray[np.int64],
        settings: Mapping[str, float],
        *,
        n_jobs: int | None = None,
        approximate: bool = False,
    ) -> "RBFSVM":
        """Return an SVM that was learned from documents of at least two classes.

        Parameters
        ----------
        settings : C, the cost of an error, weighted so that all classes cost the same in total;
            and gamma, of the kernel, in units of 1 / topics.
        approximate : approximate the kernel by landmarks.
        """
        mean_H, scale_H = fit_scaler(hidden_BH)
        hidden_BH, label_B, n_support = _order_documents(hidden_BH, label_B, approximate)
        scaled_BH = (hidden_BH - mean_H) / scale_H
        width = settings["gamma"] / hidden_BH.shape[1]
        distance_BS = squared_distances(scaled_BH, scaled_BH[:n_support])
        C, n_classes = settings["C"], network.n_classes
        fits = _fit_all(distance_BS, width, label_B, n_classes, C, n_jobs, approximate)
        coefficient_CS = np.stack([coefficient for coefficient, _ in fits])
        used = np.any(coefficient_CS != 0, axis=0)
        return cls(
            mean_H=mean_H,
            scale_H=scale_H,
            support_SH=np.ascontiguousarray(scaled_BH[:n_support][used]),
            coefficient_CS=np.ascontiguousarray(coefficient_CS[:, used]),
            intercept_C=np.array([intercept for _, intercept in fits]),
            gamma=width,
        )

    def scores(self, hidden_BH: Topics) -> Floats:
        """Return the decision values of documents, (B, C); the predicted class has the largest.

        Every row is computed by itself: its numbers do not depend on the other rows.
        """
        values_BC = np.empty((len(hidden_BH), len(self.intercept_C)))
        away_SH = np.empty_like(self.support_SH)  # Allocating it per row would take longer.
        for row, hidden_H in enumerate(hidden_BH):
            kernel_S = self._kernel(hidden_H, away_SH)
            values_BC[row] = self.coefficient_CS @ kernel_S + self.intercept_C
        return values_BC

    def gradient(self, hidden_BH: Topics, weight_BC: Floats) -> Floats:
        """Return the gradients of Σ_c weight_c f_c by the topics of documents, (B, H)."""
        gradient_BH = np.empty((len(hidden_BH), len(self.mean_H)))
        away_SH = np.empty_like(self.support_SH)
        for row, (hidden_H, weight_C) in enumerate(zip(hidden_BH, weight_BC, strict=True)):
            scaled_H = (hidden_H - self.mean_H) / self.scale_H
            pull_S = (weight_C @ self.coefficient_CS) * self._kernel(hidden_H, away_SH)
            away_H = pull_S.sum() * scaled_H - pull_S @ self.support_SH
            gradient_BH[row] = -2 * self.gamma * away_H / self.scale_H
        return gradient_BH

    def _kernel(self, hidden_H: Topics, away_SH: Floats) -> Floats:
        """Return the kernel of a document with every support vector, (S,).

        Parameters
        ----------
        away_SH : scratch array.
        """
        scaled_H = (hidden_H.astype(np.float64) - self.mean_H) / self.scale_H
        np.subtract(self.support_SH, scaled_H, out=away_SH)
        np.square(away_SH, out=away_SH)
        kernel_S: Floats = np.exp(-self.gamma * away_SH.sum(axis=1))
        return kernel_S

    def describe(self) -> str:
        """Return what predicts the class, in words."""
        return (
            f"a support vector machine on all topics, with {len(self.support_SH)} support vectors"
        )


CLASS_HEADS: dict[str, type[ClassHead]] = {each.name: each for each in (SoftmaxHead, RBFSVM)}
"""Classifiers by name; if two are equally good, "auto" takes the first."""


def allowed_heads(
    classifier: str, n_classes: int, *, can_compare: bool = True
) -> list[type[ClassHead]]:
    """Return the classifiers that a model with this many classes may have; none without classes.

    Parameters
    ----------
    classifier : name of a classifier, or "auto" for all.
    can_compare : False if no labels are held out for comparing classifiers. Only the paper's
        classifier, the SVM, is returned then.
    """
    if not n_classes:
        return []
    heads = [CLASS_HEADS[classifier]] if classifier in CLASS_HEADS else [*CLASS_HEADS.values()]
    heads = [head for head in heads if n_classes >= head.min_classes] or [SoftmaxHead]
    return heads if can_compare or len(heads) == 1 else [RBFSVM]


def squared_distances(first_AH: Floats, second_BH: Floats) -> Floats:
    """Return |a - b|² of all pairs, (A, B)."""
    squares = np.square(first_AH).sum(axis=1)[:, None] + np.square(second_BH).sum(axis=1)
    distances: Floats = np.maximum(squares - 2 * first_AH @ second_BH.T, 0)
    return distances


def fit_scaler(hidden_BH: Topics) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of every topic, 1 for a constant topic."""
    mean_H = hidden_BH.mean(axis=0, dtype=np.float64)
    scale_H = hidden_BH.std(axis=0, dtype=np.float64)
    scale_H[scale_H < 1e-12 * (1 + abs(mean_H))] = 1.0
    return mean_H, scale_H


def _order_documents(
    hidden_BH: Topics, label_B: NDArray[np.int64], approximate: bool
) -> tuple[Topics, NDArray[np.int64], int]:
    """Return documents with their labels, and the number of the first that may be support vectors.

    Those of an approximate SVM are ordered so that the first ones have about as many of every
    class: classes cost the same in total.
    """
    if not approximate:
        return hidden_BH, label_B, len(label_B)
    shuffled = named_generator(0, "landmarks").permutation(len(label_B))
    rank_B = np.empty(len(label_B), np.int64)
    for label in np.unique(label_B):
        members = shuffled[label_B[shuffled] == label]
        rank_B[members] = np.arange(len(members))
    rows = shuffled[np.argsort(rank_B[shuffled], kind="stable")][:MAX_APPROXIMATE]
    return hidden_BH[rows], label_B[rows], min(N_LANDMARKS, len(rows))


def _fit_all(
    distance_BS: Floats,
    width: float,
    label_B: NDArray[np.int64],
    n_classes: int,
    C: float,
    n_jobs: int | None,
    approximate: bool,
) -> list[tuple[Floats, float]]:
    """Return the coefficients of the support vectors, and the intercept, of every class.

    Parameters
    ----------
    distance_BS : squared distances of the documents from the first of them.
    """
    if len(np.unique(label_B)) < 2:
        raise InvalidArgument("an SVM needs documents of at least two classes, got one.")
    kernel_BS = np.exp(-width * distance_BS)
    fit_one: Callable[..., tuple[Floats, float]] = _fit_one
    if approximate:
        with one_blas_thread():
            value_S, vector_SS = np.linalg.eigh(kernel_BS[: kernel_BS.shape[1]])
            root_SS = (vector_SS / np.sqrt(np.maximum(value_S, MIN_EIGENVALUE))) @ vector_SS.T
            kernel_BS = kernel_BS @ root_SS
        fit_one, n_jobs = (
            partial(_fit_linear, root_SS),
            min(effective_n_jobs(n_jobs), MAX_LINEAR_JOBS),
        )
    return list(
        Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(fit_one)(kernel_BS, label_B == label, C) for label in range(n_classes)
        )
    )


def _fit_linear(
    root_SS: Floats, feature_BS: Floats, member_B: NDArray[np.bool_], C: float
) -> tuple[Floats, float]:
    """Return the coefficients of all landmarks and the intercept of one class against the rest.

    Parameters
    ----------
    root_SS : K_MM^-1/2 of the landmarks.
    feature_BS : approximate features of the documents.
    """
    if not member_B.any():
        return np.zeros(len(root_SS)), -1.0
    from sklearn.svm import LinearSVC

    # Newton steps on all documents: liblinear's other solver uses a generator that all threads
    # share. The penalty includes the intercept, which a scale above 1 makes small.
    svc: Any = LinearSVC(
        C=C,
        loss="squared_hinge",
        dual=False,
        class_weight="balanced",
        intercept_scaling=3.0,
        tol=TOLERANCE,
    )
    svc.fit(feature_BS, member_B)
    return root_SS @ svc.coef_[0], float(svc.intercept_[0])


def _fit_one(kernel_BB: Floats, member_B: NDArray[np.bool_], C: float) -> tuple[Floats, float]:
    """Return the coefficients of all documents and the intercept of one class against the rest."""
    coefficient_B = np.zeros(len(member_B))
    if not member_B.any():
        return coefficient_B, -1.0  # A class without documents is never predicted.
    from sklearn.svm import SVC

    svc: Any = SVC(C=C, kernel="precomputed", class_weight="balanced", cache_size=500)
    svc.fit(kernel_BB, member_B)
    coefficient_B[svc.support_] = svc.dual_coef_[0]
    return coefficient_B, float(svc.intercept_[0])
