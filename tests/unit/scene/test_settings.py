import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from tests.scene_model import SETTINGS, columns, params_of, scenes

from supdocnade import BagOfVisualWords, DocNADE, SceneModel, SupDocNADE
from supdocnade.errors import InvalidArgument
from supdocnade.report.html import render_report
from supdocnade.scene.model import scene_model


def test_a_model_is_an_estimator():
    model = scene_model(grid=((1, 1), (2, 2)), n_topics=7)
    assert list(inspect.signature(SceneModel).parameters) == [
        *("features", "words", "topics", "n_topics", "damping", "min_tag_count", "held_out"),
        *("random_state", "n_jobs", "device", "on_error", "cache", "checkpoint"),
    ]
    assert params_of(clone(model)) == params_of(model)
    assert model.set_params(words__n_words=3, topics__max_epochs=2).words.n_words == 3
    assert "n_topics=7" in repr(model)
    assert model != clone(model)
    assert hash(model)


def test_the_recipe_depends_on_the_features():
    words, settings = SceneModel().check()
    assert (words.features, words.mirror, words.n_words) == ("sift", True, 500)
    assert (settings.topics.n_topics, settings.topics.annotation_weight) == (200, 30.0)
    words, settings = SceneModel("marvel").check()
    assert (words.features, words.mirror, words.n_nearest) == ("marvel", False, 4)
    assert (settings.topics.n_topics, settings.topics.annotation_weight) == (512, 1.0)
    assert "step" not in words.used()
    assert "step" in BagOfVisualWords.for_photographs().used()


def test_the_weight_of_tags_depends_on_their_outputs():
    for output, expected in (("words", 30.0), ("sigmoid", 1.0)):
        model = SupDocNADE.for_photographs(annotation_output=output)
        assert model.annotation_weight == expected
        given = SupDocNADE.for_photographs(annotation_output=output, annotation_weight=3.0)
        assert given.annotation_weight == 3.0


def test_parts_are_used_as_they_are():
    parts = {"words": BagOfVisualWords(9, random_state=5), "topics": DocNADE(3, n_jobs=1)}
    words, settings = SceneModel(**parts, n_topics=4, random_state=1).check()
    assert (words.n_words, settings.topics.n_topics, settings.random_state) == (9, 4, 1)
    assert (parts["topics"].n_topics, parts["words"].random_state) == (3, 5)
    assert SceneModel("sift", words=parts["words"]).check()[0].features == "sift"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"features": "net", "words": BagOfVisualWords()},
            "features must be those of words, 'sift'",
        ),
        ({"words": "sift"}, "words must be a BagOfVisualWords, got 'sift'"),
        ({"topics": 3}, "topics must be a SupDocNADE or DocNADE, got 3"),
        ({"features": "a/b.onnx"}, "supdocnade features --import FILE imports, got 'a/b.onnx'"),
        ({"words": BagOfVisualWords(features=np.sum)}, "features must be 'sift' or the name"),
        ({"words": BagOfVisualWords(features="net", mirror=True)}, "mirror must be False"),
        ({"topics": SupDocNADE(activation="gelu")}, "activation must be one of"),
        ({"topics": SupDocNADE(class_weight="even")}, "class_weight must be one of"),
        ({"topics": SupDocNADE(learning_rate=0)}, "learning_rate must be"),
        ({"words": BagOfVisualWords(mirror="left")}, "mirror must be True or False, got 'left'"),
        ({"n_topics": 0}, "n_topics must be"),
        ({"held_out": 1.0}, "held_out must be"),
        ({"damping": -1}, "damping must be"),
    ],
)
def test_parts_that_do_not_fit_are_refused(given, message):
    with pytest.raises(InvalidArgument, match=message):
        SceneModel(**given).check()


def test_settings_of_topics_are_searched():
    images, labels, _ = columns(scenes())
    topics = SupDocNADE.for_photographs(n_topics=8, max_epochs=2)
    words = BagOfVisualWords.for_photographs(n_words=20, max_side=64, mirror=False)
    model = SceneModel(words=words, topics=topics, held_out=0.0, random_state=0)
    rates = {"topics__learning_rate": [1e-6, 1e-2]}
    search = GridSearchCV(model, rates, scoring="accuracy", cv=2).fit(images, labels)
    assert search.best_params_ == {"topics__learning_rate": 1e-2}
    assert search.best_estimator_.fitted_.settings.topics.learning_rate == 1e-2
    assert search.best_estimator_.predict(images[:2]).tolist() == labels[:2]


def test_topics_are_learned_without_classes(tmp_path):
    images, labels, tags = columns(scenes())
    settings = {name: SETTINGS[name] for name in ("damping", "min_tag_count", "random_state")}
    words = BagOfVisualWords.for_photographs(n_words=30, max_side=128, mirror=False)
    topics = DocNADE.for_photographs(n_topics=12, max_epochs=12, learning_rate=3e-3)
    model = SceneModel(words=words, topics=topics, **settings).fit(images, labels, tags)
    assert "label_weight" not in model.fitted_.network.parameters
    assert (model.predict(images) == labels).mean() > 0.7
    model.save(tmp_path / "model")
    loaded = SceneModel.load(tmp_path / "model")
    assert type(loaded.topics) is DocNADE
    assert loaded.predict(images).tolist() == model.predict(images).tolist()
    assert "coast" in render_report(loaded.fitted_)
