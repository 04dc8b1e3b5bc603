"""`ReplicatedSoftmax` against sums over all documents and topics."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from supdocnade.baselines import ReplicatedSoftmax
from supdocnade.errors import InvalidArgument, TrainingDiverged

RANDOM = np.random.default_rng(0)
X = np.vstack([RANDOM.multinomial(12, p, 40) for p in ([0.6, 0.3, 0.05, 0.05], [0.1, 0, 0.4, 0.5])])


@pytest.fixture(scope="module")
def model():
    return ReplicatedSoftmax(3, max_epochs=30, batch_size=16, random_state=0).fit(X)


def energy_sum(model, document):
    """Return Σ_h exp(-E(v, h)) of a document, a list of words."""
    total = 0.0
    for h in itertools.product((0, 1), repeat=model.n_topics):
        drive_H = len(document) * model.topic_bias_ + model.components_[:, document].sum(axis=1)
        total += np.exp(model.word_bias_[document].sum() + np.dot(h, drive_H))
    return total


@pytest.mark.parametrize("length", [0, 1, 5])
def test_the_partition_function_is_the_sum_over_all_documents(model, length):
    exact = sum(
        energy_sum(model, list(document)) for document in itertools.product(range(4), repeat=length)
    )
    (value,), (error,) = model.log_partition([length], n_chains=200, n_temperatures=200)
    assert error < 0.05
    assert abs(value - np.log(exact)) < 4 * error + 1e-9


def test_the_perplexity_is_that_of_the_exact_probabilities(model):
    documents = [[0, 0, 1], [2, 3, 3], [1, 2, 0]]
    counts = np.array([np.bincount(document, minlength=4) for document in documents])
    total = sum(
        energy_sum(model, list(document)) for document in itertools.product(range(4), repeat=3)
    )
    log_p = [np.log(energy_sum(model, document) / total) for document in documents]
    value, error = model.perplexity(counts, n_chains=200, n_temperatures=200)
    exact = np.exp(-np.mean(log_p) / 3)
    assert 0 < error < 0.05
    assert abs(value - exact) < 4 * error
    assert model.perplexity(counts, "corpus", n_chains=200, n_temperatures=200)[0] == (
        pytest.approx(value)
    )


def test_topics_of_long_documents_differ():
    p_CK = np.random.default_rng(0).dirichlet(np.full(100, 5.0), 4)
    random = np.random.default_rng(1)
    long = np.vstack([random.multinomial(2400, p, 40) for p in p_CK])
    topics = ReplicatedSoftmax(20, random_state=0).fit(long).transform(long)
    kinds = topics.reshape(4, 40, 20).mean(axis=1)
    assert len(np.unique(kinds.round(), axis=0)) == 4


def test_learning_finds_the_two_kinds_of_documents(model):
    frequency_K = X.sum(axis=0) / X.sum()
    unigram = np.exp(-(X @ np.log(frequency_K)).mean() / 12)
    assert model.perplexity(X)[0] < unigram - 0.4
    topics = model.transform(X)
    assert abs(topics[:40].mean(axis=0) - topics[40:].mean(axis=0)).max() > 0.5
    drive = 12 * model.topic_bias_ + X @ model.components_.T
    np.testing.assert_allclose(topics, expit(drive), atol=1e-6)


def test_one_seed_gives_the_same_bits(model):
    again = ReplicatedSoftmax(3, max_epochs=30, batch_size=16, random_state=0)
    again.fit(sparse.csr_array(X))
    np.testing.assert_array_equal(again.components_, model.components_)


def test_wrong_arguments(model):
    with pytest.raises(InvalidArgument, match="lengths must be whole numbers of words"):
        model.log_partition([2.5])
    with pytest.raises(InvalidArgument, match="cd_steps must be a whole number of at least 1"):
        ReplicatedSoftmax(cd_steps=0).fit(X)
    with (
        pytest.raises(TrainingDiverged, match="no longer finite in epoch 1; use a smaller"),
        np.errstate(all="ignore"),
    ):
        ReplicatedSoftmax(2, learning_rate=1e308, random_state=0).fit(X)
