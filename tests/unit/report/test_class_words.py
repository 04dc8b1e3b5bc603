from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from tests.scene_model import columns, scenes, small_model

from supdocnade.model.topic_rotation import TopicRotation
from supdocnade.report.class_words import (
    Frequencies,
    class_frequencies,
    class_topics,
    class_words,
    mean_words,
    topic_frequencies,
    topic_words,
)
from supdocnade.report.html import render_report

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
    found = mean_words(W, [0, 1], 3)
    assert [(word, max(weights)) for word, weights in found.items()] == [(0, 3), (1, 2), (2, 1)]
    assert found[0] == [1.0, 3.0]
    assert list(mean_words(W, [0], 3)) == [1, 2, 0]


def test_the_words_of_a_class_are_those_of_its_hidden_units():
    fitted = small_model().fitted_
    found = class_words(fitted)
    U = torch.from_numpy(fitted.network["label_weight"])
    for words, row in zip(found, U, strict=True):
        units = torch.topk(row, 3).indices.tolist()
        weights = fitted.network.components[units, : fitted.encoder.n_features]
        by_region = weights.astype(float).mean(axis=0).reshape(4, -1)
        first = next(iter(words))
        assert first == by_region.max(axis=0).argmax()
        assert len(words) == 4
        assert len(words[first]) == 4


@pytest.mark.parametrize("model", [("svm", "words"), ("softmax", "sigmoid")])
def test_words_of_a_topic_are_frequent_where_it_is_strong(model):
    fitted = small_model(*model).fitted_
    rotation, counts = fitted.rotation, fitted.training_set.counts
    topics = rotation.rotate(fitted.compute_topics(counts)).T
    words = fitted.damp(counts).toarray().T
    found = topic_words(fitted)
    assert len(found) == len(topics)
    for each, topic in zip(found, topics, strict=True):
        varies = words.std(axis=1) > 0
        expected = np.zeros(len(words))
        expected[varies] = [np.corrcoef(topic, word)[0, 1] for word in words[varies]]
        assert max(next(iter(each.values()))) == pytest.approx(expected.max())


def test_a_model_without_topics_has_words_of_classes_alone():
    fitted = small_model().fitted_
    n_units = len(fitted.rotation.axes_HR)
    nothing = TopicRotation(np.empty((n_units, 0)), np.empty((0, n_units)))
    bare = replace(fitted, rotation=nothing, thumbnails=replace(fitted.thumbnails, topics={}))
    assert topic_words(bare) == []
    assert class_topics(bare) == [[], [], []]
    assert class_words(bare) == class_words(fitted)
    of_tags, _ = topic_frequencies(bare)
    assert of_tags.of_name(0, 2) == []
    assert 'id="topics"' not in render_report(bare)


def test_topics_of_a_class_support_it():
    fitted = small_model().fitted_
    rotation = fitted.rotation
    hidden = fitted.compute_topics(fitted.training_set.counts)
    # In units of the topics, U is another linear function with the same values.
    U = fitted.network["label_weight"]
    logits = hidden @ rotation.axes_HR @ rotation.inverse_RH @ U.T
    weights = rotation.rotate_weights(U)
    np.testing.assert_allclose(rotation.rotate(hidden) @ weights.T, logits, atol=1e-8)
    assert [each[0] for each in class_topics(fitted)] == weights.argmax(axis=1).tolist()


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


def test_tags_of_a_class_are_on_its_photographs():
    fitted = small_model().fitted_
    found = class_frequencies(fitted)
    for number, label in enumerate(fitted.classes):
        inside = [scene.tags for scene in scenes() if scene.label == label]
        assert found.of_group(number)
        for each in found.of_group(number):
            assert each["share"] == np.mean([each["name"] in tags for tags in inside])
            assert each["share"] > each["elsewhere"]


@pytest.mark.parametrize("model", [("svm", "words"), ("softmax", "sigmoid")])
def test_tags_and_classes_of_a_topic_are_those_of_its_photographs(model):
    fitted = small_model(*model).fitted_
    images, labels, tags = columns(scenes())
    hidden = small_model(*model).transform(images)
    of_tags, of_classes = topic_frequencies(fitted)
    for topic, activation in enumerate(fitted.rotation.rotate(hidden).T):
        rows = [row for row in np.argsort(-activation, kind="stable")[:3] if activation[row] > 0]
        for each in of_tags.of_group(topic):
            assert each["share"] == np.mean([each["name"] in tags[row] for row in rows])
        for each in of_classes.of_group(topic):
            assert each["share"] == np.mean([labels[row] == each["name"] for row in rows])
