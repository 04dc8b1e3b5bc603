"""Every field of every record class is dropped, retyped, resized and reordered.

A file with new digests is refused with one sentence, or holds a record that is valid, too.
"""

import copy
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.planted_corpus import network_for, scene_corpus
from tests.scene_model import small_model
from tests.textures import stripes

from supdocnade import BagOfVisualWords, Corpus, DocNADE, SupDocNADE
from supdocnade.checks import copy_settings
from supdocnade.cli.about_model import info_to_dict
from supdocnade.corpus.disk import FILE as CORPUS
from supdocnade.corpus.disk import shard_path
from supdocnade.errors import StorageError
from supdocnade.estimators.bag_of_visual_words import words_of
from supdocnade.estimators.persistence import WORDS, VisualWords
from supdocnade.estimators.text_model import FILE as TOPICS
from supdocnade.estimators.text_model import TextModel, count_words
from supdocnade.images.decode import DecodeConfig
from supdocnade.images.feature_network import NetworkDescription
from supdocnade.scene.corrections import Correction, read_corrections
from supdocnade.scene.persistence import SCENE, load_scene
from supdocnade.scene.prediction import predict_compared
from supdocnade.schema import load, load_arrays, save, save_arrays
from supdocnade.training.config import TrainerConfig
from supdocnade.training.trainer import Trainer
from supdocnade.visual_words.describer import NetworkDescriber, Projection
from supdocnade.visual_words.encoder import KIND as CACHED
from supdocnade.visual_words.encoder import Codebook, EncodedImages, ImageWords, encode_all
from supdocnade.visual_words.settings import VisualWordSettings
from supdocnade.visual_words.to_corpus import (
    FEATURES,
    FEATURES_KIND,
    PART,
    ShardFeatures,
    read_features,
)

X = np.random.default_rng(0).poisson(1.0, (20, 6))
LABELS = ["sea", "wood"] * 10
ANNOTATIONS = {"annotations": X[:, :3], "annotation_names": ["a", "b", "c"]}
ODD = [None, -1, 3, 10**30, 0.5, "x", [], {}, [[]], True, "\u0000", [1, 2], {"kind": "str"}]


def estimator(kind, labels=LABELS, **settings):
    """Return functions that write and read a model of counts."""

    def write(path):
        others = {} if labels is None else {"y": labels}
        kind(2, random_state=0, **settings).fit(X, **ANNOTATIONS, **others).save(path)

    def read(path):
        model = kind.load(path)
        assert len(model.transform(np.ones((3, model.n_features_in_)))) == 3

    return "file", write, read


def scene_model(output):
    """Return functions that write and read a scene model."""

    def read(path):
        fitted = load_scene(path.parent)
        training_set = fitted.training_set
        photographs = fitted.compare_counts(training_set.counts[:2], training_set.features_BF)
        assert len(predict_compared(fitted, ["a", "b"], photographs)) == 2
        fitted.fingerprint()
        json.dumps(info_to_dict(path.parent, fitted))

    return SCENE, lambda path: small_model(output).save(path.parent), read


TEXTS = ["waves sand gull boat", "street tram window shop", "oak fern moss deer"] * 3


def write_texts(path):
    words = {"lowercase": True, "stop_words": None, "ngram_range": (1, 1)}
    counts, vocabulary = count_words(TEXTS, words)
    fitted = DocNADE(2, max_epochs=1, random_state=0).fit(counts)
    TextModel.of(fitted, counts, vocabulary, words, {}).save(path.parent)


def read_texts(path):
    assert len(TextModel.load(path.parent).topics(TEXTS[:2])) == 2


IMAGES = [stripes(number) for number in range(3)]


def sift_words(**settings):
    return words_of(BagOfVisualWords(n_words=4, random_state=0, **settings).fit(IMAGES))


def network_words():
    """Visual words of a network that is not installed."""
    words = sift_words()
    rng = np.random.default_rng(0)
    describer = NetworkDescriber(
        name="tiny",
        fingerprint="0",
        decoding=DecodeConfig(max_side=512, upscale=False, color=True),
        projection=Projection(
            np.zeros(3, np.float32),
            np.eye(3, dtype=np.float32),
            np.zeros(5, np.float32),
            np.ones(2, np.float32),
            (3, 2),
        ),
    )
    encoder = replace(
        words.encoder, describer=describer, codebook=Codebook(rng.random((5, 3), np.float32))
    )
    settings = copy_settings(VisualWordSettings, words.settings, features="tiny", n_words=5)
    return replace(words, settings=settings, encoder=encoder)


def record(kind, record_type, make):
    """Return functions that write and read a record."""
    return "file", lambda path: save(path, kind, make()), lambda path: load(path, kind, record_type)


def train(path):
    """Train, or read a checkpoint."""
    config = TrainerConfig(max_epochs=2, batch_size=16, early_stopping=True)
    _, documents = scene_corpus(20, mean_length=5)
    Trainer(network_for(documents), config, checkpoint=path).fit(documents, documents)


def write_corpus(path):
    corpus = Corpus.create(path.parent, n_words=6)
    corpus.append(X[:3], labels=["a", None, "b"], tags=[["x"], None, []], keys=["1", "2", "3"])
    features = ShardFeatures(np.ones((3, 2), np.float32))
    save(corpus.folder / FEATURES.format(0), FEATURES_KIND, features)


def read_corpus(path):
    corpus = Corpus.open(path.parent)
    corpus.verify()
    assert corpus.counts().shape == corpus.shape
    assert [len(each) for each in read_features(corpus)] == [3]


def write_correction(path):
    path.write_text(Correction("a.jpg", "ab", "sea", ("sky",)).to_line())


def write_description(path):
    NetworkDescription(name="tiny", side=8, mean=0, scale=1, outputs=("a",)).write(path)


FILES = {
    "texts": (TOPICS, write_texts, read_texts),
    "scene": scene_model("words"),
    "scene with logistic tags": scene_model("sigmoid"),
    "docnade": estimator(DocNADE, None, max_epochs=1, output="softmax"),
    "supdocnade": estimator(SupDocNADE, max_epochs=1, class_weight={"sea": 2.0, "wood": 1.0}),
    "visual words": record(WORDS, VisualWords, sift_words),
    "network words": record(WORDS, VisualWords, network_words),
    "checkpoint": ("file", train, train),
    "corpus": (CORPUS, write_corpus, read_corpus),
    "shard": (shard_path(Path(), 0).name, write_corpus, read_corpus),
    "features": (FEATURES.format(0), write_corpus, read_corpus),
    "part": record(PART, EncodedImages, lambda: encode_all(sift_words().encoder, IMAGES)),
    "cache": record(CACHED, ImageWords, lambda: sift_words().encoder.encode(IMAGES[0]).words),
    "network description": ("tiny.json", write_description, NetworkDescription.read),
    "correction": ("corrections.jsonl", write_correction, read_corrections),
}


def damaged_values(value, place=0):
    """Yield a value with one entry dropped, replaced, repeated or moved.

    Each entry is replaced by a third of the odd values.
    """
    yield from (odd for odd in ODD[place % 3 :: 3] if odd != value or type(odd) is not type(value))
    if not isinstance(value, dict | list):
        return
    for number, key in enumerate(value if isinstance(value, dict) else range(min(len(value), 3))):
        dropped = copy.copy(value)
        inner = dropped.pop(key)
        yield dropped
        for odd in damaged_values(inner, place + number + 1):
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
    yield array[None]
    if flat.size and array.ndim:
        yield flat[0]
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


@pytest.fixture(scope="module", params=FILES, ids=str)
def case(request, tmp_path_factory):
    """A file, its contents, and the function that reads it."""
    name, write, read = FILES[request.param]
    path = tmp_path_factory.mktemp("record") / name
    write(path)
    contents = ({}, json.loads(path.read_text())) if is_text(path) else load_arrays(path)
    return path, *contents, read


@pytest.fixture(scope="module", autouse=True)
def no_waiting():
    """Nobody waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda file: None)
        yield


def is_text(path):
    return path.suffix in (".json", ".jsonl")


def load_error(path, arrays, description, read):
    """Return the sentence by which a file is refused, None if it is read."""
    if is_text(path):
        path.write_text(json.dumps(description))
    else:
        save_arrays(path, arrays, description)
    try:
        read(path)
    except StorageError as error:
        return str(error)
    return None


def check(sentence, path):
    assert str(path) in sentence or str(path.parent) in sentence
    assert "\n" not in sentence
    assert len(sentence) < 2000


def test_descriptions(case):
    path, arrays, description, read = case
    n_refused = 0
    for changed in damaged_values(description):
        if not isinstance(changed, dict):
            continue
        sentence = load_error(path, arrays, changed, read)
        if sentence is not None:
            n_refused += 1
            check(sentence, path)
    assert n_refused > 5


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
    if not is_text(path):
        check(load_error(path, {**arrays, "more": np.zeros(1)}, description, read), path)
