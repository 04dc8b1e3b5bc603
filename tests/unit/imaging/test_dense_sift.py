"""Dense SIFT against VLFeat (`tests/golden/make_dense_sift.py`) and against its definition."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.imaging.decode import decode
from supdocnade.imaging.dense_sift import DenseSIFTConfig, dense_sift

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "dense_sift.npz")
DATA = Path(os.environ.get("SUPDOCNADE_DATA", Path(__file__).parents[4] / "shared" / "data"))
SETTINGS = [
    (window, step, patch) for window in ("flat", "gaussian") for step, patch in ((8, 16), (5, 24))
]


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
@pytest.mark.parametrize(("window", "step", "patch"), SETTINGS)
def test_pictures_agree_with_vlfeat(name, window, step, patch):
    config = DenseSIFTConfig(step=step, patch_size=patch, window=window)
    found = dense_sift(GOLDEN[f"picture/{name}"], config)
    frames = GOLDEN[f"frames-{step}-{patch}/{name}"]
    np.testing.assert_array_equal(found.centres_S2, frames[:, :2])
    agreement = cosines(found.values_SD, GOLDEN[f"{window}-{step}-{patch}/{name}"])
    assert np.median(agreement) >= 0.9999
    assert np.quantile(agreement, 0.01) >= 0.999


@pytest.mark.parametrize(
    "name", ["coast/coast_art1130.jpg", "forest/forest_bost100.jpg", "street/street_a232022.jpg"]
)
@pytest.mark.parametrize("window", ["flat", "gaussian"])
def test_photographs_agree_with_vlfeat(name, window):
    path = DATA / "labelme" / name
    if not path.exists():
        pytest.skip("no photographs at hand: set SUPDOCNADE_DATA")
    found = dense_sift(decode(path), DenseSIFTConfig(window=window))
    assert found.values_SD.shape == (961, 128)
    agreement = cosines(found.values_SD[::10], GOLDEN[f"{window}-8-16/{name}"])
    assert np.median(agreement) >= 0.9999
    assert np.quantile(agreement, 0.01) >= 0.999


def test_a_descriptor_by_the_definition():
    """The sums written out for one patch, pixel by pixel."""
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (40, 44)).astype(np.uint8)
    found = dense_sift(grey)
    n_columns = len(DenseSIFTConfig().starts(44))
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
    assert found.norm_S[place] == pytest.approx(norm, rel=1e-4)


def test_a_constant_image_has_descriptors_of_zero():
    found = dense_sift(np.full((256, 256), 9, np.uint8))
    assert found.values_SD.shape == (961, 128)
    assert (found.values_SD == 0).all()
    assert (found.norm_S == 0).all()


def test_brighter_and_stronger_images_have_the_same_descriptors():
    grey = np.random.default_rng(0).integers(0, 100, (64, 64)).astype(np.uint8)
    found, other = dense_sift(grey), dense_sift(2 * grey + 7)
    np.testing.assert_allclose(found.values_SD, other.values_SD, atol=1e-5)
    np.testing.assert_allclose(2 * found.norm_S, other.norm_S, rtol=1e-4)


@pytest.mark.parametrize(("size", "count"), [((13, 13), 1), ((20, 13), 1), ((21, 13), 2)])
def test_the_smallest_images(size, count):
    assert len(dense_sift(np.zeros(size, np.uint8)).values_SD) == count


def test_images_smaller_than_a_patch_are_refused():
    with pytest.raises(
        UnreadableImage, match="at least 13 × 13 pixels for patches of 16, got 12 × 99"
    ):
        dense_sift(np.zeros((12, 99), np.uint8))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": 0}, "step must be"),
        ({"patch_size": 18}, "patch_size must be a multiple of 4, got 18"),
        ({"window": "round"}, "window must be one of"),
    ],
)
def test_odd_settings_are_refused(settings, message):
    with pytest.raises(InvalidArgument, match=message):
        DenseSIFTConfig(**settings)


def test_one_thread_gives_the_same_bits_again():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        grey = np.random.default_rng(0).integers(0, 256, (100, 90)).astype(np.uint8)
        first, second = dense_sift(grey), dense_sift(grey.copy())
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(first.values_SD, second.values_SD)
