import base64
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from tests.scene_model import columns, scenes, small_model

from supdocnade.images.decode import DecodeConfig, decode
from supdocnade.report.class_words import (
    EMPTY,
    Frequencies,
    class_words,
    jpeg_uri,
    mean_words,
    mosaic,
    mosaic_uri,
    topic_frequencies,
    topic_words,
)

# Three topics; two regions of three visual words.
W = np.array(
    [
        # region 0     region 1
        [0.0, 4.0, 1.0, 0.0, 0.0, 1.0],
        [2.0, 0.0, 1.0, 6.0, 0.0, 1.0],
        [9.0, 9.0, 9.0, 9.0, 9.0, 9.0],
    ]
)


def test_weights_are_averaged_over_topics_and_the_best_region_counts():
    assert mean_words(W, [0, 1], 3) == [0, 1, 2]
    assert mean_words(W, [0], 3) == [1, 2, 0]


def test_the_words_of_a_class_are_more_frequent_in_it_than_in_others():
    fitted = small_model().fitted_
    counts = fitted.damp(fitted.training_set.counts).toarray()
    labels = np.array(fitted.training_set.photographs.labels)
    found = class_words(fitted)
    for label, words in zip(fitted.classes, found, strict=True):
        inside, others = (counts[labels == label], counts[labels != label])
        more = (inside.mean(axis=0) - others.mean(axis=0)).reshape(4, -1)
        assert (more[:, words].max(axis=0) > 0).all()
        assert len(words) == 4
    assert len({word for words in found for word in words}) > 4
    assert class_words(replace(fitted, classes=("coast",))) == [[]]


@pytest.mark.parametrize("output", ["words", "sigmoid"])
def test_words_of_a_topic_are_frequent_where_it_is_strong(output):
    fitted = small_model(output).fitted_
    rotation, counts = fitted.rotation, fitted.training_set.counts
    topics = rotation.rotate(fitted.compute_topics(counts)).T
    words = fitted.damp(counts).toarray().T
    found = topic_words(fitted)
    assert len(found) == len(topics)
    for each, topic in zip(found, topics, strict=True):
        varies = words.std(axis=1) > 0
        expected = np.zeros(len(words))
        expected[varies] = [np.corrcoef(topic, word)[0, 1] for word in words[varies]]
        of_word = expected.reshape(-1, fitted.encoder.n_words)[:, each[0]]
        assert of_word.max() == pytest.approx(expected.max())


PRESENT = sparse.csr_array([[1, 0, 1], [1, 1, 0], [1, 0, 0], [0, 0, 1]])
MEMBERS = np.array([[1, 0, 1], [1, 0, 1], [0, 0, 1], [0, 0, 1]], bool)


def test_names_that_set_a_group_apart_come_with_both_shares():
    found = Frequencies.count(MEMBERS, PRESENT, ["sky", "sea", "car"])
    sky = {"name": "sky", "share": 1.0, "elsewhere": 0.5}
    assert found.of_group(0) == [sky, {"name": "sea", "share": 0.5, "elsewhere": 0.0}]
    assert found.of_group(0, limit=1) == [sky]
    assert found.of_group(1) == []  # It has no photographs.
    # No photograph is elsewhere.
    assert [(each["name"], each["elsewhere"]) for each in found.of_group(2, limit=2)] == [
        ("sky", None),
        ("car", None),
    ]
    assert found.of_name(0, 2) == [2, 0]
    assert found.of_name(2, 3) == [2]


@pytest.mark.parametrize("output", ["words", "sigmoid"])
def test_tags_and_classes_of_a_topic_are_those_of_its_photographs(output):
    fitted = small_model(output).fitted_
    images, labels, tags = columns(scenes())
    hidden = small_model(output).transform(images)
    of_tags, of_classes = topic_frequencies(fitted)
    for topic, activation in enumerate(fitted.rotation.rotate(hidden).T):
        rows = [row for row in np.argsort(-activation, kind="stable")[:3] if activation[row] > 0]
        for each in of_tags.of_group(topic):
            assert each["share"] == np.mean([each["name"] in tags[row] for row in rows])
        for each in of_classes.of_group(topic):
            assert each["share"] == np.mean([labels[row] == each["name"] for row in rows])


def test_patches_fill_the_rows_of_a_mosaic():
    patches = np.arange(5, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    cells = mosaic(patches)[::2, ::2, 0]
    assert cells.tolist() == [[0, 1, 2, 3], [4, EMPTY, EMPTY, EMPTY], *[[EMPTY] * 4] * 2]


def test_pictures_are_data_uris():
    assert jpeg_uri(b"abc") == "data:image/jpeg;base64,YWJj"
    patches = np.full((16, 8, 8, 3), 200, np.uint8)
    content = base64.b64decode(mosaic_uri(patches).split(",")[1])
    assert decode(content, DecodeConfig(color=True)).shape == (32, 32, 3)
