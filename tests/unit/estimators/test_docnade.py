"""Callbacks of a fit, and functions among its settings."""

import numpy as np
import pytest
import torch

from supdocnade import DocNADE, SupDocNADE
from supdocnade.errors import InvalidArgument, StorageError


def test_a_callback_gets_the_metrics_of_every_epoch_and_may_end_the_training(tmp_path):
    X, y = np.eye(6).repeat(3, axis=0), ["a", "b"] * 9
    settings = {"n_topics": 3, "max_epochs": 4, "random_state": 0}
    seen = []

    def watch(epoch, metrics):
        seen.append((epoch, dict(metrics)))
        return epoch == stop_at

    stop_at = None
    model = SupDocNADE(**settings, early_stopping=True).fit(X, y, on_epoch=watch)
    records = model.history_.epochs
    assert [epoch for epoch, _ in seen] == [1, 2, 3, 4]
    assert [each["loss"] for _, each in seen] == [each.loss for each in records]
    assert [each["validation_loss"] for _, each in seen] == [
        each.validation["loss"] for each in records
    ]
    unwatched = SupDocNADE(**settings, early_stopping=True).fit(X, y)
    np.testing.assert_array_equal(unwatched.predict_proba(X), model.predict_proba(X))

    seen.clear()
    stop_at = 2
    for _ in range(2):  # The second fit finds the training finished.
        stopped = SupDocNADE(**settings, checkpoint=tmp_path).fit(X, y, on_epoch=watch)
        assert stopped.history_.stopped_early
        assert len(stopped.history_.epochs) == 2
    assert len(seen) == 2
    assert set(seen[0][1]) == {"loss", "learning_rate"}


def test_a_failing_callback_leaves_the_model_as_it_was():
    model = DocNADE(n_topics=2, max_epochs=1, random_state=0).fit(np.eye(3))
    network = model.network_

    def fail(epoch, metrics):
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
