import numpy as np
import pytest
from experiments.network_splits import MODEL, count_hits, figure_scores, fit_regressions
from experiments.paper.data_sets import PhotoSet
from experiments.paper.protocol import Protocol
from sklearn.linear_model import LogisticRegression


def test_regressions_together_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 5))
    target = features[:, :3] + rng.normal(size=(60, 3)) > 0.3
    weight, bias = fit_regressions(features, target, C=0.5)
    for number, column in enumerate(target.T):
        single = LogisticRegression(C=0.5).fit(features, column)
        np.testing.assert_allclose(weight[number], single.coef_[0], atol=2e-3)
        assert bias[number] == pytest.approx(single.intercept_[0], abs=2e-3)


def test_scores_are_those_of_the_test_photographs():
    tags = (("sea", "sky"), None, ("sea",), ("sky", "sea"))
    photos = PhotoSet(
        dataset="labelme",
        names=("a", "b", "c", "d"),
        digests=("1", "2", "3", "4"),
        labels=("coast", "coast", "street", "street"),
        tags={"few": tags},
    )
    protocol = Protocol(
        picture_B=np.arange(4), pool_B=np.zeros(4, bool), roles=("t", "t", "l", "t"), stored=False
    )
    # "sky" is on two photographs only, so it does not count.
    ranked = [["sea", "sky"], ["sea"], ["sand"]]
    splits = [{MODEL: {"right": "101", "few": count_hits(ranked, [("sea",), None, ("sea",)])}}]
    nan = np.nan
    found = figure_scores(splits, photos, protocol, MODEL, "right")
    np.testing.assert_array_equal(found, [[1, 0, nan, 1]])
    found = figure_scores(splits, photos, protocol, MODEL, "few")
    np.testing.assert_allclose(found, [[2 / 6, nan, nan, 0]])
