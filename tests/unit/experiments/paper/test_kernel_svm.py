"""Kernels computed by hand, and SVMs chosen on held-out rows."""

import numpy as np
import pytest
from experiments.paper.kernel_svm import (
    TILE,
    add_kernels,
    best_svm,
    chi2_distances,
    chi2_kernel,
    intersection_kernel,
    intersections,
    predict_svm,
    rbf_kernel,
    score_svms,
)
from scipy import sparse
from sklearn.metrics.pairwise import additive_chi2_kernel, manhattan_distances
from sklearn.preprocessing import normalize


def test_kernels_by_hand():
    first, second = np.array([[3.0, 1.0]]), np.array([[1.0, 1.0], [0.0, 4.0]])
    # Shares: (3/4, 1/4), (1/2, 1/2), (0, 1).
    by_hand = [0.0625 / 1.25 + 0.0625 / 0.75, 0.5625 / 0.75 + 0.5625 / 1.25]
    assert chi2_kernel(second, first).outer_BA[0].tolist() == pytest.approx(by_hand)
    few, one = sparse.csr_array(second), sparse.csr_array(first)
    assert intersection_kernel(few, one).outer_BA[0].tolist() == pytest.approx([0.75, 0.25])
    weighted = intersection_kernel(few, one, np.array([2.0, 1.0]))
    # Weighted shares: (6/7, 1/7), (2/3, 1/3), (0, 1).
    assert weighted.outer_BA[0].tolist() == pytest.approx([2 / 3 + 1 / 7, 1 / 7])
    assert np.diag(weighted.inner_AA).tolist() == pytest.approx([1.0, 1.0])
    assert rbf_kernel(second, first).outer_BA[0].tolist() == pytest.approx([4.0, 18.0])


def test_an_svm_learns_what_no_line_separates():
    rng = np.random.default_rng(0)
    learn, ask = rng.normal(size=(120, 2)), rng.normal(size=(60, 2))
    label, wanted = (np.square(each).sum(axis=1) > 1.4 for each in (learn, ask))
    kernel = rbf_kernel(learn, ask)
    scores = score_svms(kernel, label.astype(int), wanted.astype(int))
    assert len(scores) == 15
    C, gamma, accuracy = best_svm(scores)
    assert accuracy > 0.9
    predicted = predict_svm(kernel, label.astype(int), C, gamma)
    assert (predicted == wanted).mean() == accuracy


def test_added_distances_are_those_of_features_side_by_side():
    rng = np.random.default_rng(0)
    learn, ask = rng.normal(size=(2, 9, 3)), rng.normal(size=(2, 4, 3)) * 10
    parts = [rbf_kernel(a, b) for a, b in zip(learn, ask, strict=True)]
    scaled = [1 / np.sqrt(each.scale) for each in parts]
    wanted = rbf_kernel(
        np.hstack([s * a for s, a in zip(scaled, learn, strict=True)]),
        np.hstack([s * b for s, b in zip(scaled, ask, strict=True)]),
    )
    found = add_kernels(parts)
    np.testing.assert_allclose(found.inner_AA, wanted.inner_AA, atol=1e-12)
    np.testing.assert_allclose(found.outer_BA, wanted.outer_BA, atol=1e-12)


@pytest.fixture(scope="module")
def histograms():
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.3, (2 * TILE + 5, 70)).astype(np.float64)
    counts[3] = 0
    return normalize(counts, norm="l1")


def test_chi2(histograms):
    wanted = -additive_chi2_kernel(histograms[:7], histograms)
    np.testing.assert_allclose(chi2_distances(histograms[:7], histograms), wanted, atol=1e-6)
    assert (np.diag(chi2_distances(histograms, histograms)) == 0).all()


def test_intersections(histograms):
    filled = np.delete(histograms, 3, axis=0)
    wanted = 1 - manhattan_distances(filled[:7], filled) / 2
    np.testing.assert_allclose(intersections(filled[:7], filled), wanted, atol=1e-6)
    assert intersections(histograms, histograms)[3, 3] == 0
