from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.scene_model import SETTINGS, columns, scenes, small_model

from supdocnade import SceneModel
from supdocnade.cli.main import run
from supdocnade.report.html import render_report
from supdocnade.scene.heads import ClassHead
from supdocnade.scene.model import scene_model
from supdocnade.scene.tag_heads import TAG_HEADS, WordTags
from supdocnade.schema import array

IMAGES, LABELS, TAGS = columns(scenes(4, 2))


@dataclass(frozen=True, eq=False)
class NearestMean(ClassHead):
    """The class with the nearest mean: f_c(h) = -|h - m_c|² / 2."""

    name = "nearest mean"
    explained = "negative squared distance from the mean of the class"

    mean_CH: np.ndarray = array("CH", np.float32)

    def scores(self, photographs):
        topics_BH = photographs.topics_BH.astype(np.float64)
        return -np.square(topics_BH[:, None] - self.mean_CH).sum(axis=2) / 2

    def gradient(self, photographs, weight_BC):
        pull_BH = weight_BC @ self.mean_CH
        return pull_BH - weight_BC.sum(axis=1, keepdims=True) * photographs.topics_BH

    def describe(self):
        return "the mean of every class"


def test_another_classifier_is_one_class(tmp_path):
    model = SceneModel()
    before = small_model().fitted_
    label_N = np.array(before.training_set.photographs.labels)
    means = [before.topics_BH[label_N == label].mean(axis=0) for label in before.classes]
    model.fitted_ = replace(before, class_head=NearestMean(np.array(means)))
    assert (model.predict(IMAGES) == LABELS).mean() > 0.8
    explanation = model.explain(IMAGES[0])
    rise = explanation.whole - explanation.empty
    assert explanation.share_S.sum() == pytest.approx(rise, abs=1e-3)
    assert explanation.score == NearestMean.explained
    assert model.fitted_.fingerprint() != before.fingerprint()
    model.save(tmp_path / "model")
    loaded = SceneModel.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(IMAGES), model.predict_proba(IMAGES))
    assert run(["info", str(tmp_path / "model")]) == 0
    assert "The class is predicted by the mean of every class." in render_report(loaded.fitted_)


class FlatTags(WordTags):
    """Tags whose scores are half as far apart."""

    def scores(self, topics_BH):
        return super().scores(topics_BH) / 2

    @staticmethod
    def describe(tag):
        return f"half of log p({tag})"

    def explain(self, number):
        score = super().explain(number)
        return score.add(score, -0.5)


def test_another_output_of_tags_is_one_class(monkeypatch):
    monkeypatch.setitem(TAG_HEADS, "words", FlatTags)
    model = scene_model(**SETTINGS).fit(*columns(scenes()))
    found = [
        set(tags) & set(given) for tags, given in zip(TAGS, model.annotate(IMAGES), strict=True)
    ]
    assert np.mean([bool(each) for each in found]) > 0.7
    explanation = model.explain(IMAGES[0], tag=TAGS[0][0])
    assert explanation.score == f"half of log p({TAGS[0][0]})"
    rise = explanation.whole - explanation.empty
    assert explanation.share_S.sum() == pytest.approx(rise, abs=1e-3)


@pytest.mark.parametrize("annotation_output", ["words", "sigmoid"])
def test_explained_scores_are_those_that_decide(annotation_output):
    """Those of tags may differ by a number that is the same for all tags."""
    model = small_model(annotation_output)
    fitted, photographs = model.fitted_, model._compare(IMAGES[:3])
    scores_BC = [
        fitted.class_head.explain(number, fitted.references).value(photographs.vector_BX)
        for number in range(3)
    ]
    expected = fitted.class_head.scores(photographs)
    np.testing.assert_allclose(np.transpose(scores_BC), expected, atol=1e-6)
    topics_BH, n_tags = photographs.topics_BH, len(fitted.tag_names)
    scores_BA = [fitted.tag_head.explain(a).value(topics_BH) for a in range(n_tags)]
    away_BA = np.transpose(scores_BA) - fitted.tag_head.scores(topics_BH)
    assert np.ptp(away_BA, axis=1).max() < 1e-4
