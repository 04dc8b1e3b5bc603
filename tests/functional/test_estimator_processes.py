"""Every public estimator in threads, forked and spawned processes: the same bits, and no hang.

The models reach other processes as pickles.
"""

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import supdocnade
from supdocnade import (
    BagOfVisualWords,
    DampCounts,
    DocNADE,
    SupDocNADE,
    baselines,
)
from supdocnade.baselines import MMLDA, SLDA, ReplicatedSoftmax
from supdocnade.scene.model import scene_model

LIMIT = 120
"""Seconds after which a process counts as hanging."""

FAST = {"n_topics": 4, "max_epochs": 2, "random_state": 0}
RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(1.0, (40, 12)) + 1
IMAGES = list(RNG.integers(0, 256, (6, 48, 64), np.uint8))
LABELS = ["coast", "forest"] * 20


def estimators():
    """Return every public estimator, fitted, with documents or images for it."""
    return {
        "DocNADE": (DocNADE(**FAST).fit(COUNTS), COUNTS),
        "SupDocNADE": (SupDocNADE(**FAST).fit(COUNTS, LABELS), COUNTS),
        "SLDA": (SLDA(n_topics=4, max_iter=5, random_state=0).fit(COUNTS, LABELS), COUNTS),
        "MMLDA": (MMLDA(n_topics=4, max_iter=5, random_state=0).fit(COUNTS, LABELS), COUNTS),
        "ReplicatedSoftmax": (ReplicatedSoftmax(**FAST).fit(COUNTS), COUNTS),
        "DampCounts": (DampCounts().fit(COUNTS), COUNTS),
        "BagOfVisualWords": (BagOfVisualWords(n_words=8, random_state=0).fit(IMAGES), IMAGES),
        "SceneModel": (
            scene_model(n_words=8, mirror=False, held_out=0, **FAST).fit(IMAGES, LABELS[:6]),
            IMAGES,
        ),
    }


@pytest.fixture(scope="module")
def fitted():
    return estimators()


def bits(model, data):
    """Return the results of an estimator as bytes."""
    found = model.transform(data)
    found = found.toarray() if hasattr(found, "toarray") else found
    proba = model.predict_proba(data) if hasattr(model, "predict_proba") else np.empty(0)
    return found.tobytes() + proba.tobytes()


def bits_of_pickles(content):
    return {name: bits(*each) for name, each in pickle.loads(content).items()}


def fit_again():
    """Fit all estimators anew, in a child whose parent has used its threads."""
    return {name: bits(*each) for name, each in estimators().items()}


def test_all_public_estimators_are_here(fitted):
    modules = supdocnade, baselines
    classes = (getattr(module, name) for module in modules for name in module.__all__)
    public = {each.__name__ for each in classes if hasattr(each, "fit")}
    assert public == fitted.keys()


def test_eight_threads_have_the_same_bits(fitted):
    for model, data in fitted.values():
        expected = bits(model, data)
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(lambda _, m=model, d=data: bits(m, d), range(16))) == {expected}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_have_the_same_bits(fitted, method):
    expected = {name: bits(*each) for name, each in fitted.items()}
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, context) as pool:
        found = pool.submit(bits_of_pickles, pickle.dumps(fitted)).result(LIMIT)
        assert found == expected
        if method == "fork":
            assert pool.submit(fit_again).result(LIMIT) == expected
