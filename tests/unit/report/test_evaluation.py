import pytest

from supdocnade.report import evaluation as results
from supdocnade.report.evaluation import share
from supdocnade.scene.held_out import HeldOutImage


def image(label, predicted, probability=0.5, tags=None, given=()):
    return HeldOutImage(
        name="x",
        label=label,
        predicted=predicted,
        probability=probability,
        tags=tags,
        given=given,
    )


IMAGES = [
    image("sea", "sea", 0.95, ("Sky", "boat"), (("sky", 0.8), ("car", 0.1))),
    image("sea", "sea", 0.91, ("boat",), (("sky", 0.8), ("boat", 0.6))),
    image("sea", "city", 0.55),
    image("city", "city", 1.0, (), (("car", 0.2),)),
    image(None, "city", 0.99),
]


def test_classes_are_counted():
    counts = results.confusion_matrix(IMAGES, ["city", "sea"])
    assert counts.tolist() == [[1, 0], [1, 2]]
    city, sea = results.class_results(counts, ["city", "sea"])
    assert (city["recall"], city["precision"]) == (share(1, 1), share(1, 2))
    assert (sea["recall"]["value"], sea["precision"]["value"]) == (pytest.approx(2 / 3), 1.0)
    (only,) = results.frequent_confusions(counts, ["city", "sea"])
    assert (only["label"], only["predicted"], only["count"]) == ("sea", "city", share(1, 3))


def test_tags_are_counted_in_their_one_spelling():
    car, sky, unseen = results.tag_results(IMAGES, ["car", "sky", "unseen"])
    assert (sky["recall"], sky["precision"]) == (share(1, 1), share(1, 2))
    assert car["recall"]["value"] is None
    assert car["precision"] == share(0, 2)
    assert unseen["precision"]["value"] is None


def test_answers_are_binned_by_their_probability():
    middle, high = results.class_reliability(IMAGES)
    assert middle[1:] == (0, 1)
    assert high[1:] == (3, 3)
    assert high[0] == pytest.approx((0.95 + 0.91 + 1.0) / 3)
    bins = results.tag_reliability(IMAGES)
    assert [each[1:] for each in bins] == [(0, 1), (0, 1), (1, 1), (1, 2)]
    assert results.class_reliability([]) == []
