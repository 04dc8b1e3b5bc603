"""Dense SIFT against VLFeat (`tests/golden/make_dense_sift.py`) and against its definition."""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import decode
from supdocnade.images.dense_sift import (
    DenseSIFTConfig,
    dense_sift,
    patch_starts,
    side_weights,
)

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "dense_sift.npz")
DATA = Path(os.environ.get("SUPDOCNADE_DATA", Path(__file__).parents[4] / "shared" / "data"))


def cosines(ours, theirs):
    """Cosines of descriptors, zero ones aside; both must agree on which those are.

    VLFeat scales by 512 and cuts at 255, to fit a byte, also where it returns floats.
    """
    theirs = theirs.astype(np.float32)
    ours = np.minimum(512 * ours, 255)
    lengths = np.linalg.norm(ours, axis=1), np.linalg.norm(theirs, axis=1)
    np.testing.assert_array_equal(lengths[0] == 0, lengths[1] == 0)
    some = lengths[0] > 0
    return (ours * theirs).sum(axis=1)[some] / (lengths[0] * lengths[1])[some]


@pytest.mark.parametrize("name", ["waves", "ramp", "noise", "disc"])
@pytest.mark.parametrize(("step", "patch"), [(8, 16), (5, 24)])
def test_pictures_agree_with_vlfeat(name, step, patch):
    config = DenseSIFTConfig(step=step, patch_size=patch)
    found = dense_sift(GOLDEN[f"picture/{name}"], config)
    frames = GOLDEN[f"frames-{step}-{patch}/{name}"]
    np.testing.assert_array_equal(found.centres_S2, frames[:, :2])
    agreement = cosines(found.values_SD, GOLDEN[f"gaussian-{step}-{patch}/{name}"])
    assert np.median(agreement) >= 0.9999
    assert np.quantile(agreement, 0.01) >= 0.999


@pytest.mark.parametrize(
    "name", ["coast/coast_art1130.jpg", "forest/forest_bost100.jpg", "street/street_a232022.jpg"]
)
def test_photographs_agree_with_vlfeat(name):
    path = DATA / "labelme" / name
    if not path.exists():
        pytest.skip("no photographs at hand: set SUPDOCNADE_DATA")
    found = dense_sift(decode(path))
    assert found.values_SD.shape == (961, 128)
    agreement = cosines(found.values_SD[::10], GOLDEN[f"gaussian-8-16/{name}"])
    assert np.median(agreement) >= 0.9999
    assert np.quantile(agreement, 0.01) >= 0.999


def test_a_descriptor_by_the_definition():
    """The sums written out for one patch, pixel by pixel."""
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (40, 44)).astype(np.uint8)
    found = dense_sift(grey)
    n_columns = len(patch_starts(44, 16, 8))
    slopes_y, slopes_x = np.gradient(grey.astype(float))
    expected = np.zeros((4, 4, 8))
    row, column = 1, 2
    for y in range(40):
        for x in range(44):
            length = math.hypot(slopes_y[y, x], slopes_x[y, x])
            turn = math.atan2(slopes_y[y, x], slopes_x[y, x]) / (2 * math.pi) * 8 % 8
            away_y, away_x = y - (8 * row + 6), x - (8 * column + 6)
            bell = math.exp(-0.5 * (away_y**2 + away_x**2) / 8**2)
            for i in range(4):
                for j in range(4):
                    near_y = 1 - abs(y - (8 * row + 4 * i)) / 4
                    near_x = 1 - abs(x - (8 * column + 4 * j)) / 4
                    if near_y <= 0 or near_x <= 0:
                        continue
                    share = length * bell * near_y * near_x
                    expected[i, j, int(turn) % 8] += share * (1 - turn % 1)
                    expected[i, j, (int(turn) + 1) % 8] += share * (turn % 1)
    norm = np.linalg.norm(expected)
    clamped = np.minimum(expected / norm, 0.2)
    place = row * n_columns + column
    np.testing.assert_allclose(
        found.values_SD[place], (clamped / np.linalg.norm(clamped)).reshape(-1), atol=2e-5
    )
    assert found.contrast_S[place] == pytest.approx(norm / 4**2, rel=1e-4)


def test_a_constant_image_has_descriptors_of_zero():
    found = dense_sift(np.full((256, 256), 9, np.uint8))
    assert found.values_SD.shape == (961, 128)
    assert (found.values_SD == 0).all()
    assert (found.contrast_S == 0).all()


def test_brighter_and_stronger_images_have_the_same_descriptors():
    grey = np.random.default_rng(0).integers(0, 100, (64, 64)).astype(np.uint8)
    found, other = dense_sift(grey), dense_sift(2 * grey + 7)
    np.testing.assert_allclose(found.values_SD, other.values_SD, atol=1e-5)
    np.testing.assert_allclose(2 * found.contrast_S, other.contrast_S, rtol=1e-4)


@pytest.mark.parametrize(("size", "count"), [((13, 13), 1), ((20, 13), 1), ((21, 13), 2)])
def test_the_smallest_images(size, count):
    assert len(dense_sift(np.zeros(size, np.uint8)).values_SD) == count


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": 0}, "step must be"),
        ({"patch_size": 18}, "patch_size must be a multiple of 4, got 18"),
        ({"patch_size": (16, 18)}, "patch_size must be a multiple of 4"),
        ({"patch_size": ()}, "patch_size must be different sizes"),
        ({"patch_size": (16, 16)}, "patch_size must be different sizes"),
        ({"contrast_floor": -1.0}, "contrast_floor must be"),
    ],
)
def test_odd_settings_are_refused(settings, message):
    with pytest.raises(InvalidArgument, match=message):
        DenseSIFTConfig(**settings)


def by_matrix_products(grey, step, size):
    """Return descriptors and lengths with every weight of a bin, most of which are zero."""
    slopes_y, slopes_x = np.gradient(grey.astype(float))
    length, turn = np.hypot(slopes_y, slopes_x), np.arctan2(slopes_y, slopes_x) * 4 / np.pi
    away = np.arange(8)[:, None, None] - turn
    planes = length * np.maximum(1 - abs((away + 4) % 8 - 4), 0)
    rows, columns = (side_weights(length, size, step) for length in grey.shape)
    sums = np.einsum("py,oyx,qx->pqo", rows, planes, columns)
    bins = sums.reshape(len(rows) // 4, 4, len(columns) // 4, 4, 8)
    values = bins.transpose(0, 2, 1, 3, 4).reshape(-1, 128)
    norms = np.linalg.norm(values, axis=1)
    clipped = np.minimum(values / np.maximum(norms, 1e-9)[:, None], 0.2)
    return clipped / np.maximum(np.linalg.norm(clipped, axis=1), 1e-9)[:, None], norms


@pytest.mark.parametrize("shape", [(40, 40), (13, 61), (37, 90)])
@pytest.mark.parametrize(("step", "size"), [(8, 16), (3, 12), (8, 4)])
def test_the_kernel_agrees_with_matrix_products(shape, step, size):
    grey = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    grey[:, : shape[1] // 2] //= 255  # Black beside white, and patches of one colour.
    found = dense_sift(grey, DenseSIFTConfig(step=step, patch_size=size))
    values, norms = by_matrix_products(grey, step, size)
    np.testing.assert_allclose(found.values_SD, values, atol=1e-5)
    np.testing.assert_allclose(found.contrast_S * (size // 4) ** 2, norms, rtol=1e-5, atol=1e-5)


def test_any_number_of_threads_gives_the_same_bits():
    greys = [
        np.random.default_rng(i).integers(0, 256, (100, 90)).astype(np.uint8) for i in range(4)
    ]
    alone = [dense_sift(grey).values_SD for grey in greys]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda grey: dense_sift(grey).values_SD, 5 * greys))
    for number, values in enumerate(together):
        np.testing.assert_array_equal(values, alone[number % 4])


def test_several_sizes_are_those_of_each_size():
    grey = np.random.default_rng(0).integers(0, 256, (50, 60)).astype(np.uint8)
    both = dense_sift(grey, DenseSIFTConfig(patch_size=[24, 16]))
    alone = [dense_sift(grey, DenseSIFTConfig(patch_size=size)) for size in (24, 16)]
    for field in both._fields[:4]:  # The image has no features.
        expected = np.concatenate([getattr(each, field) for each in alone])
        np.testing.assert_array_equal(getattr(both, field), expected)
    assert set(both.patch_size_S) == {24, 16}


def test_a_size_without_room_is_skipped():
    grey = np.random.default_rng(0).integers(0, 256, (20, 20)).astype(np.uint8)
    found = dense_sift(grey, DenseSIFTConfig(patch_size=(16, 64)))
    assert set(found.patch_size_S) == {16}


def test_patches_of_little_contrast_are_shortened():
    """By contrast / floor: the right half has a tenth of the contrast of the left one."""
    noise = np.random.default_rng(0).integers(0, 250, (64, 128)).astype(np.uint8)
    noise[:, 64:] //= 10
    plain = dense_sift(noise)
    floor = float(np.median(plain.contrast_S))
    found = dense_sift(noise, DenseSIFTConfig(contrast_floor=floor))
    length_S = np.linalg.norm(found.values_SD, axis=1)
    np.testing.assert_allclose(length_S, np.minimum(plain.contrast_S / floor, 1), rtol=1e-4)
    assert (length_S < 0.3).any()
    assert (length_S > 0.999).any()


@pytest.mark.parametrize(
    "odd", [np.zeros((40, 40)), np.zeros((40, 40, 3), np.uint8), np.zeros(40, np.uint8)]
)
def test_odd_images_are_refused(odd):
    with pytest.raises(InvalidArgument, match="image must have shape"):
        dense_sift(odd)
