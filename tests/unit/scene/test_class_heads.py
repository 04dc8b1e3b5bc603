from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.scene_model import columns, scenes, small_model

from supdocnade import SceneModel
from supdocnade.cli.main import run
from supdocnade.report.html import render_report
from supdocnade.scene import class_heads
from supdocnade.scene.calibration import SVMSettings, mean_probability
from supdocnade.scene.class_heads import RBFSVM, ClassHead, choose_machine
from supdocnade.scene.references import Compared, References
from supdocnade.schema import array
from supdocnade.threads import limit_threads

N_CLASSES, N_TOPICS = 4, 4
SETTINGS = SVMSettings(gamma=0.7, penalty=0.2)


def blobs(seed, n=60):
    """Return topics, features of two maps, and classes."""
    rng = np.random.default_rng(seed)
    label_B = rng.integers(N_CLASSES, size=n)
    centre_CX = 2 * np.random.default_rng(9).normal(size=(N_CLASSES, N_TOPICS + 5))
    vector_BX = centre_CX[label_B] + rng.normal(size=(n, N_TOPICS + 5))
    vector_BX = (3 + vector_BX * np.arange(1, N_TOPICS + 6)).astype(np.float32)
    return vector_BX[:, :N_TOPICS], vector_BX[:, N_TOPICS:], label_B


*KNOWN, Y = blobs(0)
*NEW, W = blobs(1)
REFERENCES = References.of(*KNOWN, (3, 2))
PHOTOGRAPHS = REFERENCES.compare(*NEW)
SVM = RBFSVM.fit(REFERENCES, Y, N_CLASSES, SETTINGS)


def test_the_machine_solves_its_equations():
    """[0, 1ᵀ; 1, K + penalty] [b; a] = [0; y], for every class (Suykens and Vandewalle, 1999)."""
    n = len(Y)
    system = np.ones((n + 1, n + 1))
    system[0, 0] = 0
    kernel_NN = np.exp(-SETTINGS.gamma * REFERENCES.mutual_distances().astype(np.float64))
    system[1:, 1:] = kernel_NN + SETTINGS.penalty * np.eye(n)
    for label in range(N_CLASSES):
        target = np.concatenate([[0], np.where(label == Y, 1, -1)])
        b, *a = np.linalg.solve(system, target)
        np.testing.assert_allclose(SVM.coefficient_CN[label], a, atol=1e-5)
        assert SVM.intercept_C[label] == pytest.approx(b, abs=1e-6)
    expected = np.exp(-SETTINGS.gamma * PHOTOGRAPHS.distance_BN) @ SVM.coefficient_CN.T
    np.testing.assert_allclose(SVM.scores(PHOTOGRAPHS), expected + SVM.intercept_C, atol=1e-5)
    assert (SVM.scores(PHOTOGRAPHS).argmax(axis=1) == W).mean() > 0.8


def test_photographs_without_a_class_have_the_coefficient_0():
    label_N = np.where(np.arange(60) % 4 == 0, -1, Y)
    known = np.flatnonzero(label_N >= 0)
    machine = RBFSVM.fit(REFERENCES, label_N, N_CLASSES, SETTINGS)
    fewer = RBFSVM.fit(REFERENCES.take(known), Y[known], N_CLASSES, SETTINGS)
    assert not machine.coefficient_CN[:, label_N < 0].any()
    np.testing.assert_array_equal(machine.coefficient_CN[:, known], fewer.coefficient_CN)
    assert machine.describe() == "a support vector machine that compares with 45 photographs"


def test_a_row_does_not_depend_on_the_others_or_on_threads():
    scores = SVM.scores(PHOTOGRAPHS)
    for n_threads in (1, 2):
        with limit_threads(n_threads):
            again = RBFSVM.fit(REFERENCES, Y, N_CLASSES, SETTINGS)
            np.testing.assert_array_equal(again.coefficient_CN, SVM.coefficient_CN)
            np.testing.assert_array_equal(SVM.scores(PHOTOGRAPHS.take(np.array([7]))), scores[7:8])


def test_gradients_are_finite_differences():
    # In single precision the distances would be too coarse.
    exact = replace(REFERENCES, point_NX=REFERENCES.point_NX.astype(np.float64))
    vector_X = PHOTOGRAPHS.vector_BX[3].astype(np.float64)

    def scores(vector_BX):
        point_BX = (vector_BX - exact.mean_X) * exact.factor_X
        distance_BN = np.square(point_BX[:, None] - exact.point_NX).sum(axis=2)
        return np.exp(-SVM.gamma * distance_BN) @ SVM.coefficient_CN.T.astype(np.float64)

    mixed = np.random.default_rng(0).normal(size=N_CLASSES)
    for number, weight in enumerate((*np.eye(N_CLASSES), mixed)):
        (found,) = SVM.gradient(Compared(vector_X[None], REFERENCES), weight[None])
        steps = 1e-4 * np.eye(len(vector_X))
        expected = (scores(vector_X + steps) - scores(vector_X - steps)) @ weight / 2e-4
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
        if number < N_CLASSES:
            score = SVM.explain(number, REFERENCES)
            np.testing.assert_array_equal(score.gradient(vector_X[None])[0], found)


def test_a_class_without_photographs_is_never_predicted():
    machine = RBFSVM.fit(REFERENCES, Y, N_CLASSES + 1, SETTINGS)
    assert (machine.scores(PHOTOGRAPHS).argmax(axis=1) < N_CLASSES).all()


def test_the_choice_is_the_best_on_held_out_photographs(monkeypatch):
    grid, seen = [SVMSettings(g, p) for g in (0.3, 1000.0) for p in (0.1, 100.0)], []
    monkeypatch.setattr(class_heads, "GRID", grid)
    settings, machine = choose_machine(
        REFERENCES, Y, N_CLASSES, PHOTOGRAPHS, W, lambda *done: seen.append(done)
    )
    assert seen == [(number, 4) for number in range(1, 5)]
    machines = {each: RBFSVM.fit(REFERENCES, Y, N_CLASSES, each) for each in grid}
    scores = {each: mean_probability(machines[each].scores(PHOTOGRAPHS), W) for each in grid}
    assert scores[settings] == max(scores.values())
    np.testing.assert_array_equal(machine.coefficient_CN, machines[settings].coefficient_CN)


def test_without_held_out_photographs_the_settings_are_the_default():
    nobody = PHOTOGRAPHS.take(np.arange(0))
    settings, machine = choose_machine(REFERENCES, Y, N_CLASSES, nobody, W[:0], lambda *_: None)
    assert settings == SVMSettings()
    assert machine.gamma == settings.gamma


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
    model, (images, labels, _) = SceneModel(), columns(scenes(4, 2))
    before = small_model().fitted_
    label_N = np.array(before.training_set.photographs.labels)
    means = [before.topics_BH[label_N == label].mean(axis=0) for label in before.classes]
    model.fitted_ = replace(before, class_head=NearestMean(np.array(means)))
    assert (model.predict(images) == labels).mean() > 0.8
    explanation = model.explain(images[0])
    rise = explanation.whole - explanation.empty
    assert explanation.share_S.sum() == pytest.approx(rise, abs=1e-3)
    assert explanation.score == NearestMean.explained
    assert model.fitted_.fingerprint() != before.fingerprint()
    model.save(tmp_path / "model")
    loaded = SceneModel.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(images), model.predict_proba(images))
    assert run(["info", str(tmp_path / "model")]) == 0
    assert "The class is predicted by the mean of every class." in render_report(loaded.fitted_)
