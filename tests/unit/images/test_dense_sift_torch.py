"""Dense SIFT of many images at once against dense SIFT of each by itself, on the CPU."""

import numpy as np
import pytest
import torch
from tests.textures import stripes

from supdocnade.images import dense_sift_cpu as cpu
from supdocnade.images import dense_sift_cpu as cpu_kernels
from supdocnade.images import dense_sift_torch as blocks_module
from supdocnade.images.dense_sift import DenseSIFTConfig, dense_sift
from supdocnade.images.dense_sift_torch import (
    MEMORY,
    describe_many,
    orientation_planes,
    side_blocks,
)
from supdocnade.images.sift_bins import N_ORIENTATIONS, side_weights

CPU = torch.device("cpu")


def colors(number, shape):
    return np.stack([stripes(3 * number + channel, shape) for channel in range(3)], axis=-1)


def described(images, config, memory=MEMORY):
    """Put the parts together, every entry written exactly once."""
    alone = dense_sift(images[0], config)
    shape = (len(images), *alone.values_SD.shape)
    values, contrast = np.full(shape, np.nan, np.float32), np.full(shape[:2], np.nan, np.float32)
    n_parts = 0
    for part in describe_many(torch.from_numpy(np.stack(images)), config, memory=memory):
        assert np.isnan(contrast[part.images, part.patches]).all()
        values[part.images, part.patches] = part.values_BSD.numpy()
        contrast[part.images, part.patches] = part.contrast_BS.numpy()
        assert (alone.patch_size_S[part.patches] == part.patch_size).all()
        n_parts += 1
    return values, contrast, n_parts


def assert_those_of_each(images, config, memory=MEMORY):
    values, contrast, n_parts = described(images, config, memory)
    for number, image in enumerate(images):
        alone = dense_sift(image, config)
        np.testing.assert_allclose(values[number], alone.values_SD, atol=2e-6)
        np.testing.assert_allclose(contrast[number], alone.contrast_S, rtol=2e-6)
    return n_parts


@pytest.mark.parametrize("shape", [(40, 44), (13, 61), (137, 90)])
@pytest.mark.parametrize("paint", [stripes, colors])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"window": "flat", "step": 3},
        {"patch_size": (12, 32, 16), "step": 5},
        {"patch_size": 4, "step": 7},
        {"contrast_floor": 9.0},
        {"root": True},
        {"root": True, "contrast_floor": 9.0, "patch_size": (16, 24)},
    ],
)
def test_many_images_have_the_descriptors_of_each(shape, paint, settings):
    images = [paint(number, shape) for number in range(3)]
    assert_those_of_each(images, DenseSIFTConfig(**settings))


@pytest.mark.parametrize("settings", [{}, {"root": True, "contrast_floor": 5.0}])
@pytest.mark.parametrize("paint", [stripes, colors])
def test_patches_of_one_colour_have_descriptors_of_zero(paint, settings):
    images = [paint(number, (48, 60)) for number in range(2)]
    images[0][:, 20:] = 77
    images[1][:] = 0
    assert_those_of_each(images, DenseSIFTConfig(**settings))
    values, contrast, _ = described(images, DenseSIFTConfig(**settings))
    assert (values[1] == 0).all()
    np.testing.assert_array_equal(contrast == 0, ~values.any(axis=2))
    assert 0 < (contrast[0] == 0).sum() < contrast[0].size


def test_the_steepest_gradients_are_in_the_table():
    """Black beside white: on the border a difference counts twice."""
    image = np.zeros((24, 24), np.uint8)
    image[::2, ::3] = 255
    assert_those_of_each([image, 255 - image, image.T.copy()], DenseSIFTConfig(step=2))


@pytest.mark.parametrize("memory", [2**20, 2**18, 1])
@pytest.mark.parametrize("paint", [stripes, colors])
def test_a_bound_on_memory_only_cuts_the_work(paint, memory):
    """Some images at a time, then one, then some rows of it."""
    config = DenseSIFTConfig(patch_size=(16, 32))
    images = [paint(number, (200, 36)) for number in range(5)]
    assert described(images, config)[2] == 2
    assert assert_those_of_each(images, config, memory) > 2
    # At the least one block of rows: 24 rows of patches of 16 have three blocks, 22 of 32 as well.
    if memory == 1:
        assert described(images, config, memory)[2] == 5 * 3 * 2


@pytest.mark.parametrize("patch_size", [4, 16, 20])
def test_a_band_of_rows_has_the_gradients_of_the_whole_image(patch_size):
    """Also where its first row is the first that a bin weighs."""
    images = [stripes(number, (150, 30)) for number in range(2)]
    config = DenseSIFTConfig(patch_size=patch_size, step=5)
    assert assert_those_of_each(images, config, memory=1) > 4


def test_blocks_are_the_weights_without_most_zeros():
    for length in (13, 64, 300, 301):
        expected = side_weights(length, 16, 8, "gaussian")
        whole = np.zeros_like(expected)
        blocks = side_blocks(length, 16, 8, "gaussian", CPU)
        for block in blocks:
            whole[block.first_bin : block.last_bin, block.first_pixel : block.last_pixel] = (
                block.weight_PJ.numpy()
            )
        np.testing.assert_array_equal(whole, expected)
        assert sum(block.weight_PJ.numel() for block in blocks) <= expected.size
    # 144 bins of 300 pixels: of 43,200 entries some 11,000 are left.
    blocks = side_blocks(300, 16, 8, "gaussian", CPU)
    assert sum(block.weight_PJ.numel() for block in blocks) < 300 * 144 / 3.5


def test_the_number_of_bins_of_a_block_changes_nothing(monkeypatch):
    images = [stripes(number, (90, 61)) for number in range(2)]
    expected, _, _ = described(images, DenseSIFTConfig())
    for patches in (1, 100):
        side_blocks.cache_clear()
        monkeypatch.setattr(blocks_module, "PATCHES", patches)
        found, _, _ = described(images, DenseSIFTConfig())
        np.testing.assert_allclose(found, expected, atol=1e-6)
    side_blocks.cache_clear()


def test_planes_are_the_gradient_shared_out():
    """The table holds what the definition gives; rows are filled up with nothing."""
    image = np.random.default_rng(0).integers(0, 256, (9, 10)).astype(np.uint8)
    planes_OYX = orientation_planes(torch.from_numpy(image)[None])[0].numpy()
    assert planes_OYX.shape == (8, 9, 12)
    assert (planes_OYX[:, :, 10:] == 0).all()
    slopes_y, slopes_x = np.gradient(image.astype(np.float64))
    length = np.hypot(slopes_y, slopes_x)
    turn = np.arctan2(slopes_y, slopes_x) * 8 / (2 * np.pi) % 8
    for o in range(8):
        away = np.abs((turn - o + 4) % 8 - 4)
        share = length * np.maximum(1 - away, 0)
        np.testing.assert_allclose(planes_OYX[o, :, :10], share, rtol=1e-5, atol=1e-5)


def test_planes_are_those_of_the_kernel_to_the_last_bit():
    image = np.random.default_rng(1).integers(0, 256, (30, 40)).astype(np.uint8)
    expected_XO = np.zeros((40, N_ORIENTATIONS), np.float32)
    planes_OYX = orientation_planes(torch.from_numpy(image)[None])[0].numpy()
    for y in range(30):
        cpu_kernels._fill_planes_of_row(image, y, *cpu._gradient_table(), expected_XO)
        np.testing.assert_array_equal(planes_OYX[:, y], expected_XO.T)
