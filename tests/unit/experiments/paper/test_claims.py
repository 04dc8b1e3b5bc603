"""Claims and targets follow from the scores outside the pool; intervals have known values."""

import numpy as np
import pytest
from experiments.paper.claims import (
    HOLDS,
    OPEN,
    REVERSED,
    compare,
    corrected_t_interval,
    find_claims,
    find_targets,
)
from experiments.paper.page import claims_table, figure, targets_table
from experiments.paper.plans import ACCURACY, DOC, F_MEASURE, NO_WORDS, SUP
from experiments.paper.results import Results, Series

from supdocnade.errors import InvalidArgument

MAIN = Series("paper", SUP, 200, "2×2", ACCURACY, None, ACCURACY)
OURS = MAIN._replace(recipe="ours")
N = 300


@pytest.fixture
def results():
    rng = np.random.default_rng(0)

    def right(share):
        return (rng.random((5, N)) < share).astype(float)

    pool = np.arange(N) < 30
    scores = {MAIN: right(0.9), MAIN._replace(method=DOC): right(0.6), OURS: right(0.9)}
    scores[MAIN._replace(method=NO_WORDS)] = scores[MAIN].copy()
    scores[MAIN._replace(grid="1×1")] = right(0.99)
    for table in scores.values():
        table[:, pool] = 0.0  # Were the pool to count, all would do worse.
    scores[OURS._replace(metric=F_MEASURE, tags="tags_free", chosen_for=F_MEASURE)] = right(0.5)
    return Results(
        rows=[],
        provenance={"dataset": "labelme", "n_train": 1000},
        picture_B=np.arange(N),
        pool_B=pool,
        test_SB=np.ones((5, N), bool),
        scores=scores,
    )


def test_verdicts(results):
    found = dict(find_claims(results))
    assert found["SupDocNADE above DocNADE, 200 topics"].verdict == HOLDS
    assert found["tuned λ above λ = 0, 200 topics"].verdict == OPEN
    assert found["2×2 above 1×1, 200 topics"].verdict == REVERSED
    # There is no claim about a method without scores.
    assert not any("λ = 1" in text for text in found)
    table = claims_table(list(found.items()))
    assert f"| {HOLDS} |" in table
    assert f"| {REVERSED} |" in table


def test_the_pool_does_not_count(results):
    assert float(figure(results, MAIN).split()[0]) == pytest.approx(90, abs=2)
    assert float(figure(results, MAIN, full=True).split()[0]) == pytest.approx(81, abs=2)
    assert figure(results, MAIN._replace(n_topics=7)) == "–"


def test_targets_are_reached_or_not(results):
    paper, ours, tags = find_targets(results)
    assert [value for _, value, _, _ in (paper, ours, tags)] == [0.86, 0.89, 0.58]
    _, value, outside, full = paper
    assert full < value < outside
    table = targets_table([paper, tags])
    assert table.count("| reached |") == 1
    assert table.count("| not reached |") == 1


def test_the_corrected_t_interval_by_hand():
    # Mean 0.02, standard deviation 0.01; 1/5 + 50/100 = 0.7; t of 4 degrees at 97.5 % is 2.7764.
    given = 0.02 + 0.01 * np.array([-1.0, -1.0, 0.0, 1.0, 1.0])
    found = corrected_t_interval(given, 100, 50)
    half = 2.7764451 * 0.01 * np.sqrt(0.7)
    assert found == pytest.approx((0.02, 0.02 - half, 0.02 + half), abs=1e-8)


def test_one_split_has_no_spread():
    with pytest.raises(InvalidArgument, match="at least two splits, got 1"):
        corrected_t_interval(np.array([0.1]), 10, 10)
    assert compare(np.ones((1, 9)), np.zeros((1, 9)), np.arange(9), 5).corrected_t is None


def test_a_split_without_scores_is_refused():
    with pytest.raises(InvalidArgument, match="every split must have photographs"):
        compare(np.full((2, 3), np.nan), np.zeros((2, 3)), np.arange(3), 5)
