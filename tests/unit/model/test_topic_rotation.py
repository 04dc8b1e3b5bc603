import numpy as np
import pytest

from supdocnade import DocNADE
from supdocnade.errors import InvalidArgument
from supdocnade.model import topic_rotation
from supdocnade.model.topic_rotation import find_rotation, rise_with_topics
from supdocnade.threads import limit_threads

RNG = np.random.default_rng(0)
PLANTED = np.where(RNG.random((500, 4)) < 0.2, RNG.exponential(size=(500, 4)), 0.0)
"""Four independent topics, each of a fifth of the documents."""

MIXED = (PLANTED @ RNG.normal(size=(4, 6)) + 0.5).astype(np.float32)
"""Six units, each a mixture of the topics."""


def test_planted_topics_are_found():
    topics = find_rotation(MIXED).rotate(MIXED)
    correlation = np.corrcoef(topics.T, PLANTED.T)[: topics.shape[1], topics.shape[1] :]
    # Each of the planted ones is a topic of its own, with its sign.
    assert len(set(correlation.argmax(axis=0).tolist())) == 4
    assert (correlation.max(axis=0) > 0.95).all()


def test_topics_are_scaled_and_their_products_vanish():
    topics = find_rotation(MIXED).rotate(MIXED)
    assert topics.shape == (500, 5)  # Four topics and a constant, in six units.
    np.testing.assert_allclose(topics.T @ topics / 500, np.eye(5), atol=1e-6)
    assert ((topics**3).mean(axis=0) > 0).all()


def test_nothing_of_the_features_is_lost():
    rotation = find_rotation(MIXED)
    topics = rotation.rotate(MIXED)
    np.testing.assert_allclose(topics @ rotation.inverse_RH, MIXED, atol=1e-5)
    weights = RNG.normal(size=(3, 6))
    np.testing.assert_allclose(
        topics @ rotation.rotate_weights(weights).T, MIXED @ weights.T, atol=1e-5
    )


def test_the_same_bits_for_any_number_of_threads():
    with limit_threads(1):
        one = find_rotation(MIXED)
    two = find_rotation(MIXED)
    np.testing.assert_array_equal(one.axes_HR, two.axes_HR)


def test_many_documents_are_represented_by_some(monkeypatch):
    monkeypatch.setattr(topic_rotation, "MAX_DOCUMENTS", 100)
    rows = np.linspace(0, 499, 100).astype(int)
    some = find_rotation(MIXED[rows])
    np.testing.assert_array_equal(find_rotation(MIXED).axes_HR, some.axes_HR)


@pytest.mark.parametrize("hidden", [np.zeros((5, 3)), np.zeros((0, 3))])
def test_documents_without_features_have_no_topics(hidden):
    with pytest.raises(InvalidArgument, match=f"got {len(hidden)} documents without"):
        find_rotation(hidden)


def test_topics_need_finite_features():
    with pytest.raises(InvalidArgument, match="finite topic features"):
        find_rotation(np.array([[1.0, np.inf], [1.0, 2.0]]))


def test_words_are_read_in_parts_and_from_some_documents(monkeypatch):
    model = DocNADE(6, max_epochs=2, random_state=0).fit(RNG.poisson(1.0, (50, 20)))
    network, hidden = model.network_.arrays(), model.transform(np.eye(20))
    topics = find_rotation(hidden).rotate(hidden)
    whole = rise_with_topics(network, hidden, topics)
    monkeypatch.setattr(topic_rotation, "MAX_ENTRIES", 3 * 20)
    np.testing.assert_allclose(rise_with_topics(network, hidden, topics), whole, rtol=1e-9)
    monkeypatch.setattr(topic_rotation, "MAX_READ", 10)
    rows = np.linspace(0, 19, 10).astype(int)
    some = rise_with_topics(network, hidden[rows], topics[rows])
    np.testing.assert_array_equal(rise_with_topics(network, hidden, topics), some)
    # A word whose probability never changes says nothing about topics.
    network["node_weight"][:] = 0
    np.testing.assert_array_equal(rise_with_topics(network, hidden[:1], topics[:1]), 0)
