"""Areas of shapes, visibility of objects and statistics of random fields."""

import numpy as np
import pytest
from tools.draw_scenes.canvas import (
    MARK,
    Canvas,
    fractal_line,
    fractal_noise,
    smooth_noise,
    stripe_cover,
)
from tools.draw_scenes.palettes import random_palette

WHITE, BLACK = np.ones(3, np.float32), np.zeros(3, np.float32)


def make_canvas(size=(100, 120), **options):
    rng = np.random.default_rng(0)
    return Canvas(size, random_palette(rng), rng, ("disc", "box", "sea"), **options)


def white_area(canvas):
    """Return the white area in square units."""
    return canvas.image[0].mean() * 100 * canvas.width


@pytest.mark.parametrize("size", [(100, 120), (37, 50), (300, 360)])
def test_areas_by_hand(size):
    shapes = {
        "disc": (lambda c: c.disc(50, 50, 20, WHITE), np.pi * 400),
        "ellipse": (lambda c: c.ellipse(50, 50, 30, 20, WHITE), np.pi * 600),
        "box": (lambda c: c.box(20.3, 10.1, 41.7, 33.3, WHITE), 21.4 * 23.2),
        "triangle": (lambda c: c.polygon([(10, 10), (70, 10), (10, 60)], WHITE), 1500),
        "reversed": (lambda c: c.polygon([(10, 60), (70, 10), (10, 10)], WHITE), 1500),
        "line": (lambda c: c.line((30, 30), (60, 70), 10, WHITE), 500 + np.pi * 25),
        "taper": (lambda c: c.line((30, 30), (80, 30), 10, WHITE, end_width=5), 424),
    }
    for name, (paint, area) in shapes.items():
        canvas = make_canvas(size)
        paint(canvas)
        assert white_area(canvas) == pytest.approx(area, rel=0.03), name


def test_edges_are_soft():
    canvas = make_canvas()
    canvas.disc(50, 50, 20, WHITE)
    partly = (canvas.image[0] > 0.05) & (canvas.image[0] < 0.95)
    assert 60 < partly.sum() < 250  # About one pixel along a circumference of 126.


def test_ground_under_a_line():
    canvas = make_canvas()
    part, cover = canvas.ground_cover(np.linspace(30, 50, 120).astype(np.float32))
    canvas.paint(part, cover, WHITE)
    assert white_area(canvas) == pytest.approx(60 * 120, rel=0.01)


def test_stripes_cover_the_same_share_at_every_pixel_width():
    place = np.linspace(0, 40, 4000, dtype=np.float32)
    for width in (0.01, 0.3, 1.0, 7.3):
        share = stripe_cover(place, 0.3, width)
        assert share.mean() == pytest.approx(0.3, abs=0.01)
        assert share.min() > -0.01
        assert share.max() < 1.01
    assert np.ptp(stripe_cover(place, 0.3, 1.0)) < 0.01


def test_painted_over_objects_are_hidden():
    canvas = make_canvas()
    canvas.box(10, 10, 50, 50, WHITE, "box")
    assert canvas.areas()["box"] == pytest.approx(1600 / 12000, rel=0.01)
    canvas.box(10, 10, 50, 30, BLACK, MARK)
    assert canvas.areas()["box"] == pytest.approx(1600 / 12000, rel=0.01)
    canvas.box(10, 10, 50, 30, BLACK)
    assert canvas.areas()["box"] == pytest.approx(800 / 12000, rel=0.01)
    canvas.disc(30, 40, 9, WHITE * np.float32(0.5), "disc")
    assert canvas.areas()["box"] < 600 / 12000
    assert canvas.areas()["disc"] == pytest.approx(np.pi * 81 / 12000, rel=0.05)


def test_object_in_the_colour_of_its_background_is_not_visible():
    canvas = make_canvas(surfaces={"sea"})
    canvas.disc(50, 50, 20, BLACK, "disc")
    assert canvas.areas()["disc"] == 0
    canvas.disc(50, 50, 20, BLACK, "sea")
    assert canvas.areas()["sea"] > 0.1


def test_zoom_shows_a_part_of_the_canvas():
    canvas = make_canvas(zoom=2.0)
    assert canvas.width == 120
    assert canvas.x.max() - canvas.x.min() == pytest.approx(60, abs=1)
    canvas.box(float(canvas.x.min()), float(canvas.y.min()), 1000, 1000, WHITE, "box")
    assert canvas.areas()["box"] > 0.98
    canvas.box(-50, -50, -10, -10, BLACK, "disc")
    canvas.line((-50, -50), (-10, -10), 3, BLACK, "disc")
    canvas.disc(-50, -50, 3, BLACK, "disc")
    assert canvas.areas()["disc"] == 0


def test_random_fields_have_standard_deviation_one():
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
