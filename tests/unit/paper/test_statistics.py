"""Intervals against answers that are known."""

import numpy as np
import pytest
from scipy import stats

from supdocnade.errors import InvalidArgument
from supdocnade.paper.statistics import compare, corrected_t_interval, paired_bootstrap


def test_the_corrected_t_interval_by_hand():
    # Mean 0.02, standard deviation 0.01; 1/5 + 50/100 = 0.7; t of 4 degrees at 97.5 % is 2.7764.
    given = 0.02 + 0.01 * np.array([-1.0, -1.0, 0.0, 1.0, 1.0])
    found = corrected_t_interval(given, 100, 50)
    half = 2.7764451 * 0.01 * np.sqrt(0.7)
    assert found == pytest.approx((0.02, 0.02 - half, 0.02 + half), abs=1e-8)


def test_without_overlap_it_is_the_ordinary_t_interval():
    given = np.array([0.1, 0.4, 0.2, 0.9])
    low, high = stats.ttest_1samp(given, 0).confidence_interval(0.95)
    assert corrected_t_interval(given, 1, 0) == pytest.approx((0.4, low, high))


def test_one_split_has_no_spread():
    with pytest.raises(InvalidArgument, match="at least two splits, got 1"):
        corrected_t_interval(np.array([0.1]), 10, 10)
    assert compare(np.ones((1, 9)), np.zeros((1, 9)), np.arange(9), 5).corrected_t is None


def test_the_bootstrap_of_one_split_is_that_of_a_mean():
    rng = np.random.default_rng(0)
    difference = rng.integers(-1, 2, (1, 400)).astype(float)
    found = paired_bootstrap(difference, np.arange(400))
    error = difference.std() / np.sqrt(400)
    assert found.mean == pytest.approx(difference.mean())
    assert found.low == pytest.approx(found.mean - 1.96 * error, abs=0.15 * error)
    assert found.high == pytest.approx(found.mean + 1.96 * error, abs=0.15 * error)


def test_a_photograph_tested_five_times_is_one_unit():
    """Five times the same answers on the same photographs tell no more than once."""
    once = np.random.default_rng(1).integers(-1, 2, (1, 200)).astype(float)
    one, five = (paired_bootstrap(each, np.arange(200)) for each in (once, np.repeat(once, 5, 0)))
    assert five == pytest.approx(one)


def test_copies_of_a_picture_are_one_unit():
    once = np.random.default_rng(2).integers(-1, 2, (1, 200)).astype(float)
    doubled, unit = np.repeat(once, 2, axis=1), np.repeat(np.arange(200), 2)
    together, apart = paired_bootstrap(doubled, unit), paired_bootstrap(doubled, np.arange(400))
    assert together == pytest.approx(paired_bootstrap(once, np.arange(200)))
    assert apart.high - apart.low == pytest.approx(
        (together.high - together.low) / np.sqrt(2), rel=0.1
    )


def test_photographs_that_are_not_tested_do_not_count():
    full = np.array([[1.0, 0.0, 1.0, 1.0]])
    more = np.array([[1.0, 0.0, 1.0, 1.0, np.nan]])
    assert paired_bootstrap(more, np.arange(5)) == paired_bootstrap(full, np.arange(4))


def test_a_clear_difference_is_above_and_its_reverse_below():
    rng = np.random.default_rng(3)
    good = (rng.random((5, 300)) < 0.9).astype(float)
    bad = (rng.random((5, 300)) < 0.5).astype(float)
    forth, back = (
        compare(*pair, np.arange(300), 1000, draws=500) for pair in ((good, bad), (bad, good))
    )
    assert forth.is_above
    assert not forth.is_below
    assert back.is_below
    assert len(forth.differences) == 5
    assert np.mean(forth.differences) == pytest.approx(forth.bootstrap.mean)
    same = compare(good, good, np.arange(300), 1000, draws=100)
    assert not same.is_above
    assert not same.is_below


def test_a_split_without_answers_is_refused():
    with pytest.raises(InvalidArgument, match="every split must have photographs"):
        compare(np.full((2, 3), np.nan), np.zeros((2, 3)), np.arange(3), 5)
