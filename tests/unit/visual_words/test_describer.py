"""Descriptions by networks; those by SIFT are tested with the encoder."""

from dataclasses import replace

import numpy as np
import pytest
from tests.networks import install_network, mean_colors

from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import DecodeConfig
from supdocnade.visual_words.describer import (
    FunctionDescriber,
    NetworkDescriber,
    Projection,
)

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (8, 8, 3)).astype(np.uint8)


@pytest.fixture
def describer(tmp_path, monkeypatch):
    """Four patches of 4 × 4 pixels, described by their mean colours."""
    return NetworkDescriber.find(install_network(tmp_path, monkeypatch))


def test_patches_have_features_of_unit_length(describer):
    found = describer.describe(PIXELS)
    colors_S3 = mean_colors(PIXELS)
    lengths_S = np.linalg.norm(colors_S3, axis=1)
    np.testing.assert_allclose(found.values_SD, colors_S3 / lengths_S[:, None], atol=1e-6)
    np.testing.assert_allclose(found.contrast_S, lengths_S, rtol=1e-6)
    np.testing.assert_array_equal(
        found.centres_S2, [[1.5, 1.5], [1.5, 5.5], [5.5, 1.5], [5.5, 5.5]]
    )
    np.testing.assert_array_equal(found.patch_size_S, 4)
    mean_F = colors_S3.mean(axis=0)
    expected_F = mean_F / np.sqrt(np.mean(mean_F**2))
    np.testing.assert_allclose(found.image_F, expected_F, rtol=2**-11)  # As float16 has them.
    np.testing.assert_array_equal(found.image_F, found.image_F.astype(np.float16))


def test_patches_of_a_photograph_cover_it(describer):
    """The network sees a small square; places are those of the photograph."""
    pixels = describer.read(RNG.integers(0, 256, (700, 1000, 3)).astype(np.uint8))
    assert pixels.shape == (358, 512, 3)
    found = describer.describe(pixels)
    np.testing.assert_allclose(found.centres_S2[[0, 3]], [[89, 127.5], [268, 383.5]])
    np.testing.assert_array_equal(found.patch_size_S, 256)


def test_a_patch_without_features_stays_finite(tmp_path, monkeypatch):
    describer = NetworkDescriber.find(install_network(tmp_path, monkeypatch, factor=0.0))
    found = describer.describe(PIXELS)
    assert not found.values_SD.any()
    assert not found.image_F.any()


def test_components_are_principal_ones_of_the_sample(describer):
    patches_ND = RNG.normal(0, 1, (500, 3)).astype(np.float32) * [3, 1, 2] + [1, 2, 3]
    fitted = describer.fit(patches_ND.astype(np.float32))
    projected = fitted.project(patches_ND.astype(np.float32))
    np.testing.assert_allclose(projected.mean(axis=0), 0, atol=1e-5)
    covariance = np.cov(projected.T)
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-3)
    values = np.linalg.eigvalsh(np.cov(patches_ND.T))
    np.testing.assert_allclose(np.diag(covariance), values[::-1], rtol=1e-4)
    found = fitted.describe(PIXELS)
    raw = describer.describe(PIXELS)
    np.testing.assert_allclose(found.values_SD, fitted.project(raw.values_SD))
    np.testing.assert_array_equal(found.image_F, raw.image_F)


def test_features_of_an_image_are_divided_among_its_patches(describer, tmp_path, monkeypatch):
    patches_ND = RNG.normal(0, 1, (50, 3)).astype(np.float32)
    fitted = describer.fit(patches_ND)
    image_F = fitted.describe(PIXELS).image_F
    parts_SF = fitted.divide_features(PIXELS)
    np.testing.assert_array_equal(parts_SF.mean(axis=0).astype(np.float16), image_F)
    tokens = {"layout": "tokens", "leading": [[1, 2, 3]], "class_tokens": 1}
    other = NetworkDescriber.find(install_network(tmp_path, monkeypatch, name="other", **tokens))
    assert other.fit(patches_ND).divide_features(PIXELS) is None


def test_a_network_that_is_missing_or_another_is_refused(describer):
    decoding = DecodeConfig(color=True)
    missing = NetworkDescriber(name="marvel", fingerprint="x", decoding=decoding)
    with pytest.raises(InvalidArgument, match="'marvel' is not installed; supdocnade features"):
        missing.describe(PIXELS)
    other = NetworkDescriber(name=describer.name, fingerprint="x", decoding=decoding)
    with pytest.raises(InvalidArgument, match="must be the one that the words were learned with"):
        other.describe(PIXELS)


def corners(pixels):
    """Describe the four corners of an image by their colours."""
    height, width = pixels.shape[:2]
    centres = np.array([[0, 0], [0, width - 1], [height - 1, 0], [height - 1, width - 1]])
    return pixels[centres[:, 0], centres[:, 1]] / 255, centres, 1


def test_a_function_describes_patches():
    describer = FunctionDescriber(function=corners, decoding=DecodeConfig(color=True))
    found = describer.describe(describer.read(PIXELS))
    np.testing.assert_allclose(found.values_SD[3], PIXELS[7, 7] / 255, rtol=1e-6)
    assert found.values_SD.dtype == found.centres_S2.dtype == np.float32
    assert found.patch_size_S.tolist() == [1] * 4
    assert found.image_F is None


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            (np.zeros(4), np.zeros((4, 2)), 1),
            r"descriptors \(patches, D\).*got \(4,\) and \(4, 2\)",
        ),
        ((np.zeros((4, 3)), np.zeros((3, 2)), 1), r"got \(4, 3\) and \(3, 2\)"),
        ((np.full((4, 3), np.nan), np.zeros((4, 2)), 1), "finite numbers"),
    ],
)
def test_what_a_function_returns_is_checked(returned, message):
    describer = FunctionDescriber(function=lambda _: returned, decoding=DecodeConfig(color=True))
    with pytest.raises(InvalidArgument, match=message):
        describer.describe(PIXELS)


def test_components_for_other_features_are_refused(describer):
    """A file may be damaged in both arrays alike."""
    projection = Projection(np.zeros(4, np.float32), np.zeros((4, 2), np.float32))
    with pytest.raises(InvalidArgument, match="mean_D must"):
        replace(describer, projection=projection).describe(PIXELS)
