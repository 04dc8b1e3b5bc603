"""What holds is computed from the scores, without the photographs of the pool."""

import numpy as np
import pytest

from supdocnade.paper.claims import HOLDS, OPEN, REVERSED, claims, targets
from supdocnade.paper.page import claims_table, figure, targets_table
from supdocnade.paper.plans import ACCURACY, DOC, F_MEASURE, NO_WORDS, SUP
from supdocnade.paper.results import Kept, Series

MAIN = Series("paper", SUP, 200, "2×2", ACCURACY, None, ACCURACY)
OURS = MAIN._replace(recipe="ours")
N = 300


@pytest.fixture
def kept():
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
    return Kept(
        dataset="labelme",
        rows=[],
        made={"n_train": 1000},
        picture_B=np.arange(N),
        pool_B=pool,
        test_SB=np.ones((5, N), bool),
        scores=scores,
    )


def test_verdicts(kept):
    found = {claim.text: claim for claim in claims(kept)}
    assert found["SupDocNADE above DocNADE, 200 topics"].verdict == HOLDS
    assert found["tuned λ above λ = 0, 200 topics"].verdict == OPEN
    assert found["2×2 above 1×1, 200 topics"].verdict == REVERSED
    # What was not measured is not claimed.
    assert not any("λ = 1" in text for text in found)
    table = claims_table(list(found.values()))
    assert f"| {HOLDS} |" in table
    assert f"| {REVERSED} |" in table


def test_the_pool_does_not_count(kept):
    assert float(figure(kept, MAIN).split()[0]) == pytest.approx(90, abs=2)
    assert float(figure(kept, MAIN, full=True).split()[0]) == pytest.approx(81, abs=2)
    assert figure(kept, MAIN._replace(n_topics=7)) == "–"


def test_targets_are_reached_or_not(kept):
    paper, ours, tags = targets(kept)
    assert (paper.value, ours.value, tags.value) == (0.86, 0.89, 0.58)
    assert paper.holds
    assert paper.full < 0.86 < paper.reached
    assert not tags.holds
    table = targets_table([paper, tags])
    assert table.count("| reached |") == 1
    assert table.count("| not reached |") == 1
