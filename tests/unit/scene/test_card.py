from dataclasses import replace

import numpy as np
import pytest
from tests.scene_model import CLASSES, columns, scenes, small_model

from supdocnade import SceneModel
from supdocnade.errors import InvalidArgument
from supdocnade.metrics import share_interval
from supdocnade.report.html import write_report
from supdocnade.scene.card import describe_contents, is_stripped, model_card, strip_scene
from supdocnade.scene.persistence import SCENE, load_scene, save_scene
from supdocnade.serving.explore import ModelExplorer


@pytest.fixture(scope="module")
def fitted():
    return small_model().fitted_


@pytest.fixture(scope="module")
def stripped(fitted, tmp_path_factory):
    """A stripped model, saved and loaded."""
    folder = tmp_path_factory.mktemp("stripped") / "scenes"
    save_scene(strip_scene(fitted), {"random_state": 0}, folder)
    return load_scene(folder)[0], folder


def test_a_card_has_the_figures_of_the_model(fitted):
    card = model_card(fitted, "scenes", licence="cc-by-4.0")
    figures = fitted.held_out.figures
    n = int(figures["n_labelled"])
    ends = share_interval(round(figures["accuracy"] * n), n)
    low, high = (f"{100 * end:.1f}" for end in ends)
    for expected in (
        "license: cc-by-4.0\n",
        f"| {100 * figures['accuracy']:.1f} % (95 % interval {low} to {high} %) |",
        "| calibration error of class probabilities | "
        f"{100 * figures['class_calibration_error']:.1f} % |",
        f"{fitted.data['n_images']} photographs, 0 of them without a class",
        "Dense SIFT descriptors, 30 visual words, 12 topics.",
        'SceneModel.from_pretrained("scenes")',
        "thumbnails of",
    ):
        assert expected in card
    for label in CLASSES:
        assert f"| {label} | 8 |" in card
    assert "license:" not in model_card(fitted, "scenes")


def test_names_cannot_change_the_card(fitted):
    odd = replace(fitted, tag_names=("a|b", "<script>", "line\nbreak"))
    assert "Tags: a\\|b, \\<script\\>, line break." in model_card(odd, "scenes\n---\nx: y")
    assert "\n# scenes --- x: y\n" in model_card(odd, "scenes\n---\nx: y")


def test_a_model_without_held_out_photographs_says_so(fitted):
    empty = replace(fitted, held_out=type(fitted.held_out)())
    assert "No photographs were held out" in model_card(empty, "scenes")


def test_a_stripped_model_predicts_the_same(fitted, stripped):
    loaded, _ = stripped
    images = [scene.image for scene in scenes()[:4]]
    for scene in images:
        words = [loaded.encoder.encode(scene).words]
        topics_BH = loaded.topics_of(words)
        np.testing.assert_array_equal(topics_BH, fitted.topics_of(words))
        np.testing.assert_array_equal(
            loaded.is_unfamiliar(topics_BH), fitted.is_unfamiliar(topics_BH)
        )
        np.testing.assert_array_equal(loaded.tag_proba(topics_BH), fitted.tag_proba(topics_BH))


def test_a_stripped_model_carries_no_pictures_names_and_tags(fitted, stripped):
    loaded, folder = stripped
    assert is_stripped(loaded)
    assert not is_stripped(fitted)
    photographs = loaded.training_set.photographs
    assert set(photographs.tags) == {None}
    assert photographs.names[0] == photographs.keys[0] == "photograph 1"
    assert not loaded.stored_words[0]["examples"].any()
    assert loaded.thumbnails.pictures == ()
    assert all(image.tags is None for image in loaded.held_out.images)
    content = (folder / SCENE).read_bytes()
    for key in fitted.training_set.photographs.content_keys():
        assert key.encode() not in content
    assert "24 photographs, without pictures, names and tags" in describe_contents(loaded)[0]
    assert "the tags of 24" in describe_contents(fitted)[1]


def test_a_stripped_model_has_a_report_and_a_page(stripped, tmp_path):
    loaded, _ = stripped
    write_report(loaded, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 1000
    explorer = ModelExplorer(loaded, "0" * 32)
    assert explorer.word_picture(0).startswith(b"\xff\xd8\xff")
    assert [each.label for each in explorer.overview.classes] == list(CLASSES)


def test_nothing_can_be_added_to_a_stripped_model(stripped):
    model = SceneModel.load(stripped[1])
    with pytest.raises(InvalidArgument, match="this model was stripped of the tags"):
        model.fit_more(*columns(scenes()[:3]))
