"""Words that are the same, but where a descriptor is as near to two of them."""

import numpy as np

NEAR = 1e-4
"""How much two squared distances may differ, as a share of either, to be a tie: they are
differences of numbers near 1, rounded at the seventh digit, and hardly ever below 0.03."""

MOST = 1e-3
"""Share of patches that may be ties."""


def n_ties(encoder, image, found):
    """Return how many patches have other words than on the CPU; fail where one is no tie."""
    encoded = encoder.encode(image)
    assert found.dtype == np.int32
    assert found.shape == encoded.ids.shape
    n_words = encoder.codebook.n_words
    n_grids = len(encoder.regions.grids)
    regions, words = np.divmod(found.reshape(-1, n_grids), n_words)
    expected = encoded.ids.reshape(-1, n_grids)
    np.testing.assert_array_equal(regions, expected // n_words)
    assert (words == words[:, :1]).all()
    other = np.flatnonzero(words[:, 0] != encoded.words_S)
    described, _ = encoder.description.describe(image)
    values_SD = described.values_SD.astype(np.float64)
    away = [
        np.square(values_SD[other] - encoder.codebook.centres_KD[some[other]]).sum(axis=1)
        for some in (words[:, 0], encoded.words_S)
    ]
    np.testing.assert_allclose(*away, rtol=NEAR)
    return len(other)


def assert_same_but_for_ties(encoder, images, found):
    """Fail unless images have the words that the CPU gives them, but for few ties."""
    assert len(found) == len(images)
    ties = [n_ties(encoder, *pair) for pair in zip(images, found, strict=True)]
    n_patches = sum(len(each) for each in found)
    assert sum(ties) <= MOST * n_patches, f"{sum(ties)} of {n_patches} patches are ties"
