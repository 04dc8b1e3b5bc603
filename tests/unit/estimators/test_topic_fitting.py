"""Callbacks of a fit, and functions among its settings."""

import numpy as np
import pytest
import torch

from supdocnade import DocNADE, SupDocNADE
from supdocnade.errors import InvalidArgument, StorageError


def test_a_callback_sees_the_model_of_every_epoch(tmp_path):
    X, y = np.eye(6).repeat(3, axis=0), ["a", "b"] * 9
    settings = {"n_topics": 3, "max_epochs": 4, "random_state": 0}
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
