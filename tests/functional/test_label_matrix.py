"""SupDocNADE with several labels per document."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score
from sklearn.model_selection import cross_val_score

from supdocnade import SupDocNADE
from supdocnade.corpus.documents import NO_LABEL, Documents
from supdocnade.errors import InvalidArgument

FAST = {"n_topics": 10, "learning_rate": 0.02, "max_epochs": 12, "batch_size": 30}
FAST["random_state"] = 0


def draw_documents(n_documents, seed):
    """Return documents whose words come from the topics of their labels and a common one."""
    rng = np.random.default_rng(seed)
    topics = np.random.default_rng(0).dirichlet(np.full(30, 0.1), 4)
    labels = rng.random((n_documents, 3)) < [0.5, 0.3, 0.1]
    shares = np.hstack([labels, np.full((n_documents, 1), 0.3)])
    shares /= shares.sum(axis=1, keepdims=True)
    return np.stack([rng.multinomial(40, each) for each in shares @ topics]), labels.astype(int)


X, LABELS = draw_documents(120, 1)
UNSEEN, TRUE = draw_documents(80, 2)
UNKNOWN = np.random.default_rng(3).random(LABELS.shape) < 0.3
UNKNOWN[5] = True


def assert_same_predictions(first, second):
    for name in ("predict_proba", "predict", "transform"):
        np.testing.assert_array_equal(getattr(first, name)(UNSEEN), getattr(second, name)(UNSEEN))


@pytest.fixture(scope="module")
def model():
    return SupDocNADE(**FAST).fit(X, LABELS)


def test_labels_are_predicted_one_by_one(model):
    proba, predicted = model.predict_proba(UNSEEN), model.predict(UNSEEN)
    assert proba.shape == (80, 3)
    np.testing.assert_array_equal(predicted, proba > 0.5)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(UNSEEN)), proba)
    assert (predicted == TRUE).mean() > 0.9
    # Documents have no label, or several: the probabilities add up to their number.
    np.testing.assert_allclose(proba.mean(axis=0), TRUE.mean(axis=0), atol=0.1)
    assert model.score(UNSEEN, TRUE) == accuracy_score(TRUE, predicted) > 0.7
    weight = np.arange(80)
    assert model.score(UNSEEN, TRUE, weight) == accuracy_score(
        TRUE, predicted, sample_weight=weight
    )
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.class_topics(2).shape == (3, 2)
    assert len(model.class_words(4)) == 3


def test_unknown_labels_have_no_loss():
    tables = np.where(UNKNOWN, np.nan, LABELS), np.where(UNKNOWN, None, LABELS)
    models = [SupDocNADE(**FAST).fit(X, table) for table in tables]
    assert_same_predictions(*models)
    assert (models[0].predict(UNSEEN) == TRUE).mean() > 0.85
    # A document without any known label still has words.
    alone = np.where(np.arange(120)[:, None] % 2 == 0, np.nan, LABELS.astype(float))
    everything = SupDocNADE(**FAST).fit(X, alone)
    half = SupDocNADE(**FAST).fit(X[1::2], LABELS[1::2])
    assert everything.perplexity(UNSEEN) < half.perplexity(UNSEEN)


def test_class_weights_favour_the_labels_that_are_present(model):
    rare = [
        SupDocNADE(**FAST, class_weight=weight).fit(X, LABELS).predict_proba(UNSEEN)[:, 2].mean()
        for weight in (None, {2: 8.0}, "balanced")
    ]
    assert rare[1] > rare[0] + 0.02
    assert rare[2] > rare[0] + 0.02
    table = np.array([[1, 0, 1], [0, 0, 1], [0, np.nan, 1], [0, 0, 1]])
    labels = np.where(np.isnan(table), NO_LABEL, table)
    documents = Documents.from_counts(X[:4], labels=labels, n_classes=3)
    assert documents.balanced_class_weight().tolist() == [3, 1, 1]
    with pytest.raises(InvalidArgument, match=r"class_weight must name classes among \[0, 1, 2\]"):
        SupDocNADE(**FAST, class_weight={"sea": 2}).fit(X, LABELS)


def test_columns_of_a_data_frame_are_the_classes(tmp_path):
    names = ["sky", "water", "night"]
    frame = pd.DataFrame(LABELS, columns=names)
    model = SupDocNADE(**{**FAST, "max_epochs": 2}, class_weight={"sky": 2.0}).fit(X, frame)
    assert model.classes_.tolist() == names
    model.save(tmp_path / "model")
    loaded = SupDocNADE.load(tmp_path / "model")
    assert loaded.classes_.tolist() == names
    assert_same_predictions(loaded, model)
    assert loaded.score(X, frame) == model.score(X, LABELS)
    with pytest.raises(InvalidArgument, match=r"columns of y must be \['sky', 'water', 'night'\]"):
        model.score(X, frame[names[::-1]])


def test_early_stopping_and_resuming(tmp_path):
    metric = "accuracy"
    options = {**FAST, "early_stopping": True, "metric": metric, "n_epochs_no_change": 3}
    fitted = SupDocNADE(**options).fit(X, LABELS)
    values = [each.validation[metric] for each in fitted.history_.epochs]
    assert fitted.history_.best_epoch == int(np.argmax(values)) + 1
    stopped = SupDocNADE(**options, checkpoint=tmp_path)

    def interrupt(epoch, _):
        if epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped.fit(X, LABELS, on_epoch=interrupt)
    with pytest.raises(ValueError, match="was made from other data"):
        SupDocNADE(**options, checkpoint=tmp_path).fit(X, 1 - LABELS)
    assert_same_predictions(SupDocNADE(**options, checkpoint=tmp_path).fit(X, LABELS), fitted)


def test_passes_over_parts_of_the_documents():
    model = SupDocNADE(**FAST)
    for _ in range(8):
        for rows in np.array_split(np.arange(120), 2):
            model.partial_fit(X[rows], LABELS[rows], classes=["sky", "water", "night"])
    assert model.classes_.tolist() == ["sky", "water", "night"]
    assert (model.predict(UNSEEN) == TRUE).mean() > 0.85
    with pytest.raises(InvalidArgument, match=r"with 3 columns, as in the fit, got shape \(120,\)"):
        model.partial_fit(X, LABELS[:, 0])
    with pytest.raises(
        InvalidArgument, match=r"with 3 columns, as in the fit, got shape \(120, 2\)"
    ):
        model.partial_fit(X, LABELS[:, :2])
    with pytest.raises(InvalidArgument, match="classes must not have a class twice"):
        SupDocNADE(**FAST).partial_fit(X, LABELS, classes=[1, 1, 2])
    single = SupDocNADE(**FAST).partial_fit(X, LABELS[:, 0], classes=[0, 1])
    with pytest.raises(InvalidArgument, match="y must have one class per document"):
        single.partial_fit(X, LABELS)


def test_the_bits_do_not_depend_on_threads(model):
    for n_jobs in (1, 3):
        assert_same_predictions(SupDocNADE(**FAST, n_jobs=n_jobs).fit(X, LABELS), model)


def test_scikit_learns_scorers_take_the_probabilities():
    scores = cross_val_score(SupDocNADE(**FAST), X, LABELS, scoring="average_precision", cv=2)
    assert scores.min() > 0.7


def test_wrong_labels_are_refused(model):
    with pytest.raises(InvalidArgument, match="a label for at least one document, got none"):
        SupDocNADE().fit(X, np.full(LABELS.shape, np.nan))
    with pytest.raises(InvalidArgument, match="got 119 of inconsistent length"):
        SupDocNADE().fit(X, LABELS[1:])
    with pytest.raises(InvalidArgument, match="must have 80 labels, one for each row of X, got 79"):
        model.score(UNSEEN, TRUE[1:])
    with pytest.raises(InvalidArgument, match="a matrix of 0 and 1 with 3 columns"):
        model.score(UNSEEN, TRUE[:, 0])
    with pytest.raises(InvalidArgument, match=r"several labels as a matrix .* got 'sea'"):
        SupDocNADE().fit(X[:2], [["sea", "sky"], ["sky", "wood"]])
    with pytest.raises(InvalidArgument, match=r"one class per document, got \['sea', 'sky'\]"):
        SupDocNADE().fit(X[:2], [["sea", "sky"], ["sky"]])
