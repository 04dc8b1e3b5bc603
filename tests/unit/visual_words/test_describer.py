"""Descriptions by networks; those by SIFT are tested with the encoder."""

from dataclasses import replace

import numpy as np
import pytest
from tests.networks import LAYERS, install_network, mean_colors

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
    image_BF = RNG.normal(5, 2, (20, 3)).astype(np.float32)
    fitted = describer.fit(patches_ND.astype(np.float32), image_BF)
    projected = fitted.project(patches_ND.astype(np.float32))
    np.testing.assert_allclose(projected.mean(axis=0), 0, atol=1e-5)
    covariance = np.cov(projected.T)
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-3)
    values = np.linalg.eigvalsh(np.cov(patches_ND.T))
    np.testing.assert_allclose(np.diag(covariance), values[::-1], rtol=1e-4)
    found = fitted.describe(PIXELS)
    raw = describer.describe(PIXELS)
    np.testing.assert_allclose(found.values_SD, fitted.project(raw.values_SD))
    np.testing.assert_allclose(found.image_F, raw.image_F - image_BF.mean(axis=0), atol=2e-3)


@pytest.fixture
def layers(tmp_path, monkeypatch):
    """A network of three maps, fitted to images, and the features of these before and after."""
    describer = NetworkDescriber.find(install_network(tmp_path, monkeypatch, **LAYERS))
    images = RNG.integers(0, 256, (30, 8, 8, 3)) * RNG.random((30, 1, 1, 3))
    before = [describer.describe(image) for image in images.astype(np.uint8)]
    before_BF = np.array([each.image_F for each in before])
    fitted = describer.fit(np.concatenate([each.values_SD for each in before]), before_BF)
    after_BF = np.array([fitted.describe(image).image_F for image in images.astype(np.uint8)])
    return fitted, before_BF, after_BF


def test_all_maps_of_a_network_have_the_same_total_variance(layers):
    fitted, before_BF, after_BF = layers
    assert fitted.projection.map_width == (3, 3, 6)
    assert before_BF.shape == after_BF.shape == (30, 12)
    np.testing.assert_allclose(after_BF.mean(axis=0), 0, atol=1e-3)
    firsts = [0, 3, 6]
    before_M, after_M = (
        np.add.reduceat(each.var(axis=0), firsts) for each in (before_BF, after_BF)
    )
    assert np.ptp(before_M) > 0.2 * before_M.max()
    np.testing.assert_allclose(after_M, before_M[0], rtol=1e-3)
    # Each map has the root mean square 1 before it is centred.
    squares_BM = np.add.reduceat(before_BF**2, firsts, axis=1) / [3, 3, 6]
    np.testing.assert_allclose(squares_BM, 1, rtol=2e-3)


def test_maps_that_are_equal_in_all_images_are_not_scaled(layers):
    fitted, before_BF, _ = layers
    before_BF[:, 6:] = before_BF[0, 6:]
    again = fitted.fit(RNG.random((5, 3), np.float32), before_BF)
    assert again.projection.map_scale_M[2] == 1 != fitted.projection.map_scale_M[2]


def test_features_of_an_image_are_the_means_over_the_patches_of_every_map(
    layers, tmp_path, monkeypatch
):
    fitted, *_ = layers
    features_F = fitted.describe(PIXELS).image_F
    parts = fitted.divide_features(PIXELS)
    assert [each.values_SD.shape[1] for each in parts] == [3, 3, 6]
    means_F = np.concatenate([each.values_SD.mean(axis=0) for each in parts])
    np.testing.assert_allclose(means_F, features_F, atol=2e-3)
    assert [each.patch_size_S.tolist() for each in parts] == [[4] * 4, [8], [4] * 4]
    np.testing.assert_array_equal(parts[1].centres_S2, [[3.5, 3.5]])
    tokens = {"layout": "tokens", "leading": [[1, 2, 3]], "class_tokens": 1}
    other = NetworkDescriber.find(install_network(tmp_path, monkeypatch, name="other", **tokens))
    colors_BF = RNG.random((5, 3), np.float32)
    assert other.fit(colors_BF, colors_BF).divide_features(PIXELS) is None


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
    zeros, ones = np.zeros(4, np.float32), np.ones(1, np.float32)
    projection = Projection(zeros, np.zeros((4, 2), np.float32), zeros, ones, (4,))
    with pytest.raises(InvalidArgument, match="mean_D must"):
        replace(describer, projection=projection).describe(PIXELS)
    with pytest.raises(InvalidArgument, match="image_mean_F must"):
        replace(projection, map_width=(3,))
