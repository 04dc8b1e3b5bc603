import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import accuracy_score

from supdocnade.errors import InvalidArgument
from supdocnade.metrics import (
    accuracy,
    class_metrics,
    class_sums,
    f_measure,
    npmi_coherence,
    over_orderings,
    perplexity,
    share_interval,
    top_ranked,
)


def test_f_measure_by_hand():
    # Five chosen, hits 2, 5, 0 of 3, 5, 2 true tags; the last document has none and is left out.
    chosen = np.tile(np.arange(5), (4, 1))
    true = np.zeros((4, 8), bool)
    true[0, [0, 1, 6]] = True
    true[1, :5] = True
    true[2, [5, 7]] = True
    precision, recall = 2 / 5, 2 / 3
    first = 2 * precision * recall / (precision + recall)
    assert f_measure(chosen, true) == pytest.approx((first + 1 + 0) / 3)


def test_f_measure_without_any_tag_is_undefined():
    assert np.isnan(f_measure(np.zeros((2, 1), int), np.zeros((2, 3), bool)))


def test_ranking_breaks_ties_by_number():
    assert top_ranked(np.zeros((1, 4)), 3).tolist() == [[0, 1, 2]]


def test_perplexities_of_the_two_averages():
    log_prob, n_words = np.log([0.5, 1 / 64]), np.array([1.0, 3.0])
    assert perplexity(log_prob, n_words) == pytest.approx(np.sqrt(2 * 4))
    assert perplexity(log_prob, n_words, "corpus") == pytest.approx(128 ** (1 / 4))


@pytest.mark.parametrize(
    ("sizes", "average", "message"),
    [([0.0, 0.0], "document", "with words"), ([1.0, 1.0], "word", "average must be one of")],
)
def test_perplexity_refuses(sizes, average, message):
    with pytest.raises(InvalidArgument, match=message):
        perplexity(np.zeros(2), np.array(sizes), average)


def test_log_of_the_mean_is_at_least_the_mean_of_the_logs():
    log_prob = np.log([[0.1, 0.2], [0.3, 0.2]])
    np.testing.assert_allclose(over_orderings(log_prob, "log_mean"), np.log([0.2, 0.2]))
    np.testing.assert_allclose(over_orderings(log_prob, "mean_log"), log_prob.mean(axis=0))
    far = np.array([[-5000.0], [-5001.0]])
    assert over_orderings(far, "log_mean")[0] == pytest.approx(-5000 + np.log((1 + np.exp(-1)) / 2))


def test_npmi_by_hand():
    counts = sparse.csr_array([[1, 1, 0, 1], [1, 0, 0, 1], [0, 2, 0, 1], [3, 1, 0, 1]])
    # p(0) = p(1) = 3/4 and p(0, 1) = 2/4; word 2 never occurs, word 3 always does.
    expected = np.log((2 / 4) / (3 / 4) ** 2) / -np.log(2 / 4)
    got = npmi_coherence(np.array([[0, 1], [0, 2], [0, 3]]), counts)
    np.testing.assert_allclose(got, [expected, -1, 0], atol=1e-12)
    mean_of_pairs = npmi_coherence(np.array([[0, 1, 2]]), counts)
    np.testing.assert_allclose(mean_of_pairs, [(expected - 2) / 3])
    with pytest.raises(InvalidArgument, match="at least 2 per topic"):
        npmi_coherence(np.array([[0]]), counts)


def test_calibration_error_by_hand():
    confidence = np.array([0.95, 0.95, 0.55, 0.55])
    right = np.array([True, False, True, False])
    error = class_metrics(class_sums(confidence, right))["class_calibration_error"]
    assert error == pytest.approx((0.45 + 0.05) / 2)


def test_an_interval_holds_the_share():
    for hits in range(11):
        low, high = share_interval(hits, 10)
        assert 0 <= low <= hits / 10 <= high <= 1
    assert share_interval(0, 0) == (0, 1)


def test_accuracy_is_scikit_learns():
    rng = np.random.default_rng(0)
    predicted, true, weight = rng.random((40, 2)) < 0.5, rng.random((40, 2)) < 0.5, rng.random(40)
    everything = np.ones((40, 2), bool)
    expected = accuracy_score(true, predicted, sample_weight=weight)
    assert accuracy(predicted, true, everything, weight) == pytest.approx(expected)
    assert np.isnan(accuracy(predicted, true, ~everything))
