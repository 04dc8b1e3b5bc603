from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from tests.scene_model import scenes, small_model

from supdocnade.errors import InvalidArgument
from supdocnade.report import heatmap
from supdocnade.report.heatmap import (
    contribution_map,
    diverging,
    draw_explanation,
    overlay,
    write_explanation,
)
from supdocnade.scene.attribution import Explanation

SIZE = (96, 128)

RGB_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)


def lightness(colours):
    """Return the OKLab lightness of sRGB colours in [0, 1]."""
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    cones = np.cbrt(linear @ RGB_TO_LMS.T)
    return cones @ np.array([0.2104542553, 0.7936177850, -0.0040720468])


def explanation(shares, centres, sizes=None, name="street", kind="label", given=True):
    return Explanation(
        kind=kind,
        name=name,
        probability=0.94,
        given=given,
        decision="94 %",
        score="decision value of the SVM",
        share_S=np.array(shares, np.float64),
        centres_S2=np.array(centres, np.float32).reshape(-1, 2),
        patch_size_S=np.full(len(shares), 16, np.int32) if sizes is None else np.array(sizes),
        size=SIZE,
        topic_share_H=np.zeros(3),
        feature_share=0.0,
        empty=-1.0,
        whole=-1.0 + sum(shares),
    )


def test_the_map_adds_up_to_the_shares():
    rng = np.random.default_rng(0)
    places = [(y, x) for y in range(8, 89, 8) for x in range(8, 121, 8)]
    shares = rng.normal(size=2 * len(places))
    sizes = np.repeat([16, 24], len(places))
    found = contribution_map(explanation(shares, [*places, *places], sizes))
    assert found.shape == SIZE
    assert found.sum() == pytest.approx(shares.sum())


def test_it_is_brightest_where_the_share_is_and_darkest_where_it_is_negative():
    found = contribution_map(explanation([2.0, -1.0], [(20, 40), (70, 100)]))
    assert np.unravel_index(found.argmax(), SIZE) == (20, 40)
    assert np.unravel_index(found.argmin(), SIZE) == (70, 100)
    picture = np.full((*SIZE, 3), 128, np.uint8)
    drawn = overlay(picture, found, float(found.max())) / 255
    light = lightness(drawn)
    assert light[20, 40] == light.max()
    assert light[70, 100] == light.min()


def test_colours_are_a_grey_scale_with_zero_in_the_middle():
    colours = diverging(np.linspace(-1, 1, 201))
    light = lightness(colours)
    assert (np.diff(light) > 0).all()
    assert np.ptp(colours[100]) == 0
    assert light[100] - light[0] == pytest.approx(light[200] - light[100], abs=0.05)


def test_nothing_to_say_is_drawn_in_grey():
    picture = scenes()[0].image
    for silent in (explanation([0.0], [(20, 40)]), explanation([], [])):
        assert contribution_map(silent).max() == 0
        drawn = draw_explanation(picture, silent)
        assert drawn.dtype == np.uint8
        assert drawn.shape[1:] == (1200, 3)
    quiet = overlay(picture, np.zeros(SIZE), 0.0)
    assert np.ptp(quiet, axis=2).max() == 0


def test_a_picture_of_another_size_is_refused():
    with pytest.raises(InvalidArgument, match="image must have"):
        draw_explanation(np.zeros((50, 60), np.uint8), explanation([1.0], [(20, 40)]))


def test_a_model_draws_photographs_as_it_reads_them(tmp_path):
    model = small_model()
    large = np.asarray(Image.fromarray(scenes()[0].image).resize((400, 300)))
    for name in ("one.png", "two.png"):
        write_explanation(model, large, tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    with Image.open(tmp_path / "one.png") as written:
        assert written.size[0] == 1200
    tag = model.fitted_.tag_names[0]
    write_explanation(model, large, tmp_path / "why.jpg", tag=tag)
    with Image.open(tmp_path / "why.jpg") as written:
        assert written.format == "JPEG"


def test_a_decision_is_drawn_and_a_question_asked(monkeypatch):
    written = []
    write = heatmap._Drawing.write
    monkeypatch.setattr(
        heatmap._Drawing,
        "write",
        lambda self, x, y, text, *rest, **more: (
            written.append(text) or write(self, x, y, text, *rest, **more)
        ),
    )
    found = explanation(
        [1.0, -0.3, 1.0, -0.2], [(20, 40)] * 4, name="boat", kind="tag", given=False
    )
    draw_explanation(scenes()[0].image, replace(found, decision="4 %: not given"), width=300)
    assert written[:2] == ["Why not the tag boat?", "boat, 4 %: not given"]


def test_a_system_without_fonts_draws_names_in_ascii(monkeypatch):
    monkeypatch.setattr(heatmap, "_load_font", lambda *_: None)
    font, text = heatmap._font_for("Église −1", 20, bold=False)
    assert text == "Eglise -1"
    assert font.getlength(text) > 0
    assert heatmap._font_for("日本", 20, bold=True)[1] == "?"
