from dataclasses import replace

import numpy as np
import pytest
from tests.scene_model import scenes, small_model

from supdocnade.demo import drawn_scenes
from supdocnade.errors import InvalidArgument
from supdocnade.images.reading import SkippedImage
from supdocnade.runs import RunOptions
from supdocnade.scene.prediction import iter_predictions
from supdocnade.scene.suggestion import (
    spread_out,
    suggest_photographs,
    uncertainty,
)


def test_uncertainty_by_hand():
    prediction = next(iter_predictions(small_model().fitted_, [scenes()[0].image]))

    def of(proba, presence):
        classes = {str(number): each for number, each in enumerate(proba)}
        tags = tuple((str(number), each) for number, each in enumerate(presence))
        return uncertainty(replace(prediction, probabilities=classes, ranked_tags=tags))

    # Nothing is expected; a tag of which nothing is known; one of two is likely to be wrong.
    for proba, presence, of_class, of_tags in (
        ([1, 0, 0], [0, 0], 0, 0),
        ([0.5, 0.5, 0], [0.5, 0.5], 1, 1),
        ([0.6, 0.3, 0.1], [1.0, 0.4], 0.7, 0.4 / 1.4),
    ):
        assert of(proba, []) == pytest.approx(of_class)
        assert of([], presence) == of([1.0], presence) == pytest.approx(of_tags)
        assert of(proba, presence) == pytest.approx((of_class + of_tags) / 2)
    assert of([1.0], []) == 0


def test_near_duplicates_come_last():
    uncertainty_N = np.array([0.9, 0.89, 0.3, 0.8])
    topics_NH = np.array([[0, 0], [0, 0.01], [3, 0], [0, 1]])
    assert spread_out(uncertainty_N, topics_NH, 3) == [0, 2, 3]
    assert len(spread_out(uncertainty_N, topics_NH, 9)) == 4
    assert spread_out(uncertainty_N[:0], topics_NH[:0], 2) == []


def test_what_the_model_has_learned_is_left_out():
    fitted = small_model().fitted_
    new = [scene.image for scene in drawn_scenes(2, first=12, max_side=128)]
    images = [*(scene.image for scene in scenes()[:4]), b"no image", *new]
    found, skipped = suggest_photographs(fitted, images, 5, RunOptions(on_error="skip"))
    names = [prediction.name for prediction, _ in found]
    assert len(set(names)) == 5
    assert {int(name.split()[-1]) for name in names} <= set(range(5, len(images)))
    (unreadable,) = skipped
    assert isinstance(unreadable, SkippedImage)
    first = found[0][0]
    (expected,) = iter_predictions(fitted, [images[int(first.name.split()[-1])]])
    assert first == replace(expected, name=first.name)
    assert found[0][1] == max(value for _, value in found)
    with pytest.raises(InvalidArgument, match="n must be a whole number of at least 1"):
        suggest_photographs(fitted, images, 0)
