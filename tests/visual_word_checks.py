"""A check that images have the visual words of the CPU, except where two words are as near."""

import numpy as np

NEAR = 3e-6
"""How much two squared distances may differ to be a tie: they are differences of numbers near 1,
each rounded at the seventh digit, whatever the distance itself."""

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
    expected_regions, expected = np.divmod(encoded.ids.reshape(-1, n_grids), n_words)
    np.testing.assert_array_equal(regions, expected_regions)
    assert (words == words[:, :1]).all()
    described = encoder.describer.describe(encoder.describer.read(image))
    values_SD, centres_KD = described.values_SD, encoder.codebook.centres_KD
    if encoder.mirror:  # Mirrored patches follow all others, and have mirrored words.
        values_SD = np.concatenate([values_SD, values_SD])
        centres_KD = np.concatenate([centres_KD, encoder.mirrored_codebook.centres_KD])
        words, expected = (_with_mirrored_after(some, n_words) for some in (words, expected))
    other = np.flatnonzero(words[:, 0] != expected[:, 0])
    away = [
        np.square(values_SD[other].astype(np.float64) - centres_KD[some[other, 0]]).sum(axis=1)
        for some in (words, expected)
    ]
    np.testing.assert_allclose(*away, rtol=0, atol=NEAR)
    return len(other)


def _with_mirrored_after(words, n_words):
    """Return words of both sides, those of the mirrored half numbered after all others."""
    side = np.arange(len(words)) >= len(words) // 2
    return words + n_words * side[:, None]


def assert_same_but_for_ties(encoder, images, found):
    """Fail unless images have the words that the CPU gives them, but for few ties."""
    assert len(found) == len(images)
    ties = [n_ties(encoder, *pair) for pair in zip(images, found, strict=True)]
    n_patches = sum(len(each) for each in found)
    assert sum(ties) <= MOST * n_patches, f"{sum(ties)} of {n_patches} patches are ties"
