"""Several models fitted to the same documents, each as it is fitted alone."""

import numpy as np
import pytest
import torch

from supdocnade import DocNADE, SupDocNADE, fit_many
from supdocnade.errors import InvalidArgument, StorageError

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


def test_a_callback_sees_the_model_of_every_epoch(tmp_path):
    X, y = np.eye(6).repeat(3, axis=0), ["a", "b"] * 9
    settings = {"n_topics": 3, "max_epochs": 4, "random_state": 0, "averaging": 0.5}
    seen = []

    def watch(model, epoch):
        seen.append((epoch, len(model.history_.epochs), model.predict_proba(X)))
        return epoch == stop_at

    stop_at = None
    model = SupDocNADE(**settings).fit(X, y, on_epoch=watch)
    assert [each[:2] for each in seen] == [(1, 1), (2, 2), (3, 3), (4, 4)]
    np.testing.assert_array_equal(seen[-1][2], model.predict_proba(X))
    unwatched = SupDocNADE(**settings).fit(X, y)
    np.testing.assert_array_equal(unwatched.predict_proba(X), model.predict_proba(X))
    assert not model.history_.stopped_early

    stop_at = 2
    before = seen[1][2]
    for _ in range(2):  # The second fit finds the training finished.
        stopped = SupDocNADE(**settings, checkpoint=tmp_path).fit(X, y, on_epoch=watch)
        assert stopped.history_.stopped_early
        np.testing.assert_array_equal(stopped.predict_proba(X), before)
    assert len(seen) == 6


def test_a_failing_callback_leaves_the_model_as_it_was():
    model = DocNADE(n_topics=2, max_epochs=1, random_state=0).fit(np.eye(3))
    network = model.network_

    def fail(model, epoch):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        model.fit(np.eye(3), on_epoch=fail)
    assert model.network_ is network


def test_functions_are_not_saved(tmp_path):
    model = DocNADE(n_topics=2, activation=torch.sin, max_epochs=1, random_state=0).fit(np.eye(3))
    with pytest.raises(InvalidArgument, match="its activation is a function"):
        model.save(tmp_path / "model")
    resumed = DocNADE(n_topics=2, activation=torch.sin, max_epochs=1, checkpoint=tmp_path)
    resumed.set_params(random_state=0).fit(np.eye(3))
    with pytest.raises(StorageError, match="activation"):
        resumed.set_params(activation=torch.cos).fit(np.eye(3))
