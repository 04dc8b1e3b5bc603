import numpy as np
import pytest
from PIL import Image
from tests.scene_model import CLASSES, SETTINGS, columns, scenes, small_model
from tests.textures import as_png

from supdocnade import SceneModel
from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.images.reading import SkippedImage
from supdocnade.report.html import render_report
from supdocnade.scene.model import scene_model

NEW = scenes(4, 7)


def fit(some=None, **settings):
    return scene_model(**{**SETTINGS, **settings}).fit(*(some or columns(scenes())))


def test_it_learns_classes_and_tags():
    model = small_model()
    images, labels, _ = columns(NEW)
    assert model.classes_.tolist() == list(CLASSES)
    assert (model.predict(images) == labels).mean() > 0.7
    probability = model.predict_proba(images)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert (model.classes_[probability.argmax(axis=1)] == model.predict(images)).all()
    assert model.transform(images).shape == (12, 12)
    assert "tree" in model.tag_names_


@pytest.mark.parametrize("annotation_output", ["words", "sigmoid"])
def test_predictions_one_by_one_are_those_of_all(annotation_output):
    model = small_model(annotation_output)
    images, _, _ = columns(NEW)
    each = list(model.iter_predictions(images))
    assert [one.label for one in each] == model.predict(images).tolist()
    proba = model.predict_proba(images)
    for row, one in enumerate(each):
        assert list(one.probabilities.values()) == proba[row].tolist()
        assert one.probability == max(one.probabilities.values())
        assert set(one.tags) <= set(one.ranked_tags)
        assert len(one.ranked_tags) == len(model.tag_names_)
        threshold = model.fitted_.choices.tags.threshold
        assert all(chance >= threshold for _, chance in one.tags)
        chances = [chance for _, chance in one.tags]
        assert chances == sorted(chances, reverse=True)
    assert model.annotate(images, top=3) == [
        tuple(tag for tag, _ in one.ranked_tags[:3]) for one in each
    ]
    assert model.annotate(images, top=None) == [tuple(tag for tag, _ in one.tags) for one in each]


def test_every_kind_of_image_gives_the_same_prediction(tmp_path):
    model = small_model()
    image = NEW[0].image
    (tmp_path / "a.png").write_bytes(as_png(image))
    kinds = [image, as_png(image), Image.fromarray(image), tmp_path / "a.png", tmp_path]
    probability = model.predict_proba(kinds)
    assert (probability == probability[0]).all()
    np.testing.assert_array_equal(model.predict_proba(tmp_path), probability[:1])


def test_one_seed_gives_one_model_for_any_number_of_workers():
    images, _, _ = columns(NEW)
    again = fit(n_jobs=2)
    np.testing.assert_array_equal(again.predict_proba(images), small_model().predict_proba(images))
    assert again.fitted_.choices == small_model().fitted_.choices


def test_without_labels_there_are_tags_alone():
    images, _, tags = columns(scenes())
    model = fit((images, None, tags))
    one = next(model.iter_predictions(images))
    assert (one.label, one.probability, one.unsure) == (None, None, False)
    assert one.ranked_tags
    with pytest.raises(InvalidArgument, match="fitted without labels"):
        model.predict(images)
    with pytest.raises(InvalidArgument, match="knows no classes; give a tag"):
        model.explain(images[0])


def test_a_model_of_one_class_is_sure_of_it(tmp_path):
    images, _, tags = columns(scenes())
    model = fit((images, ["coast"] * 20 + [None] * 4, tags), max_epochs=2)
    model.save(tmp_path / "model")
    for each in (model, SceneModel.load(tmp_path / "model")):
        assert each.fitted_.class_head is None
        assert each.predict_proba(images[:2]).tolist() == [[1], [1]]
        one = next(each.iter_predictions(images))
        assert (one.label, one.probability, one.unsure) == ("coast", 1, False)
        with pytest.raises(InvalidArgument, match="knows one class; give a tag"):
            each.explain(images[0])
        assert any(each.explain(images[0], tag=tag).voters for tag in each.tag_names_)
        assert "The class is predicted by" not in render_report(each.fitted_)


def test_without_tags_there_are_classes_alone():
    images, labels, _ = columns(scenes())
    model = fit((images, labels, None))
    assert model.annotate(images[:2]) == [(), ()]
    with pytest.raises(InvalidArgument, match="the model has no tag"):
        model.explain(images[0], tag="sea")


def test_photographs_that_cannot_be_read():
    images, labels, tags = columns(scenes())
    bad = [*images, b"no image"], [*labels, "coast"], [*tags, None]
    with pytest.raises(UnreadableImage, match="image 24 is not an image"):
        fit(bad)
    model = fit(bad, on_error="skip")
    assert [each.number for each in model.skipped_] == [24]
    found = list(model.iter_predictions([images[0], b"", images[1]], on_error="skip"))
    assert isinstance(found[1], SkippedImage)
    assert found[2].label == model.predict(images[1:2])[0]
    with pytest.raises(InvalidArgument, match="images must have a photograph"):
        fit(([], None, None))


def test_the_first_prediction_does_not_wait_for_the_last_photograph():
    """Only a few of many photographs are read before the first prediction."""
    read = []

    images = [NEW[0].image] * 400
    model = small_model()
    encode = type(model.fitted_.encoder).encode

    def counted(self, source, name="", device="cpu"):
        read.append(name)
        return encode(self, source, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model.fitted_.encoder), "encode", counted)
        answers = model.iter_predictions(images)
        next(answers)
        assert len(read) <= 64
        answers.close()
