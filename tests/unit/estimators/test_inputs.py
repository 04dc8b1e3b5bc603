"""A corpus on disk in place of a matrix gives the same bits and the same messages."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from tests.planted_corpus import scene_corpus

from supdocnade import Corpus, DampCounts, DocNADE, SupDocNADE, make_annotation_scorer
from supdocnade.corpus import tokens
from supdocnade.corpus.documents import NO_LABEL
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.inputs import classes_of, read_label_table, read_labels

FAST = {"n_topics": 6, "learning_rate": 0.01, "max_epochs": 3, "batch_size": 16, "random_state": 0}
N = 90


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Let everything that is read in blocks be cut into many."""
    monkeypatch.setattr(tokens, "BLOCK_TOKENS", 300)
    monkeypatch.setattr(Corpus.blocks, "__defaults__", (300,))


@pytest.fixture(scope="module")
def scenes():
    return scene_corpus(N, n_visual_words=40, mean_length=60)[0]


@pytest.fixture(scope="module")
def labels(scenes):
    names = np.array(["a", "b", "c", "d"], object)[scenes.labels]
    names[::5] = None
    return names.tolist()


def store(folder, matrix, labels=None, n_shards=4):
    corpus = Corpus.create(folder, n_words=matrix.shape[1])
    for rows in np.array_split(np.arange(matrix.shape[0]), n_shards):
        some = None if labels is None else [labels[row] for row in rows]
        corpus.append(matrix[rows], labels=some)
    return Corpus.open(folder)


def some_counts(scenes):
    counts = sparse.csr_array(scenes.counts, dtype=np.float64)
    counts[[3]] = 0  # A document without words.
    counts.eliminate_zeros()
    return counts


@pytest.fixture(scope="module")
def X(scenes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sparse.SparseEfficiencyWarning)
        return some_counts(scenes)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, X, labels):
    return store(tmp_path_factory.mktemp("corpora") / "corpus", X, labels)


def assert_equal_models(ours, theirs):
    assert ours.history_.epochs == theirs.history_.epochs
    assert ours.history_.best_epoch == theirs.history_.best_epoch
    expected = dict(theirs.network_.named_parameters())
    for name, parameter in ours.network_.named_parameters():
        np.testing.assert_array_equal(parameter.detach(), expected[name].detach(), err_msg=name)


def options_of_fits(scenes):
    weight = np.random.default_rng(1).random(N) * 3
    tags = {"annotations": scenes.tags}
    stopping = {"early_stopping": True, "validation_fraction": 0.3}
    return {
        "words": ({}, {}),
        "weights": ({}, {"sample_weight": weight}),
        "tags": ({"annotation_weight": 5.0}, tags),
        "fractions of tags": ({}, {"annotations": scenes.tags * 0.7}),
        "sparse tags": ({}, {"annotations": sparse.csc_array(scenes.tags), "sample_weight": weight,
                             "annotation_mask": np.arange(N) % 3 > 0}),
        "softmax": ({"output": "softmax"}, tags),
        "f_measure": ({**stopping, "metric": "f_measure"}, {**tags, "sample_weight": weight}),
        "perplexity": ({**stopping, "metric": "perplexity"}, tags),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["words", "weights", "tags", "fractions of tags", "sparse tags",
                                  "softmax", "f_measure", "perplexity"])  # fmt: skip
def test_a_fit_gives_the_bits_of_one_from_memory(scenes, X, corpus, labels, name):
    settings, data = options_of_fits(scenes)[name]
    for kind, y in ((SupDocNADE, labels), (DocNADE, None)):
        ours = kind(**FAST, **settings).fit(corpus, y, **data)
        assert_equal_models(ours, kind(**FAST, **settings).fit(X, y, **data))


def test_partial_fits_alternate_between_memory_and_disk(scenes, X, corpus, labels):
    ours, theirs = SupDocNADE(**FAST), SupDocNADE(**FAST)
    for first in (corpus, X):
        ours.partial_fit(first, labels, list("abcd"), annotations=scenes.tags)
        theirs.partial_fit(X, labels, list("abcd"), annotations=scenes.tags)
    # Annotations were modelled before; now they are unknown.
    assert_equal_models(ours.partial_fit(corpus, labels), theirs.partial_fit(X, labels))
    with pytest.raises(InvalidArgument, match=r"annotations must have \d+ columns, as before"):
        ours.partial_fit(corpus, labels, annotations=scenes.tags[:, :2])


@pytest.mark.filterwarnings("ignore:1 of 90 documents have no words")
def test_predictions_have_the_same_bits(scenes, X, corpus, labels):
    model = SupDocNADE(**FAST).fit(X, labels, annotations=scenes.tags)
    for method in ("transform", "predict", "predict_proba", "predict_log_proba", "annotate",
                   "annotation_proba", "annotation_log_proba", "log_prob", "perplexity",
                   "coherence"):  # fmt: skip
        expected = getattr(model, method)(X)
        np.testing.assert_array_equal(getattr(model, method)(corpus), expected, err_msg=method)
    np.testing.assert_array_equal(
        model.log_prob(corpus, n_orderings=2), model.log_prob(X, n_orderings=2)
    )
    assert model.perplexity(corpus, average="corpus") == model.perplexity(X, average="corpus")
    weight = np.arange(N)
    assert model.score(corpus, labels) == model.score(X, labels)
    assert model.score(corpus, labels, weight) == model.score(X, labels, weight)
    scorer = make_annotation_scorer()
    wanted = {"annotations": scenes.tags}
    assert scorer(model, corpus, **wanted) == scorer(model, X, **wanted)
    unsupervised = DocNADE(**FAST).fit(corpus)
    assert unsupervised.score(corpus) == unsupervised.score(X)
    damped = DampCounts().fit(corpus).transform(corpus)
    assert (damped != DampCounts().fit_transform(X)).nnz == 0


def test_the_width_and_names_of_words_are_checked(tmp_path, corpus, labels):
    model = SupDocNADE(**FAST).fit(corpus, labels)
    assert model.n_features_in_ == 40
    narrow = Corpus.create(tmp_path / "narrow", n_words=39)
    with pytest.raises(InvalidArgument, match="X must have a document, got none"):
        model.predict(narrow)
    narrow.append(np.ones((2, 39)))
    for method in (model.predict, model.partial_fit, model.transform, model.perplexity):
        arguments = (["a", "b"],) if method == model.partial_fit else ()
        with pytest.raises(ValueError, match="X has 39 features, but SupDocNADE is expecting 40"):
            method(narrow, *arguments)
    frame = pd.DataFrame(np.ones((3, 39)), columns=[f"w{k}" for k in range(39)])
    named = DocNADE(**FAST).fit(frame)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        named.transform(narrow)
    assert not hasattr(named.fit(narrow), "feature_names_in_")


@pytest.mark.parametrize(
    ("y", "got"),
    [
        (np.eye(3, dtype=int), r"shape \(3, 3\)"),
        ([["sea", "sky"], ["sky", "wood"]], r"shape \(2, 2\)"),
        ([["sea", "sky"], ["sky"]], r"\['sea', 'sky'\]"),
        (pd.Series([{"sea"}, {"sky"}]), r"\{'sea'\}"),
    ],
)
def test_several_labels_where_one_is_expected(y, got):
    with pytest.raises(InvalidArgument, match=f"one class per document, got {got}.*MultiLabel"):
        read_labels(y)


@pytest.mark.parametrize(
    "y",
    [
        np.array([[1, 0], [0, 1], [1, 1]]),
        [[True, False], [False, True], [True, True]],
        [np.array([1, 0]), np.array([0, 1]), np.array([1, 1])],
        sparse.csr_array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
        pd.DataFrame([[1, 0], [0, 1], [1, 1]]),
    ],
)
def test_tables_of_labels(y):
    labels, classes = read_label_table(y)
    assert labels.tolist() == [[1, 0], [0, 1], [1, 1]]
    assert classes.tolist() == [0, 1]


@pytest.mark.parametrize(
    "y",
    [
        np.array([[1, np.nan], [np.nan, np.nan]]),
        [[1, None], [np.nan, None]],
        pd.DataFrame({0: [1, pd.NA], 1: [None, np.nan]}, dtype="Int8"),
    ],
)
def test_unknown_labels_in_a_table(y):
    assert read_label_table(y)[0].tolist() == [[1, NO_LABEL], [NO_LABEL, NO_LABEL]]


def test_columns_of_a_data_frame_name_the_labels():
    y = pd.DataFrame([[1, 0], [0, 1]], columns=["sky", "sea"])
    assert read_label_table(y)[1].tolist() == ["sky", "sea"]


@pytest.mark.parametrize("y", [["sea", "sky"], [1, 2], np.array([[1], [2]]), pd.Series(["sea"])])
def test_one_label_per_document_is_no_table(y):
    assert read_label_table(y) is None


@pytest.mark.parametrize(
    ("y", "got"),
    [([["sea", "sky"], ["sky", "wood"]], "'sea'"), ([[0, 1], [2, 1]], "2"), ([[0, -1]], "-1")],
)
def test_other_values_in_a_table(y, got):
    with pytest.raises(InvalidArgument, match=f"several labels as a matrix of 0 and 1.*got {got};"):
        read_label_table(y)


def test_a_column_is_one_label_each():
    with pytest.warns(UserWarning, match="column-vector"):
        assert read_labels(np.array([[1], [2]]))[0].tolist() == [1, 2]


def test_a_class_of_minus_one_may_be_a_missing_label():
    known = np.ones(4, bool)
    with pytest.warns(UserWarning, match="give None or NaN"):
        assert classes_of(np.array([-1, 0, 1, 2]), known).tolist() == [-1, 0, 1, 2]
    with pytest.warns(UserWarning, match="give None or NaN"):
        classes_of(np.array([-1, 1, 2, 2]), known)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classes_of(np.array([-1, 1, -1, 1]), known)
        classes_of(np.array([-1, 0, 1, 2]), known, listed=True)
