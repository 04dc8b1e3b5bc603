import numpy as np
import pytest
from scipy.special import expit, softmax

from supdocnade.errors import InvalidArgument
from supdocnade.metrics import class_metrics, class_sums
from supdocnade.scene.calibration import (
    best_threshold,
    fit_tags,
    fit_temperature,
    precise_thresholds,
    unsure_below,
)


def calibration_error(confidence, right):
    return class_metrics(class_sums(confidence, right))["class_calibration_error"]


def drawn_labels(probability_BC, rng):
    return (probability_BC.cumsum(axis=1) > rng.random((len(probability_BC), 1))).argmax(axis=1)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_a_temperature_is_found_again(temperature):
    """Labels drawn from softmax(scores / T): the T that explains them best is T."""
    rng = np.random.default_rng(0)
    score_BC = 2 * rng.normal(size=(20_000, 5))
    label_B = drawn_labels(softmax(score_BC / temperature, axis=1), rng)
    assert fit_temperature(score_BC, label_B) == pytest.approx(temperature, rel=0.06)
    confidence = softmax(score_BC / temperature, axis=1)
    right = confidence.argmax(axis=1) == label_B
    assert calibration_error(confidence.max(axis=1), right) < 0.015
    assert calibration_error(softmax(5 * score_BC / temperature, axis=1).max(axis=1), right) > 0.05


@pytest.mark.parametrize("n_images", [1, 9, 99])
def test_n_right_answers_have_the_confidence_of_half_an_error_more(n_images):
    score_BC = np.tile([3.0, 1.0, -50.0], (n_images, 1))
    temperature = fit_temperature(score_BC, np.zeros(n_images, np.int64))
    confidence = softmax(score_BC / temperature, axis=1)[:, 0]
    assert confidence == pytest.approx((n_images + 0.5) / (n_images + 1), rel=1e-4)


def test_unsure_is_where_wrong_outnumbers_right():
    confidence = np.array([0.9, 0.2, 0.3, 0.8, 0.4, 0.7])
    right = np.array([True, False, False, True, False, True])
    assert unsure_below(confidence, right) == pytest.approx(0.55)
    assert unsure_below(confidence, np.ones(6, np.bool_)) == 0
    assert unsure_below(confidence, np.zeros(6, np.bool_)) == pytest.approx(0.9)
    assert unsure_below(np.empty(0), np.empty(0, np.bool_)) == 0


def test_tag_probabilities_are_found_again():
    rng = np.random.default_rng(0)
    frequency_A = np.array([0.5, 0.2, 0.05, 0.3])
    log_p_BA = np.log(rng.dirichlet(np.ones(4), size=5000))
    prior_A = np.log(frequency_A / (1 - frequency_A))
    true_BA = expit(1.7 * log_p_BA + 0.8 * prior_A + 2.0)
    present_BA = rng.random(true_BA.shape) < true_BA
    found = fit_tags(log_p_BA, frequency_A, present_BA, np.log(frequency_A.sum()))
    assert found.slope == pytest.approx(1.7, rel=0.05)
    assert found.prior == pytest.approx(0.8, rel=0.1)
    probability = found.probability(log_p_BA, frequency_A)
    assert abs(probability - true_BA).max() < 0.05
    assert calibration_error(probability.ravel(), present_BA.ravel()) < 0.01


def test_the_threshold_has_the_best_f_measure():
    probability = np.array([[0.9, 0.6, 0.1], [0.8, 0.3, 0.2]])
    present = np.array([[True, True, False], [True, False, False]])
    assert 0.3 < best_threshold(probability, present) <= 0.6
    assert best_threshold(probability, np.zeros((2, 3), np.bool_)) == 0.5


def test_log_odds_need_no_calibration():
    """The tags of images differ in number, which log odds express."""
    rng = np.random.default_rng(0)
    log_odds_BA = rng.normal([-4, -2, 0, 1], 2, size=(2000, 4)) + rng.normal(0, 2, size=(2000, 1))
    present_BA = rng.random(log_odds_BA.shape) < expit(log_odds_BA)
    frequency_A = present_BA.mean(axis=0)
    found = fit_tags(log_odds_BA, frequency_A, present_BA, 0.0)
    assert (found.slope, found.prior) == pytest.approx((1, 0), abs=0.1)
    expected = expit(log_odds_BA)
    assert abs(found.probability(log_odds_BA, frequency_A) - expected).max() < 0.03
    nothing = fit_tags(np.empty((0, 4)), frequency_A, np.empty((0, 4), np.bool_), 0.0)
    np.testing.assert_array_equal(nothing.probability(log_odds_BA, frequency_A), expected)


def test_thresholds_have_the_precision():
    """One tag is right above 0.6, one never, and one is never probable."""
    probability_BA = np.zeros((400, 3))
    probability_BA[:, :2] = np.linspace(0.005, 0.995, 400)[:, None]
    present_BA = np.zeros((400, 3), np.bool_)
    present_BA[:, 0] = probability_BA[:, 0] > 0.6
    of_all, of_each_A = precise_thresholds(probability_BA, present_BA)
    # Half of all tags are wrong above 0.6, so hardly any threshold is high enough for all.
    assert min(of_all, *of_each_A[1:]) >= 0.99
    chosen_B = probability_BA[:, 0] >= of_each_A[0]
    assert present_BA[chosen_B, 0].mean() == pytest.approx(0.82, abs=0.02)
    assert precise_thresholds(probability_BA, present_BA, 0.7)[1][0] == 0.7


def test_a_tag_without_images_has_the_threshold_of_all_tags():
    rng = np.random.default_rng(0)
    probability_BA = np.column_stack([rng.random((20_000, 2)), np.zeros(20_000)])
    present_BA = rng.random((20_000, 3)) < probability_BA
    of_all, of_each_A = precise_thresholds(probability_BA, present_BA)
    # p is uniform above the threshold t, with a mean of (1 + t) / 2.
    assert of_all == pytest.approx(0.6, abs=0.03)
    assert of_each_A == pytest.approx(of_all, abs=0.03)
    assert of_each_A[2] == of_all
    nothing = np.empty((0, 3))
    assert precise_thresholds(nothing, nothing > 0)[0] == 0.8


def test_tags_of_another_shape_are_refused():
    with pytest.raises(InvalidArgument, match="present must have shape"):
        fit_tags(np.empty((2, 3)), np.ones(3), np.empty((2, 4), np.bool_), 0.0)
