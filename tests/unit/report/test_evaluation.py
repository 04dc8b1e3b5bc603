from dataclasses import asdict, replace

import pytest
from PIL import Image
from tests.scene_model import scenes, small_model

from supdocnade.corpus.disk import Corpus
from supdocnade.errors import InvalidArgument
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.report import evaluation as results
from supdocnade.report.evaluation import evaluate_corpus, evaluate_photographs, share
from supdocnade.scene.calibration import HeldOutImage
from supdocnade.scene.dataset import from_records
from supdocnade.scene.prediction import iter_predictions
from supdocnade.visual_words.to_corpus import encode_corpus


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
    confusion = results.held_out_confusion(IMAGES, ["city", "fog", "sea"])
    assert [list(row.values()) for row in confusion.values()] == [[1, 0, 0], [0, 0, 0], [1, 0, 2]]
    city, fog, sea = results.class_results(confusion)
    assert fog["recall"]["value"] is fog["precision"]["value"] is None
    assert (city["recall"], city["precision"]) == (share(1, 1), share(1, 2))
    assert (sea["recall"]["value"], sea["precision"]["value"]) == (pytest.approx(2 / 3), 1.0)
    (only,) = results.frequent_confusions(confusion, 8)
    assert (only["label"], only["predicted"], only["count"]) == ("sea", "city", share(1, 3))


def test_tags_are_counted_in_their_one_spelling():
    car, sky, unseen = results.tag_results(IMAGES, ["car", "sky", "unseen"])
    assert (sky["recall"], sky["precision"]) == (share(1, 1), share(1, 2))
    assert car["recall"]["value"] is None
    assert car["precision"] == share(0, 2)
    assert unseen["precision"]["value"] is None


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Return photographs that the model does not know, the first of which cannot be read."""
    folder = tmp_path_factory.mktemp("photos")
    found = [ImageRecord(str(folder / "missing.jpg"), "coast", ("sea",))]
    for number, scene in enumerate(scenes(4, seed=1)):
        Image.fromarray(scene.image).save(folder / f"{number}.png")
        tags = None if number == 3 else (*scene.tags, "a tag that the model does not know")
        label = {0: "desert", 1: None}.get(number, scene.label)
        found.append(ImageRecord(str(folder / f"{number}.png"), label, tags))
    return found


def test_metrics_are_those_of_the_definitions(records):
    fitted = small_model().fitted_
    found = evaluate_photographs(fitted, records[1:])
    predictions = iter_predictions(fitted, [record.source for record in records[1:]])
    pairs = list(zip(records[1:], predictions, strict=True))
    right = [record.label == each.label for record, each in pairs if record.label is not None]
    assert found.accuracy == sum(right) / len(right)
    shares = []
    for record, each in pairs:
        if record.tags:
            top = {tag for tag, _ in each.ranked_tags[:5]}
            shares.append(2 * len(top & set(record.tags)) / (len(top) + len(record.tags)))
    assert found.f_measure == pytest.approx(sum(shares) / len(shares))
    assert found.n_tagged == len(shares) == 11


def test_photographs_without_classes_and_tags_are_refused(records):
    unknown = [replace(record, label=None, tags=None) for record in records[:3]]
    with pytest.raises(InvalidArgument, match="nothing to compare with"):
        evaluate_photographs(small_model().fitted_, unknown)
    with pytest.raises(InvalidArgument, match="can be read, got none"):
        evaluate_photographs(small_model().fitted_, records[:1])


def test_a_corpus_has_the_metrics_of_its_photographs(records, tmp_path, monkeypatch):
    monkeypatch.setattr("supdocnade.unfinished.PART_SIZE", 5)
    fitted, photographs = small_model().fitted_, from_records(records[1:])
    corpus, _ = encode_corpus(
        fitted.encoder,
        photographs.sources,
        tmp_path / "corpus",
        labels=photographs.labels,
        tags=photographs.tags,
    )
    found, expected = evaluate_corpus(fitted, corpus), evaluate_photographs(fitted, records[1:])
    floats = {name: value for name, value in asdict(expected).items() if isinstance(value, float)}
    assert {name: getattr(found, name) for name in floats} == pytest.approx(floats, rel=1e-12)
    same = {name: getattr(found, name) for name in floats}
    assert asdict(found) == {**asdict(expected), **same}


def test_a_corpus_of_other_words_is_refused(tmp_path):
    corpus = Corpus.create(tmp_path / "corpus", n_words=3, encoder="another")
    with pytest.raises(InvalidArgument, match=r"corpus must be encoded with the visual words of"):
        evaluate_corpus(small_model().fitted_, corpus)
