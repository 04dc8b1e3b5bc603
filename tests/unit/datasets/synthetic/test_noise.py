import numpy as np
import pytest

from supdocnade.datasets.synthetic.noise import fractal_line, fractal_noise, smooth_noise


def test_fields_have_deviation_one():
    rng = np.random.default_rng(0)
    many = np.stack([smooth_noise(rng, (60, 80), (20, 30)) for _ in range(40)])
    assert many.mean() == pytest.approx(0, abs=0.03)
    assert many.std() == pytest.approx(1, abs=0.05)
    lines = np.stack([fractal_line(rng, 400, 30) for _ in range(60)])
    assert lines.std() == pytest.approx(1, abs=0.05)


def test_the_same_field_at_every_size():
    small = smooth_noise(np.random.default_rng(1), (40, 50), (4, 5))
    large = smooth_noise(np.random.default_rng(1), (80, 100), (4, 5))
    halved = large.reshape(40, 2, 50, 2).mean(axis=(1, 3))
    np.testing.assert_allclose(halved, small, atol=0.02)


def test_more_octaves_are_rougher():
    one, four = (
        fractal_noise(np.random.default_rng(2), (64, 64), (3, 3), octaves=octaves)
        for octaves in (1, 4)
    )
    assert abs(np.diff(four)).mean() > 2 * abs(np.diff(one)).mean()
