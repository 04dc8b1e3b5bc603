from dataclasses import dataclass

import numpy as np
import pytest
from tests.scene_model import SETTINGS, columns, scenes, small_model

from supdocnade import SceneModel
from supdocnade.cli.main import run
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.scene.class_heads import CLASS_HEADS, RBFSVM, SoftmaxHead, allowed_heads
from supdocnade.scene.heads import ClassHead
from supdocnade.scene.settings import SceneSettings
from supdocnade.scene.tag_heads import TAG_HEADS, WordTags
from supdocnade.schema import array

IMAGES, LABELS, TAGS = columns(scenes(4, 2))


@dataclass(frozen=True, eq=False)
class NearestMean(ClassHead):
    """The class with the nearest mean: f_c(h) = -|h - m_c|² / 2."""

    name = "nearest mean"
    explained = "negative squared distance from the mean of the class"

    mean_CH: np.ndarray = array("CH", np.float32)

    @classmethod
    def fit(cls, network, hidden_BH, label_B, settings, *, n_jobs=None, approximate=False):
        return cls(
            np.array([hidden_BH[label_B == c].mean(axis=0) for c in range(network.n_classes)])
        )

    def scores(self, hidden_BH):
        return -np.square(hidden_BH[:, None].astype(np.float64) - self.mean_CH).sum(axis=2) / 2

    def gradient(self, hidden_BH, weight_BC):
        return weight_BC @ self.mean_CH - weight_BC.sum(axis=1, keepdims=True) * hidden_BH


def test_another_classifier_is_one_class(tmp_path, monkeypatch):
    monkeypatch.setitem(CLASS_HEADS, NearestMean.name, NearestMean)
    assert allowed_heads("auto", 3) == [SoftmaxHead, RBFSVM, NearestMean]
    model = SceneModel(classifier="nearest mean", **SETTINGS).fit(*columns(scenes()))
    assert model.fitted_.choices.classifier == "nearest mean"
    assert (model.predict(IMAGES) == LABELS).mean() > 0.8
    for explanation in (model.explain(IMAGES[0]), model.explain(IMAGES[0], tag=TAGS[0][0])):
        rise = explanation.whole - explanation.empty
        assert explanation.share_S.sum() == pytest.approx(rise, abs=1e-3)
    assert model.explain(IMAGES[0]).score == NearestMean.explained
    model.save(tmp_path / "model")
    loaded = SceneModel.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(IMAGES), model.predict_proba(IMAGES))
    assert run(["info", str(tmp_path / "model")]) == 0


class FlatTags(WordTags):
    """Tags whose scores are half as far apart."""

    def scores(self, hidden_BH):
        return self.normalize(super().scores(hidden_BH) / 2)

    @staticmethod
    def describe(tag):
        return f"half of log p({tag})"

    def explain(self, number):
        score = super().explain(number)
        return score.add(score, -0.5)


def test_another_output_of_tags_is_one_class(monkeypatch):
    monkeypatch.setitem(TAG_HEADS, "words", FlatTags)
    model = SceneModel(classifier="softmax", **SETTINGS).fit(*columns(scenes()))
    found = [
        set(tags) & set(given) for tags, given in zip(TAGS, model.annotate(IMAGES), strict=True)
    ]
    assert np.mean([bool(each) for each in found]) > 0.7
    explanation = model.explain(IMAGES[0], tag=TAGS[0][0])
    assert explanation.score.startswith(f"half of log p({TAGS[0][0]})")
    rise = explanation.whole - explanation.empty
    assert explanation.share_S.sum() == pytest.approx(rise, abs=1e-3)


def test_unknown_classifiers_are_refused(tmp_path, monkeypatch):
    with pytest.raises(
        InvalidArgument, match=r"classifier must be .*softmax.*, got 'nearest mean'"
    ):
        SceneSettings(classifier="nearest mean").check()
    with monkeypatch.context() as patch:
        patch.setitem(CLASS_HEADS, NearestMean.name, NearestMean)
        model = SceneModel(classifier="nearest mean", **{**SETTINGS, "max_epochs": 1})
        model.fit(IMAGES, LABELS, TAGS).save(tmp_path / "model")
    with pytest.raises(StorageError, match="nearest mean"):
        SceneModel.load(tmp_path / "model")


def test_classifiers_are_those_that_the_setting_allows():
    assert allowed_heads("auto", 3) == [SoftmaxHead, RBFSVM]
    assert allowed_heads("auto", 3, can_compare=False) == [RBFSVM]
    assert allowed_heads("softmax", 3) == [SoftmaxHead]
    for classifier in ("auto", "svm", "softmax"):
        # An SVM needs two classes.
        assert allowed_heads(classifier, 1) == [SoftmaxHead]
        assert allowed_heads(classifier, 0) == []


@pytest.mark.parametrize("kind", [("svm",), ("softmax",), ("softmax", "sigmoid")], ids="-".join)
def test_explained_scores_are_those_that_decide(kind):
    """They differ by a number that is the same for all classes, or tags."""
    fitted = small_model(*kind).fitted_
    hidden_BH = small_model(*kind).transform(IMAGES[:3])
    for head, n in ((fitted.class_head, 3), (fitted.tag_head, len(fitted.tag_names))):
        explained_BX = np.stack([head.explain(i).value(hidden_BH) for i in range(n)], axis=1)
        away_BX = explained_BX - head.scores(hidden_BH)
        assert np.ptp(away_BX, axis=1).max() < 1e-4
