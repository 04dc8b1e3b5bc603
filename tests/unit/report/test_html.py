import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from tests.scene_model import SETTINGS, columns, scenes, small_model

from supdocnade import SceneModel
from supdocnade.report.frequencies import jpeg_uri
from supdocnade.report.html import (
    TITLE,
    create_environment,
    render_report,
    write_report,
)
from supdocnade.scene.model import scene_model
from supdocnade.scene.sharing import strip_scene
from supdocnade.visual_words.settings import VisualWordSettings

VOID = {"meta", "img", "br", "hr", "input", "link"}
HOSTILE = '<script>alert("1")</script>&amp;\'"><img src=http://x/y>{{ 7 * 7 }}'
LONG = "Straße_" + "ü日" * 60


class Page(HTMLParser):
    """Checks that elements are balanced, and collects what a browser would act on."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.attributes += [(tag, *pair) for pair in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def values(self, name):
        return [value for _, key, value in self.attributes if key == name]


def check(text):
    """Return a page after looking at what every page must have."""
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert page.tags.count("h1") == 1
    assert not {"script", "link", "iframe", "object", "form", "base"} & set(page.tags)
    assert all(value.startswith("data:image/jpeg;base64,") for value in page.values("src"))
    ids = page.values("id")
    assert len(set(ids)) == len(ids)
    assert all(value[0] == "#" and value[1:] in ids for value in page.values("href"))
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert not re.search(r"url\(|@import", text)
    pictures = [pair for pair in page.attributes if pair[:2] == ("img", "alt")]
    assert len(pictures) == page.tags.count("img")
    assert all(alt for *_, alt in pictures)
    return page


@cache
def quick(known=(True, True), n_classes=3, **settings):
    """A model that has hardly learned anything."""
    images, labels, tags = columns(scenes())
    if n_classes != 3:
        labels = [f"{HOSTILE}{n % n_classes}" if n % 3 else LONG for n in range(len(images))]
    if n_classes == 1:
        labels = [HOSTILE] * len(images)
    settings = {**SETTINGS, "max_epochs": 1, "n_words": 8, "max_side": 64, **settings}
    model = scene_model(**settings)
    return model.fit(images, labels if known[0] else None, tags if known[1] else None)


def test_a_report_shows_everything():
    model = small_model()
    page = check(render_report(model.fitted_))
    text = " ".join(page.text)
    assert TITLE in text
    for heading in ("Results", "Confusions", "Classes", "Topics", "Predictions", "Settings"):
        assert heading in text
    fitted = model.fitted_
    for name in (*fitted.classes, *fitted.tag_names, "generative_weight", "numpy"):
        assert name in text
    assert "a model that was not trained on them" in text
    share = f"{100 * fitted.held_out.metrics['accuracy']:.1f}\u202f%"
    assert share in text
    error = f"{100 * fitted.held_out.metrics['class_calibration_error']:.1f}\u202f%"
    assert error in text
    assert f"{fitted.held_out.metrics['f_measure']:.3f}" in text
    assert "visual words of SIFT descriptors" in text
    assert "An empty row" not in text
    assert "tags.precise_threshold" in text
    assert "precise_thresholds" not in text
    assert "(16, 32)" in page.text  # Two sizes of patches, not a rectangle.
    assert len(page.values("id")) == 6 + len(fitted.classes) + len(fitted.thumbnails.topics)


def test_a_model_without_pictures_and_tags_has_a_report_without_classes():
    fitted = small_model().fitted_
    assert 'id="classes"' in render_report(fitted)
    assert 'id="classes"' not in render_report(strip_scene(fitted))  # Its cards would be empty.


def test_every_class_is_shown_by_right_answers():
    fitted = small_model().fitted_
    images = fitted.held_out.images
    right = {each.name: each.label for each in images if each.right and each.label is not None}
    head, body = render_report(fitted).split("<main>")
    names = {jpeg_uri(fitted.thumbnails.picture(name)): name for name in fitted.thumbnails.names}
    for page, pattern in (
        (head, r'<img src="([^"]*)" alt="Photograph: ([^"]*)"'),
        (body, r'<img src="([^"]*)" alt="Photograph of ([^"]*)"'),
    ):
        found = [(names[uri], label) for uri, label in re.findall(pattern, page)]
        assert {label for _, label in found} == set(right.values()) != set()
        assert found == [(name, right[name]) for name, _ in found]
    assert "and 1 more" not in head
    fewer = tuple(each for each in images if each.label != fitted.classes[0])
    others = replace(fitted, held_out=replace(fitted.held_out, images=fewer))
    assert '<p class="small soft">and 1 more</p>' in render_report(others)
    n_right = len(right)
    n_labelled = sum(each.label is not None for each in images)
    assert f"Right for <strong>{n_right} of {n_labelled} photographs</strong>" in head


def test_photographs_that_probably_lack_a_tag_are_shown_after_those_of_wrong_classes():
    fitted = small_model().fitted_
    shown = [each for each in fitted.held_out.images if fitted.thumbnails.picture(each.name)]
    images = tuple(
        replace(each, predicted=each.label, tags=("tree",), given=(("tree", 0.99), ("water", p)))
        for each, p in zip(shown, (0.95, 0.85, 0.98), strict=True)
    )
    page = render_report(replace(fitted, held_out=replace(fitted.held_out, images=images)))
    untagged = re.findall(r'<li class="untagged">.*?</li>', page, re.DOTALL)
    marked = [re.search(r"water</bdi>&nbsp;(\d+)", each)[1] for each in untagged]
    assert marked == ["98", "95"]
    assert page.count('<li class="right">') == 1
    assert "A tag is probably missing" in page
    assert "A tag is probably missing" not in render_report(strip_scene(fitted))


def test_shares_are_not_compared_more_exactly_than_they_are_known():
    ratio = create_environment().filters["ratio"]
    pairs = [(0.5, 0.2), (0.5, 0.02), (0.9, 0.001), (0.5, 0.0), (0.5, None)]
    assert [ratio(*pair) for pair in pairs] == [
        "2.5\u202f×",
        "25\u202f×",
        "> 50\u202f×",
        "all here",
        "",
    ]


def test_topics_of_a_class_are_those_that_support_it():
    fitted = small_model().fitted_
    weights = fitted.rotation.rotate_weights(fitted.network["label_weight"])
    cards = render_report(fitted).split('<article class="card" id="class-')[1:]
    found = [re.findall(r'<a href="#topic-(\d+)">\1</a>', card) for card in cards]
    shown, strongest = fitted.thumbnails.topics, np.argsort(-weights, axis=1)[:, :3].tolist()
    assert found == [[f"{topic}" for topic in each if topic in shown] for each in strongest]
    assert "<b>Topics:</b> </p>" not in "".join(cards)


def test_a_report_is_made_from_the_folder_alone_and_always_the_same(tmp_path):
    model = small_model()
    model.save(tmp_path / "model")
    for name in ("one.html", "other.html"):
        write_report(SceneModel.load(tmp_path / "model").fitted_, tmp_path / name)
    one, other = (tmp_path / name for name in ("one.html", "other.html"))
    assert one.read_bytes() == other.read_bytes() == render_report(model.fitted_).encode()


@pytest.mark.parametrize(
    ("options", "present", "absent"),
    [
        (
            {"known": (False, False)},
            ["Topic "],
            ["Right for", "Confusions", "F-measure"],
        ),
        (
            {"known": (False, True)},
            ["F-measure of five", "Results by tag"],
            ["answered rightly", "Accuracy", "its predicted class", "Without a class"],
        ),
        (
            {"known": (True, False)},
            ["Accuracy", "slightly optimistic"],
            ["F-measure", "Tags", "class and tag"],
        ),
        ({"held_out": 0.0}, ["No photographs were held out"], ["Accuracy", "Predictions for"]),
        (
            {"n_classes": 1},
            ["no classification to evaluate"],
            ["Accuracy", "Confusions", "support vector machine"],
        ),
        ({"n_classes": 2}, ["Accuracy", "predicted by a support vector machine"], []),
        ({"grid": ((1, 1), (2, 2)), "n_topics": 2}, ["in 5 regions"], []),
    ],
)
def test_models_that_know_less_have_a_report(options, present, absent):
    text = " ".join(check(render_report(quick(**options).fitted_)).text)
    for words in present:
        assert words in text
    for words in absent:
        assert words not in text


def test_forty_classes_with_odd_names():
    labels = [f"{HOSTILE}{n % 38}" for n in range(38)] + [LONG, "\u202eright to left"]
    rng = np.random.default_rng(0)
    images = list(rng.integers(0, 256, (200, 24, 24)).astype(np.uint8))
    model = scene_model(n_topics=4, n_words=5, max_epochs=1, held_out=0.2, random_state=0)
    model.fit(images, [labels[n % 40] for n in range(200)], [[HOSTILE, LONG]] * 200)
    model.fitted_ = replace(
        model.fitted_, classes=(*model.fitted_.classes[:-1], "lone \udcff surrogate\x00")
    )
    text = render_report(model.fitted_)
    page = check(text)
    assert "alert(" in " ".join(page.text)
    assert "<script" not in text
    assert page.tags.count("article") == 40 + len(model.fitted_.thumbnails.topics)
    assert '<table class="matrix" style="--n:40">' in text
    assert "Scroll sideways to see all columns." in text


def test_the_network_is_named():
    fitted = small_model().fitted_
    words = SimpleNamespace(
        settings=VisualWordSettings.for_photographs("efficientnet-lite2"),
        encoder=fitted.encoder,
    )
    named = replace(fitted, words=words)
    text = " ".join(check(render_report(named)).text)
    assert "of the pretrained network efficientnet-lite2" in text
    assert "patch_size" not in text
    assert "patch_size" in " ".join(check(render_report(fitted)).text)
