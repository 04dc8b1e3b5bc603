"""Topic models with global features beside the words, and with logistic outputs of annotations."""

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.model_selection import cross_val_score
from tests.planted_corpus import global_features, scene_corpus

from supdocnade import DocNADE, SupDocNADE, make_annotation_scorer
from supdocnade.errors import InvalidArgument

FAST = {"n_topics": 8, "learning_rate": 0.02, "max_epochs": 10, "batch_size": 20, "random_state": 0}
SCENES = scene_corpus(80, n_visual_words=12, mean_length=3)[0]
X, LABELS, TAGS = sparse.csr_array(SCENES.counts), SCENES.labels, SCENES.tags
FEATURES = global_features(LABELS, 16)
OTHERS = {"annotations": TAGS, "global_features": FEATURES}


@pytest.fixture(scope="module")
def model():
    return SupDocNADE(**FAST).fit(X, LABELS, **OTHERS)


def predictions(model, X, labels, **options):
    return [
        model.transform(X, **options),
        model.predict_proba(X, **options),
        model.predict(X, **options),
        model.log_prob(X, **options),
        model.log_prob(X, n_orderings=2, **options),
        model.annotation_proba(X, **options),
        model.annotate(X, **options),
        np.array(model.perplexity(X, **options)),
        np.array(model.score(X, labels, **options)),
    ]


def assert_same_bits(first, second):
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_features_add_what_the_words_do_not_say(model):
    assert model.n_global_features_ == 16
    without = SupDocNADE(**FAST).fit(X, LABELS, annotations=TAGS)
    assert without.n_global_features_ == 0
    assert model.score(X, LABELS, global_features=FEATURES) > 0.95
    assert without.score(X, LABELS) < 0.9
    scorer = make_annotation_scorer(top=2)
    f_measure = scorer(model, X, annotations=TAGS, global_features=FEATURES)
    assert f_measure > scorer(without, X, annotations=TAGS) + 0.05


def test_every_prediction_needs_the_features_of_the_fit(model):
    without = SupDocNADE(**FAST).fit(X, LABELS, annotations=TAGS)
    for name in ("transform", "predict", "predict_proba", "predict_log_proba", "log_prob",
                 "perplexity", "annotation_log_proba", "annotation_proba", "annotate"):  # fmt: skip
        with pytest.raises(InvalidArgument, match="as in the fit, 16 for each document, got None"):
            getattr(model, name)(X)
        with pytest.raises(InvalidArgument, match="as in the fit, None, got 16 for"):
            getattr(without, name)(X, global_features=FEATURES)
    with pytest.raises(InvalidArgument, match="16 for each document, got None"):
        model.score(X, LABELS)
    with pytest.raises(InvalidArgument, match="as in the fit, 16 for each document, got 15"):
        model.predict(X, global_features=FEATURES[:, 1:])
    with pytest.raises(InvalidArgument, match="a row for each of the 80 documents of X"):
        model.predict(X, global_features=FEATURES[1:])
    with pytest.raises(InvalidArgument, match="16 for each document, got None"):
        model.partial_fit(X, LABELS)
    with pytest.raises(InvalidArgument, match="as in the fit, None, got 16"):
        without.partial_fit(X, LABELS, global_features=FEATURES)
    with pytest.raises(InvalidArgument, match=r"global_dropout must be .* below 1, got 1"):
        SupDocNADE(global_dropout=1).fit(X, LABELS, **OTHERS)


@pytest.mark.parametrize("output", ["tree", "softmax"])
def test_the_bits_do_not_depend_on_threads(output):
    options = {**FAST, "max_epochs": 2, "output": output, "clip_norm": 1.0}
    bits = [
        SupDocNADE(**options, n_jobs=n).fit(X, LABELS, **OTHERS).network_.arrays().parameters
        for n in (1, 2, 3)
    ]
    for other in bits[1:]:
        assert_same_bits(bits[0].values(), other.values())


def test_docnade_is_conditioned_on_the_features():
    model = DocNADE(**FAST, early_stopping=True)
    topics = model.fit_transform(X, global_features=FEATURES)
    np.testing.assert_array_equal(topics, model.transform(X, global_features=FEATURES))
    plain = DocNADE(**FAST, early_stopping=True).fit(X)
    assert model.score(X, global_features=FEATURES) > plain.score(X)


def test_a_saved_model_predicts_the_same_bits(tmp_path, model):
    model.save(tmp_path / "model")
    loaded = SupDocNADE.load(tmp_path / "model")
    assert loaded.n_global_features_ == 16
    assert_same_bits(
        predictions(loaded, X, LABELS, global_features=FEATURES),
        predictions(model, X, LABELS, global_features=FEATURES),
    )
    other = DocNADE(**{**FAST, "max_epochs": 1}, global_dropout=0.2).fit(X)
    other.save(tmp_path / "other")
    assert DocNADE.load(tmp_path / "other").global_dropout == 0.2


def test_features_are_routed_through_a_cross_validation():
    with sklearn.config_context(enable_metadata_routing=True):
        model = SupDocNADE(**FAST).set_fit_request(annotations=True, global_features=True)
        scores = cross_val_score(
            model.set_score_request(global_features=True), X, LABELS, params=OTHERS, cv=2
        )
    assert scores.min() > 0.6


LOGISTIC = {**FAST, "annotation_output": "sigmoid"}


@pytest.fixture(scope="module", params=[SupDocNADE, DocNADE])
def logistic(request):
    return request.param(**LOGISTIC).fit(X, LABELS, **OTHERS)


def test_annotations_with_probabilities_of_their_own(logistic):
    proba = logistic.annotation_proba(X, global_features=FEATURES)
    log_proba = logistic.annotation_log_proba(X, global_features=FEATURES)
    np.testing.assert_allclose(proba, np.exp(log_proba))
    # Documents have several tags: the probabilities add up to their number.
    np.testing.assert_allclose(proba.sum(), (TAGS > 0).sum(), rtol=0.15)
    scorer = make_annotation_scorer(top=2)
    assert scorer(logistic, X, annotations=TAGS, global_features=FEATURES) > 0.6
    best = logistic.annotate(X, top=1, global_features=FEATURES)[:, 0]
    np.testing.assert_array_equal(best, proba.argmax(axis=1))
    shares = logistic.annotation_log_proba(X, normalize=True, global_features=FEATURES)
    np.testing.assert_allclose(np.exp(shares).sum(axis=1), 1)


def test_annotations_that_are_no_words_are_not_in_the_vocabulary(logistic):
    assert logistic.components_.shape == (8, 12)
    assert logistic.n_annotations_ == TAGS.shape[1]
    assert {word[0] for words in logistic.top_words(12) for word in words} == {"x"}
    assert np.isfinite(logistic.log_prob(X, global_features=FEATURES)).all()


def test_unknown_annotations_have_no_loss():
    known = np.arange(80) % 4 != 1
    wrong = np.where(known[:, None], TAGS, 1 - TAGS)
    models = [
        DocNADE(**LOGISTIC).fit(X, annotations=tags, annotation_mask=known)
        for tags in (TAGS, wrong)
    ]
    np.testing.assert_array_equal(*(model.annotation_proba(X) for model in models))
    absent = DocNADE(**LOGISTIC).fit(X, annotations=np.where(known[:, None], TAGS, 0))
    assert absent.annotation_proba(X).mean() < models[0].annotation_proba(X).mean()


def test_early_stopping_by_the_annotations():
    model = SupDocNADE(**LOGISTIC, early_stopping=True, metric="f_measure", generative_weight=0.0)
    model.fit(X, LABELS, annotations=TAGS)
    assert max(epoch.validation["f_measure"] for epoch in model.history_.epochs) > 0.3
