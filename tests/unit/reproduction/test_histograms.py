"""All pairs of histograms, beside scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import additive_chi2_kernel, manhattan_distances
from sklearn.preprocessing import normalize

from supdocnade.reproduction.histograms import TILE, chi2_distances, intersections


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
