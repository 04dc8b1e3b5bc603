"""Every field of every record class is dropped, retyped, resized and reordered.

A file with new digests is refused with one sentence, or holds a record that is valid, too.
"""

import copy
import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from tests.scene_model import small_model

from supdocnade import DocNADE, SupDocNADE
from supdocnade.baselines import SLDA, ReplicatedSoftmax
from supdocnade.cli.about_model import info_to_dict
from supdocnade.errors import StorageError
from supdocnade.estimators.text_model import FILE, TextModel, count_words
from supdocnade.scene.persistence import SCENE, load_scene
from supdocnade.scene.prediction import predict_topics
from supdocnade.storage import load_arrays, save_arrays

X = np.random.default_rng(0).poisson(1.0, (20, 6))
LABELS = ["sea", "wood"] * 10
ODD = [None, -1, 3, 10**30, 0.5, "x", [], {}, [[]], True, "\u0000", [1, 2], {"kind": "str"}]


def slda():
    model = SLDA(2, max_iter=1, random_state=0)
    return model.fit(X, LABELS, annotations=X[:, :3], annotation_names=["a", "b", "c"])


def topic_model(kind, **settings):
    model = kind(2, max_epochs=1, random_state=0, **settings)
    names = ["a", "b", "c"]
    if kind is DocNADE:
        return model.fit(X, annotations=X[:, :3], annotation_names=names)
    return model.fit(X, LABELS, annotations=X[:, :3], annotation_names=names)


def scene_model(*kind):
    model = small_model(*kind)
    return SimpleNamespace(save=lambda path: model.save(path.parent))


def read_scene(path):
    fitted, params = load_scene(path.parent)
    training_set = fitted.training_set
    hidden_BH = fitted.compute_topics(training_set.counts[:2], training_set.features_BF)
    assert len(predict_topics(fitted, ["a", "b"], hidden_BH)) == 2
    fitted.fingerprint()
    json.dumps(info_to_dict(path.parent, fitted, params["random_state"]))


def using(kind):
    """Return a function that reads a model and uses it."""

    def read(path):
        model = kind.load(path)
        topics = model.transform(np.ones((3, model.n_features_in_)))
        assert len(topics) == 3

    return read


TEXTS = ["waves sand gull boat", "street tram window shop", "oak fern moss deer"] * 3
WORDS = {"lowercase": True, "stop_words": None, "ngram_range": (1, 1)}


def texts():
    counts, vocabulary = count_words(TEXTS, WORDS)
    estimator = DocNADE(2, max_epochs=1, random_state=0).fit(counts)
    model = TextModel.of(estimator, counts, vocabulary, WORDS, {})
    return SimpleNamespace(save=lambda path: model.save(path.parent))


def read_texts(path):
    assert len(TextModel.load(path.parent).topics(TEXTS[:2])) == 2


MODELS = {
    "texts": (FILE, texts, read_texts),
    "scene svm": (SCENE, lambda: scene_model("svm"), read_scene),
    "scene softmax": (SCENE, lambda: scene_model("softmax", "sigmoid"), read_scene),
    "docnade": ("file", lambda: topic_model(DocNADE, output="softmax"), using(DocNADE)),
    "supdocnade": (
        "file",
        lambda: topic_model(SupDocNADE, class_weight={"sea": 2.0, "wood": 1.0}),
        using(SupDocNADE),
    ),
    "slda": ("file", slda, using(SLDA)),
    "replicated softmax": (
        "file",
        lambda: ReplicatedSoftmax(2, max_epochs=1, random_state=0).fit(X),
        using(ReplicatedSoftmax),
    ),
}


def damaged_values(value):
    """Yield a value with one entry dropped, replaced by others, repeated or moved."""
    yield from (odd for odd in ODD if odd != value or type(odd) is not type(value))
    if not isinstance(value, dict | list):
        return
    for key in value if isinstance(value, dict) else range(min(len(value), 3)):
        dropped = copy.copy(value)
        inner = dropped.pop(key)
        yield dropped
        for odd in damaged_values(inner):
            changed = copy.copy(value)
            changed[key] = odd
            yield changed
    if isinstance(value, dict):
        yield {**value, "more": None}
    elif value:
        yield [*value, value[0]]
        yield value[::-1]


def damaged_arrays(array):
    """Yield an array of another type, size, order or of other values; each must be refused."""
    flat = array.reshape(-1)
    yield array.astype(np.int8 if array.dtype.kind == "f" else np.float64)
    yield array[..., None]
    yield flat[0] if array.ndim else array[None]
    if array.dtype.kind == "f" and array.size:
        yield np.full_like(array, np.nan)
        yield np.full_like(array, np.inf)


def resized_arrays(array):
    """Yield an array with more, fewer or reordered rows, which some records may hold."""
    if array.ndim:
        yield np.concatenate([array, array])
        yield array[:-1]
        yield array[:0]
        yield array[::-1]


@pytest.fixture(scope="module", params=MODELS, ids=str)
def case(request, tmp_path_factory):
    """A file, its contents, and the function that reads it."""
    name, make, read = MODELS[request.param]
    path = tmp_path_factory.mktemp("record") / name
    make().save(path)
    return path, *load_arrays(path), read


@pytest.fixture(scope="module", autouse=True)
def no_waiting():
    """Nobody waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda file: None)
        yield


def load_error(path, arrays, description, read):
    """Return the sentence by which a file is refused, None if it is read."""
    save_arrays(path, arrays, description)
    try:
        read(path)
    except StorageError as error:
        return str(error)
    return None


def check(sentence, path):
    assert str(path) in sentence
    assert "\n" not in sentence
    assert len(sentence) < 2000


def test_descriptions(case):
    path, arrays, description, read = case
    n_refused = 0
    # Each field has more than a dozen values, of which a third is tried.
    for changed in itertools.islice(damaged_values(description), 0, None, 3):
        if not isinstance(changed, dict):
            continue
        sentence = load_error(path, arrays, changed, read)
        if sentence is not None:
            n_refused += 1
            check(sentence, path)
    assert n_refused > 20


def test_arrays(case):
    path, arrays, description, read = case
    for name, array in arrays.items():
        for other in damaged_arrays(array):
            sentence = load_error(path, {**arrays, name: np.array(other)}, description, read)
            assert sentence is not None, (name, other.dtype, other.shape)
            check(sentence, path)
        for other in resized_arrays(array):
            sentence = load_error(path, {**arrays, name: np.array(other)}, description, read)
            check(sentence or str(path), path)
        rest = {each: value for each, value in arrays.items() if each != name}
        check(load_error(path, rest, description, read), path)
        check(load_error(path, {**rest, f"{name}2": array}, description, read), path)
    check(load_error(path, {**arrays, "more": np.zeros(1)}, description, read), path)
