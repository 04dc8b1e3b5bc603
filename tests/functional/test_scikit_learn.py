"""The estimators against scikit-learn's own checks, and inside its tools."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.planted_corpus import scene_corpus

from supdocnade import (
    BagOfVisualWords,
    DampCounts,
    DocNADE,
    SupDocNADE,
    make_annotation_scorer,
)
from supdocnade.baselines import SLDA, ReplicatedSoftmax

WEIGHTED = (
    "A document of weight 2 is not the same as two documents: they are put into other minibatches "
    "and their words into other random orders, so training takes other steps, as with every "
    "stochastic optimiser."
)
NEGATIVE = "The check fits blobs with negative values, which are no counts, and expects success."


def expected_failures(estimator):
    if not isinstance(estimator, DocNADE | SupDocNADE):
        return {}
    failures = {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTED,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTED,
    }
    if isinstance(estimator, SupDocNADE):
        failures["check_class_weight_classifiers"] = NEGATIVE
    return failures


# The checks have some 300 points with two or three features, five updates per epoch; the default
# learning rate, made for long documents, would need a few hundred epochs for them. Few epochs save
# time: only the checks of a classifier's accuracy need a model that has learned something.
@parametrize_with_checks(
    [
        DampCounts(),
        DocNADE(n_topics=8, max_epochs=5),
        SupDocNADE(n_topics=16, learning_rate=5e-2, max_epochs=25),
        SLDA(n_topics=3, max_iter=15),
        ReplicatedSoftmax(n_topics=3, max_epochs=3),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def scenes():
    return scene_corpus(60, n_visual_words=40, mean_length=30)[0]


FAST = {"n_topics": 8, "learning_rate": 0.01, "max_epochs": 10, "random_state": 0}


def test_the_papers_classifier_is_a_pipeline(scenes):
    model = make_pipeline(DampCounts(), SupDocNADE(**FAST), StandardScaler(), SVC())
    model.fit(scenes.counts, scenes.labels)
    assert model.score(scenes.counts, scenes.labels) > 0.9
    assert cross_val_score(model, scenes.counts, scenes.labels, cv=3).shape == (3,)


def test_annotations_are_routed_through_a_search(scenes):
    with sklearn.config_context(enable_metadata_routing=True):
        options = {**FAST, "max_epochs": 30, "generative_weight": 1.0}
        model = SupDocNADE(**options).set_fit_request(annotations=True)
        search = GridSearchCV(
            make_pipeline(DampCounts(), model),
            {"supdocnade__annotation_weight": [0.0, 30.0]},
            scoring=make_annotation_scorer(top=2).set_score_request(annotations=True),
            cv=StratifiedKFold(3),
        )
        search.fit(scenes.counts, scenes.labels, annotations=sparse.csr_array(scenes.tags))
    means = search.cv_results_["mean_test_score"]
    assert search.best_params_ == {"supdocnade__annotation_weight": 30.0}
    assert means[1] > means[0]


def test_cross_val_score_takes_the_scorer(scenes):
    with sklearn.config_context(enable_metadata_routing=True):
        scores = cross_val_score(
            DocNADE(**FAST).set_fit_request(annotations=True),
            scenes.counts,
            scoring=make_annotation_scorer(top=2).set_score_request(annotations=True),
            params={"annotations": scenes.tags},
            cv=3,
        )
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()


def test_clones_and_pickles(scenes):
    model = SupDocNADE(**FAST, class_weight="balanced").fit(scenes.counts, scenes.labels)
    again = clone(model).fit(scenes.counts, scenes.labels)
    restored = pickle.loads(pickle.dumps(model))
    for other in (again, restored):
        np.testing.assert_array_equal(
            other.predict_proba(scenes.counts), model.predict_proba(scenes.counts)
        )


def test_all_kinds_of_matrices_give_the_same_model(scenes):
    dense = np.asarray(scenes.counts.todense() if sparse.issparse(scenes.counts) else scenes.counts)
    expected = DocNADE(**FAST).fit(dense).transform(dense)
    frame = pd.DataFrame(dense, columns=[f"word{k}" for k in range(dense.shape[1])])
    kinds = [
        dense.astype(np.int32),
        dense.astype(np.float32),
        sparse.csr_matrix(dense),
        sparse.csc_array(dense),
        sparse.coo_array(dense),
        frame,
    ]
    for X in kinds:
        model = DocNADE(**FAST).fit(X)
        np.testing.assert_array_equal(model.transform(X), expected)
    assert model.top_words(2)[0][0].startswith("word")
    assert model.get_feature_names_out().tolist()[:2] == ["docnade0", "docnade1"]


@pytest.mark.parametrize("kind", [BagOfVisualWords, DocNADE, SupDocNADE])
def test_parameters_are_documented_under_headings(kind):
    titles = [line for line in kind.__doc__.splitlines() if line.startswith("Parameters")]
    groups = ["model", "training", "stopping", "run"]
    expected = [each for each in groups if kind is not BagOfVisualWords or each != "stopping"]
    assert titles == [f"Parameters of {'the ' * (each != 'stopping')}{each}" for each in expected]
