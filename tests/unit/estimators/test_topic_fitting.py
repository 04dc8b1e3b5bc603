"""Several models fitted to the same documents, each as it is fitted alone."""

import numpy as np
import pytest

from supdocnade import DocNADE, SupDocNADE, fit_many
from supdocnade.errors import InvalidArgument

SETTINGS = {"n_topics": 5, "max_epochs": 3, "learning_rate": 1e-2, "batch_size": 8}


@pytest.fixture(scope="module")
def documents():
    rng = np.random.default_rng(0)
    labels = np.array(["sea", "city"])[np.arange(40) % 2]
    return rng.poisson(1.0, (40, 12)), labels, rng.integers(0, 2, (40, 3))


def models():
    return [
        SupDocNADE(random_state=0, generative_weight=0.1, **SETTINGS),
        DocNADE(random_state=1, **SETTINGS),
        SupDocNADE(random_state=2, **SETTINGS),
        SupDocNADE(random_state=0, early_stopping=True, validation_fraction=0.3, **SETTINGS),
    ]


def test_each_has_the_bits_that_it_has_alone(documents):
    X, y, tags = documents
    names = ["boat", "car", "tree"]
    together = fit_many(models(), X, y, annotations=tags, annotation_names=names)
    for model, alone in zip(together, models(), strict=True):
        alone.fit(X, y, annotations=tags, annotation_names=names)
        np.testing.assert_array_equal(model.components_, alone.components_)
        assert model.history_.epochs == alone.history_.epochs
        assert model.annotation_names_.tolist() == names
        assert model.n_features_in_ == 12
    assert (
        together[0].predict(X[:2]).tolist()
        == models()[0].fit(X, y, annotations=tags).predict(X[:2]).tolist()
    )


def test_if_one_fails_all_are_as_they_were(documents):
    X, y, _ = documents
    fitted = DocNADE(random_state=0, **SETTINGS).fit(X)
    before = fitted.components_
    broken = SupDocNADE(random_state=0, **{**SETTINGS, "learning_rate": -1.0})
    with pytest.raises(InvalidArgument, match="learning_rate"):
        fit_many([fitted, broken], X[:, :4], y)
    assert fitted.components_ is before or np.array_equal(fitted.components_, before)
    assert fitted.n_features_in_ == 12
    assert not hasattr(broken, "classes_")


def test_an_empty_list_of_models_is_allowed(documents):
    assert fit_many([], documents[0]) == []
