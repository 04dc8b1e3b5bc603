import numpy as np
import pytest
from tools.draw_scenes.palettes import _PRINTS, _parse, _to_lab, _to_rgb, luminance, random_palette


def test_oklab_round_trip():
    rgb = np.random.default_rng(0).random((50, 3))
    np.testing.assert_allclose(_to_rgb(_to_lab(rgb)), rgb, atol=1e-5)


def test_oklab_by_hand():
    # Ottosson's own table: red is (0.628, 0.225, 0.126).
    np.testing.assert_allclose(_parse(("ff0000",))[0], [0.628, 0.225, 0.126], atol=5e-4)


def test_every_print_has_ten_colours():
    for text in _PRINTS:
        assert [len(group.split()) for group in text.split("  ")] == [3, 4, 3]
        assert _parse(text.split()).shape == (10, 3)


@pytest.mark.parametrize("seed", range(10))
def test_colours_differ_in_brightness(seed):
    rng = np.random.default_rng(seed)
    palette = random_palette(rng)
    for color in (palette.sky(0.5), palette.land(0), palette.land(0.5), palette.land(1)):
        assert ((color >= 0) & (color <= 1)).all()
        ink = palette.contrasting_ink(color, rng)
        assert abs(luminance(ink) - luminance(color)) > 0.2
        assert abs(luminance(palette.contrast(color, 0.8)) - luminance(color)) > 0.2
    assert luminance(palette.paper) > luminance(palette.ink) + 0.4


def test_about_half_of_the_skies_are_dark():
    nights = [random_palette(np.random.default_rng(seed)).night for seed in range(200)]
    assert 0.3 < np.mean(nights) < 0.7
