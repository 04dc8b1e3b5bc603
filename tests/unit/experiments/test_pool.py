"""The search on the development pool: folds, stages and the log."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from experiments import pool
from experiments.paper.data_sets import read_photo_set
from experiments.paper.plans import Recipe
from experiments.paper.words import WordRecipe
from tests.photosets import OTHER_NUMBERS, draw_labelme

pytestmark = pytest.mark.filterwarnings(OTHER_NUMBERS)

NAME = "λ = 1, small"
SMALL = Recipe(words=WordRecipe(n_words=12), max_epochs=4, members=2)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "HERE", tmp_path)
    monkeypatch.setattr(pool, "LOG", tmp_path / "pool.json")
    monkeypatch.setattr(pool, "TRIED", {NAME: SMALL, "damped": replace(SMALL, damping=2.0)})
    monkeypatch.setattr(pool, "SETTINGS", {NAME: {"generative_weight": 1.0}})
    return tmp_path


def test_every_photograph_is_tested_once_with_its_near_duplicates(tmp_path):
    photos = read_photo_set("labelme", draw_labelme(tmp_path, 10))
    picture = np.arange(80)
    picture[1] = 0
    protocol = pool.folds(photos, picture)
    tests = [protocol.parts(fold).test for fold in range(pool.N_FOLDS)]
    assert sorted(np.concatenate(tests)) == list(range(80))
    assert any({0, 1} <= set(test.tolist()) for test in tests)
    labels = np.array(photos.labels)
    for fold in range(pool.N_FOLDS):
        assert max(Counter(labels[tests[fold]].tolist()).values()) <= 3
        assert len(protocol.parts(fold).train) == 80 - len(tests[fold])


def test_from_photographs_to_the_log(here):
    data = draw_labelme(here / "labelme", 18)
    study = pool.study_of("labelme", data)
    assert len(study.photos) == 8 * 6  # A third of every class.
    pool.make_words(study, list(pool.TRIED), 1)
    again = pool.study_of("labelme")  # On another machine, without photographs.
    pool.train(again, [NAME], 5, "cpu", 1)
    found = pool.measure(again, NAME, 5)
    assert 1 / 8 < found["accuracy"] <= found["svm_and_softmax"] <= 1
    sizes = [len(again.protocol.parts(fold).test) for fold in range(pool.N_FOLDS)]
    mean = np.average(found["of_every_fold"], weights=sizes)
    assert mean == pytest.approx(found["accuracy"], abs=1e-3)
    assert 0 < found["f_measure"] <= found["f_measure_with_classes"] < 1
    pool.add_to_log("labelme", NAME, 5, found)
    pool.add_to_log("labelme", NAME, 5, {**found, "accuracy": 0.5})
    pool.add_to_log("labelme", NAME, 6, found)
    log = json.loads(pool.LOG.read_text())
    assert [(each["n_topics"], each["name"]) for each in log] == [(5, NAME), (6, NAME)]
    assert log[0]["accuracy"] == 0.5
    assert log[0]["setting"] == {"generative_weight": 1.0}
    pool.add_to_log("labelme", NAME, 0, pool.measure_counts(again, NAME))
    section = pool.pool_section()
    assert f"| labelme | {NAME} | 5 | 50.0 |" in section
    assert f"| labelme | {NAME} | – | – |" in section
    assert json.loads(pool.LOG.read_text())[-1]["svm_on_counts"] == found["svm_on_counts"]
