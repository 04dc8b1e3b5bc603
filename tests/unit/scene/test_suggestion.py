from dataclasses import replace

import numpy as np
import pytest
from tests.scene_model import first_scene, scenes, small_model

from supdocnade.cli.demo import drawn_scenes
from supdocnade.errors import InvalidArgument
from supdocnade.images.reading import SkippedImage
from supdocnade.runs import RunOptions
from supdocnade.scene import suggestion
from supdocnade.scene.dataset import Photographs
from supdocnade.scene.prediction import iter_predictions
from supdocnade.scene.suggestion import (
    find_doubtful,
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


def test_photographs_in_the_wrong_folder_are_found(monkeypatch):
    monkeypatch.setattr(suggestion, "CONFIDENT", 0.6)
    monkeypatch.setattr(suggestion, "IMPROBABLE", 0.1)
    fitted = small_model().fitted_
    some = list(drawn_scenes(4, first=first_scene(3), classes=fitted.classes, max_side=128))
    seen = scenes()
    predictions = list(iter_predictions(fitted, [scene.image for scene in some]))

    def find(labels, tags):
        images = [scene.image for scene in (*some, *seen)]
        names = [f"image {number}" for number in range(len(images))]
        photographs = Photographs(
            sources=[*images, b"no image"],
            names=[*names, "bad"],
            labels=[*labels, *(scene.label for scene in seen), None],
            tags=[*tags, *[None] * (len(seen) + 1)],
        )
        return find_doubtful(fitted, photographs, RunOptions(on_error="skip"))

    unknown = [None] * len(some)
    _, n_learned = find([each.label for each in predictions], unknown)
    assert n_learned == len(seen) - fitted.held_out.n_images
    others = [fitted.classes[fitted.classes.index(each.label) - 1] for each in predictions]
    found, _ = find(others, unknown)
    sure = {
        each.name: (others[number], each.label, each.probability, [], [])
        for number, each in enumerate(predictions)
        if each.probability >= 0.6 and not each.unfamiliar
    }
    new = [each for each in found if each["file"] in sure]
    assert {each["file"]: tuple(each.values())[1:] for each in new} == sure != {}
    assert [each["probability"] for each in new] == sorted(
        (each[2] for each in sure.values()), reverse=True
    )
    wrong_tag = [[each.ranked_tags[-1][0]] for each in predictions]
    found, _ = find(unknown, wrong_tag)
    for number, each in enumerate(predictions):
        lacks = [tag for tag, p in each.ranked_tags if p >= 0.6 and tag not in wrong_tag[number]]
        bad = wrong_tag[number] if each.ranked_tags[-1][1] <= 0.1 else []
        listed = [row for row in found if row["file"] == each.name]
        expected = [(lacks, bad)] if (lacks or bad) and not each.unfamiliar else []
        assert [(row["missing_tags"], row["improbable_tags"]) for row in listed] == expected
    assert found
