from dataclasses import replace

import numpy as np
import pytest
from tests.scene_model import scenes, small_model

from supdocnade.demo import drawn_scenes
from supdocnade.errors import InvalidArgument
from supdocnade.runs import RunOptions
from supdocnade.scene.prediction import iter_predictions
from supdocnade.scene.suggestion import (
    Suggestion,
    spread_out,
    suggest_photographs,
    uncertainty,
)
from supdocnade.visual_words.parallel import SkippedImage


def test_uncertainty_by_hand():
    proba_BC = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.6, 0.3, 0.1]])
    nothing_BA = np.empty((3, 0))
    np.testing.assert_allclose(uncertainty(proba_BC, nothing_BA), [0, 1, 0.7])
    # Nothing is expected; a tag of which nothing is known; one of two is likely to be wrong.
    presence_BA = np.array([[0, 0], [0.5, 0.5], [1.0, 0.4]])
    of_tags_B = [0, 1.0, 0.4 / 1.4]
    np.testing.assert_allclose(uncertainty(np.empty((len(presence_BA), 0)), presence_BA), of_tags_B)
    both_B = uncertainty(proba_BC, presence_BA)
    np.testing.assert_allclose(both_B, np.add([0, 1, 0.7], of_tags_B) / 2)
    np.testing.assert_array_equal(uncertainty(proba_BC[:, :1], nothing_BA), np.zeros(3))


def test_near_duplicates_come_last():
    prediction = next(iter_predictions(small_model().fitted_, [scenes()[0].image]))
    places = ((0, 0), (0, 0.01), (3, 0), (0, 1))
    pool = [
        Suggestion(prediction=prediction, uncertainty=value, topics_H=np.array(place, np.float32))
        for value, place in zip((0.9, 0.89, 0.3, 0.8), places, strict=True)
    ]
    chosen = spread_out(pool, 3)
    assert [each.uncertainty for each in chosen] == [0.9, 0.3, 0.8]
    assert len(spread_out(pool, 9)) == 4
    assert spread_out([], 2) == []


def test_what_the_model_has_learned_is_left_out():
    fitted = small_model().fitted_
    new = [scene.image for scene in drawn_scenes(2, first=12, max_side=128)]
    images = [*(scene.image for scene in scenes()[:4]), b"no image", *new]
    found, skipped = suggest_photographs(fitted, images, 5, RunOptions(on_error="skip"))
    names = [each.prediction.name for each in found]
    assert len(set(names)) == 5
    assert {int(name.split()[-1]) for name in names} <= set(range(5, len(images)))
    (unreadable,) = skipped
    assert isinstance(unreadable, SkippedImage)
    first = found[0].prediction
    (expected,) = iter_predictions(fitted, [images[int(first.name.split()[-1])]])
    assert first == replace(expected, name=first.name)
    assert found[0].uncertainty >= max(each.uncertainty for each in found)
    with pytest.raises(InvalidArgument, match="n must be a whole number of at least 1"):
        suggest_photographs(fitted, images, 0)
