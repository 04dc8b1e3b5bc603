from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from supdocnade.errors import InvalidArgument
from supdocnade.scene import class_heads
from supdocnade.scene.calibration import mean_probability
from supdocnade.scene.class_heads import RBFSVM

N_CLASSES, N_TOPICS = 4, 6


def blobs(seed, n=60):
    rng = np.random.default_rng(seed)
    label_B = rng.integers(N_CLASSES, size=n)
    centre_CH = 2 * np.random.default_rng(9).normal(size=(N_CLASSES, N_TOPICS))
    hidden_BH = centre_CH[label_B] + rng.normal(size=(n, N_TOPICS))
    return (3 + hidden_BH * np.arange(1, N_TOPICS + 1)).astype(np.float32), label_B


def fit_svm(hidden, labels, n_classes, *, C, gamma, **options):
    network, settings = SimpleNamespace(n_classes=n_classes), {"C": C, "gamma": gamma}
    return RBFSVM.fit(network, hidden, labels, settings, **options)


X, Y = blobs(0)
Z, W = blobs(1)
SVM = fit_svm(X, Y, N_CLASSES, C=10.0, gamma=1.0)


@pytest.mark.parametrize("label", range(N_CLASSES))
def test_decisions_are_those_of_scikit_learn(label):
    theirs = make_pipeline(
        StandardScaler(), SVC(C=10.0, gamma=1 / N_TOPICS, class_weight="balanced", tol=1e-6)
    ).fit(X.astype(np.float64), label == Y)
    ours = SVM.scores(Z)[:, label]
    # Both stop their search at a tolerance.
    np.testing.assert_allclose(ours, theirs.decision_function(Z.astype(np.float64)), atol=2e-3)


def test_a_row_does_not_depend_on_the_others():
    np.testing.assert_array_equal(SVM.scores(Z)[7:8], SVM.scores(Z[7:8]))


def test_gradients_are_finite_differences():
    hidden = Z[3].astype(np.float64)
    mixed = np.random.default_rng(0).normal(size=N_CLASSES)
    for weight in (*np.eye(N_CLASSES), mixed):
        (found,) = SVM.gradient(hidden[None], weight[None])
        for topic in range(N_TOPICS):
            step = np.zeros(N_TOPICS)
            step[topic] = 1e-5
            both = SVM.scores(np.stack([hidden + step, hidden - step])) @ weight
            assert found[topic] == pytest.approx((both[0] - both[1]) / 2e-5, rel=1e-5, abs=1e-9)


def test_a_constant_topic_is_allowed():
    flat = X.copy()
    flat[:, 2] = 5.0
    fitted = fit_svm(flat, Y, N_CLASSES, C=1.0, gamma=1.0)
    assert np.isfinite(fitted.scores(flat)).all()
    assert fitted.scale_H[2] == 1.0


@pytest.mark.parametrize("approximate", [False, True])
def test_a_class_without_documents_is_never_predicted(approximate):
    fitted = fit_svm(X, Y, N_CLASSES + 1, C=10.0, gamma=1.0, approximate=approximate)
    assert (fitted.scores(Z).argmax(axis=1) < N_CLASSES).all()


def test_the_choice_is_the_best_on_held_out_documents(monkeypatch):
    grid, seen = [(C, gamma) for C in (0.01, 10.0) for gamma in (0.3, 1000.0)], []
    monkeypatch.setattr(class_heads, "GRID", grid)
    chosen = RBFSVM.choose(X, Y, Z, W, N_CLASSES, on_fit=lambda *done: seen.append(done))
    assert seen == [(number, 4) for number in range(1, 5)]
    scores = {
        pair: mean_probability(fit_svm(X, Y, N_CLASSES, C=pair[0], gamma=pair[1]).scores(Z), W)
        for pair in grid
    }
    assert scores[chosen["C"], chosen["gamma"]] == pytest.approx(max(scores.values()))


def test_any_number_of_workers_gives_the_same_arrays():
    other = fit_svm(X, Y, N_CLASSES, C=10.0, gamma=1.0, n_jobs=2)
    np.testing.assert_array_equal(other.coefficient_CS, SVM.coefficient_CS)


def test_an_approximate_svm_is_that_of_scikit_learns_approximation(monkeypatch):
    monkeypatch.setattr(class_heads, "N_LANDMARKS", 20)
    monkeypatch.setattr(class_heads, "TOLERANCE", 1e-6)
    ours = fit_svm(X, Y, N_CLASSES, C=10.0, gamma=1.0, approximate=True)
    np.testing.assert_array_equal(ours.mean_H, SVM.mean_H)
    theirs = Nystroem(gamma=ours.gamma, n_components=20, random_state=0).fit(ours.support_SH)
    linear = LinearSVC(
        C=10.0, dual=False, class_weight="balanced", intercept_scaling=3.0, tol=1e-6
    )  # fmt: skip
    scaled_BH, other_BH = ((each - ours.mean_H) / ours.scale_H for each in (X, Z))
    linear.fit(theirs.transform(scaled_BH), Y == 2)
    expected = linear.decision_function(theirs.transform(other_BH))
    np.testing.assert_allclose(ours.scores(Z)[:, 2], expected, atol=1e-3)


def test_threads_give_the_same_approximate_svm():
    many, labels = blobs(3, 600)
    alone, *others = (
        fit_svm(many, labels, N_CLASSES, C=10.0, gamma=1.0, approximate=True, n_jobs=n_jobs)
        for n_jobs in (1, 2, 4, 4, 4)
    )
    for other in others:
        np.testing.assert_array_equal(other.coefficient_CS, alone.coefficient_CS)


def test_one_class_is_refused():
    with pytest.raises(InvalidArgument, match="at least two classes, got one"):
        fit_svm(X, np.zeros(len(X), np.int64), 3, C=1.0, gamma=1.0)
