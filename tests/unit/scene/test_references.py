import numpy as np
import pytest

from supdocnade.scene import references
from supdocnade.scene.references import (
    MAX_TOPIC,
    TOPIC_WEIGHT,
    References,
    choose_references,
    fit_scaler,
    round_topics,
)
from supdocnade.threads import limit_threads

RNG = np.random.default_rng(0)
WIDTHS = (3, 2)


def drawn(n):
    """Return topics and the features of two maps; the last topic is constant."""
    topics_BH = RNG.normal(3, 1, (n, 4)) * [1, 20, 3, 0]
    features_BF = RNG.normal(size=(n, 5)) * [1, 2, 3, 40, 5]
    return topics_BH.astype(np.float32), features_BF.astype(np.float32)


KNOWN, NEW = drawn(40), drawn(7)
WITH_MAPS = References.of(*KNOWN, WIDTHS)


def brute_force(known, new):
    """Weighted mean over blocks of the mean squared difference of standardised entries, (B, N)."""
    total = []
    for block, others in zip(known, new, strict=True):
        scale = block.std(axis=0)
        scale[scale == 0] = 1
        total.append(np.square((others[:, None] - block) / scale).mean(axis=2))
    return np.average(total, axis=0, weights=[TOPIC_WEIGHT, 1, 1][: len(total)])


def blocks(topics_BH, features_BF):
    return [topics_BH, *np.split(features_BF, [3], axis=1)]


def test_distances_are_those_of_the_formula():
    expected = brute_force(blocks(*KNOWN), blocks(*NEW))
    found = WITH_MAPS.compare(*NEW)
    np.testing.assert_allclose(found.distance_BN, expected, rtol=1e-4)
    np.testing.assert_array_equal(found.topics_BH, NEW[0])
    mutual_NN = brute_force(blocks(*KNOWN), blocks(*KNOWN))
    np.testing.assert_allclose(WITH_MAPS.mutual_distances(), mutual_NN, atol=1e-5)
    topics = References.of(KNOWN[0]).compare(NEW[0])
    np.testing.assert_allclose(topics.distance_BN, brute_force(KNOWN[:1], NEW[:1]), rtol=1e-4)


def test_every_map_has_the_same_weight_and_topics_a_quarter_of_it():
    """A photograph is as far from the mean in every map, whatever the width of the map."""
    squares_X = np.square(WITH_MAPS.point_NX).mean(axis=0)
    # One of the four topics is constant.
    weights = [squares_X[:4].sum() * 4 / 3, squares_X[4:7].sum(), squares_X[7:].sum()]
    np.testing.assert_allclose(weights, np.array([0.25, 1, 1]) / 2.25, rtol=1e-5)


def test_a_row_does_not_depend_on_the_others_or_on_threads():
    found = WITH_MAPS.compare(*NEW)
    some = np.array([5, 2])
    for n_threads in (1, 2):
        with limit_threads(n_threads):
            np.testing.assert_array_equal(found.take(some).distance_BN, found.distance_BN[some])
            alone = WITH_MAPS.compare(*(each[4:5] for each in NEW))
            np.testing.assert_array_equal(alone.distance_BN, found.distance_BN[4:5])
    assert len(found.take(some)) == 2


def test_some_references_are_the_same_points():
    rows = np.array([3, 1, 30])
    fewer = WITH_MAPS.take(rows)
    whole = WITH_MAPS.mutual_distances()
    np.testing.assert_allclose(fewer.mutual_distances(), whole[np.ix_(rows, rows)], atol=1e-6)


def test_a_photograph_is_at_no_distance_from_itself():
    for distances in (WITH_MAPS.compare(*KNOWN).distance_BN, WITH_MAPS.mutual_distances()):
        assert (distances >= 0).all()
        assert np.diag(distances).max() < 1e-5


def test_a_constant_entry_has_the_deviation_1():
    mean_X, scale_X = fit_scaler(np.array([[1.0, 1e9, 2.0], [3.0, 1e9, 2.0]]))
    assert (mean_X.tolist(), scale_X.tolist()) == ([2, 1e9, 2], [1, 1, 1])


@pytest.mark.parametrize(("limit", "expected"), [(9, [2, 2, 2, 3]), (20, [2, 4, 7, 7])])
def test_of_many_photographs_every_class_has_as_many_as_possible(monkeypatch, limit, expected):
    label_B = RNG.permutation(np.repeat([-1, 0, 1, 2], [4, 30, 2, 14]))
    assert choose_references(label_B).tolist() == list(range(50))
    monkeypatch.setattr(references, "MAX_REFERENCES", limit)
    chosen = choose_references(label_B)
    assert (np.diff(chosen) > 0).all()
    assert sorted(np.unique(label_B[chosen], return_counts=True)[1]) == expected
    np.testing.assert_array_equal(choose_references(label_B), chosen)


def test_topics_have_the_precision_of_a_file():
    topics = np.array([[1 / 3, 1e9, -1e9, 0]], np.float32)
    rounded = round_topics(topics)
    assert rounded.dtype == np.float32
    np.testing.assert_array_equal(rounded, rounded.astype(np.float16))
    assert rounded[0, 1] == -rounded[0, 2] == np.float16(MAX_TOPIC)
    assert rounded[0, 0] == pytest.approx(1 / 3, rel=2**-11)
