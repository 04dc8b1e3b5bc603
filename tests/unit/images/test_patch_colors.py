import numpy as np
import pytest

from supdocnade.images.dense_sift import DenseSIFTConfig, dense_sift, patch_places
from supdocnade.images.patch_colors import patch_colors

COLORS = np.random.default_rng(0).integers(0, 256, (40, 53, 3)).astype(np.uint8)


def moments_of(pixels_N3):
    """Return the means and deviations of the three channels, one after the other."""
    red, green, blue = pixels_N3.astype(np.float64).T / 255
    channels = [
        (red + green + blue) / 3,
        (red - green) / np.sqrt(2),
        (red + green - 2 * blue) / np.sqrt(6),
    ]
    return [each.mean() for each in channels] + [each.std() for each in channels]


@pytest.mark.parametrize("patch_size", [16, (8, 20)])
def test_colors_of_patches_pixel_by_pixel(patch_size):
    config = DenseSIFTConfig(patch_size=patch_size)
    centres_S2, sizes_S = patch_places((40, 53), config)
    found = patch_colors(COLORS, centres_S2, sizes_S)
    for (y, x), size, colors in zip(centres_S2, sizes_S, found, strict=True):
        rows, columns = np.arange(40), np.arange(53)
        inside = COLORS[abs(rows - y) <= size / 2][:, abs(columns - x) <= size / 2]
        np.testing.assert_allclose(colors, moments_of(inside.reshape(-1, 3)), atol=1e-6)


def test_places_are_those_of_dense_sift():
    config = DenseSIFTConfig(patch_size=(16, 32), step=5)
    found = dense_sift(COLORS[..., 0], config)
    centres_S2, sizes_S = patch_places((40, 53), config)
    np.testing.assert_array_equal(centres_S2, found.centres_S2)
    np.testing.assert_array_equal(sizes_S, found.patch_size_S)


def test_grey_patches_have_no_color_differences():
    grey = np.repeat(COLORS[..., :1], 3, axis=2)
    found = patch_colors(grey, *patch_places((40, 53), DenseSIFTConfig()))
    assert not found[:, [1, 2, 4, 5]].any()
    assert found[:, [0, 3]].all()


@pytest.mark.parametrize("x", [6.0, 11.5])
def test_a_mirrored_patch_has_the_same_colors(x):
    place = np.array([[20.0, x]]), np.array([16])
    mirrored = np.array([[20.0, 52 - x]]), np.array([16])
    np.testing.assert_array_equal(
        patch_colors(COLORS, *place), patch_colors(COLORS[:, ::-1], *mirrored)
    )
