import numpy as np
import pytest
import torch
from scipy import sparse
from tests.planted_corpus import network_for, parameter_bits, scene_corpus
from torch.nn.functional import logsigmoid

from supdocnade.errors import InvalidArgument
from supdocnade.model.inference import (
    NetworkArrays,
    annotation_log_odds,
    annotation_log_proba,
    class_log_proba,
    topic_features,
)
from supdocnade.model.network import network_from_arrays
from supdocnade.training.objective import ordered_batches

SCENES, CORPUS = scene_corpus(30, n_visual_words=20, mean_length=12)
COUNTS = sparse.csr_array(SCENES.counts)


@pytest.mark.parametrize("output", ["tree", "softmax"])
def test_probabilities_sum_to_one_and_rows_are_independent(output):
    network = network_for(CORPUS, output=output).arrays()
    hidden = topic_features(network, COUNTS)
    np.testing.assert_allclose(np.exp(class_log_proba(network, hidden)).sum(axis=1), 1)
    log_p = annotation_log_proba(network, hidden, normalize=True)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1)
    raw = annotation_log_proba(network, hidden)
    assert (np.exp(raw).sum(axis=1) < 1).all()
    np.testing.assert_allclose(raw - raw[:, :1], log_p - log_p[:, :1])
    alone = topic_features(network, COUNTS[[7]])
    np.testing.assert_array_equal(alone, hidden[[7]])
    np.testing.assert_array_equal(annotation_log_proba(network, alone), raw[[7]])


def test_a_network_without_annotations_has_no_probabilities():
    _, corpus = scene_corpus(30, tags=False, n_visual_words=20, mean_length=12)
    network = network_for(corpus, supervised=False).arrays()
    assert network.n_classes == 0
    hidden = topic_features(network, COUNTS)
    assert annotation_log_proba(network, hidden, normalize=True).shape == (30, 0)


@pytest.mark.parametrize("supervised", [True, False])
def test_a_network_made_from_arrays_has_the_same_bits(supervised):
    network = network_for(CORPUS, supervised=supervised)
    copy = network_from_arrays(network.arrays())
    assert type(copy) is type(network)
    assert parameter_bits(copy) == parameter_bits(network)
    assert copy.arrays().tree.leaf_of_word_K.tolist() == network.output.tree.leaf_of_word_K.tolist()


def test_arrays_are_checked():
    network = network_for(CORPUS).arrays()
    parameters = network.parameters
    with pytest.raises(InvalidArgument, match="tree"):
        NetworkArrays(network.config, parameters, None)
    with pytest.raises(InvalidArgument, match="its arrays are"):
        NetworkArrays(network.config, {**parameters, "other": np.zeros(1)}, network.tree)
    for name, array in parameters.items():
        with pytest.raises(InvalidArgument, match=name):
            NetworkArrays(network.config, {**parameters, name: array[:-1]}, network.tree)
        wide = {**parameters, name: array.astype(np.float64)}
        with pytest.raises(InvalidArgument, match=f"{name} must be float32"):
            NetworkArrays(network.config, wide, network.tree)


def test_global_features_as_in_the_network():
    _, corpus = scene_corpus(30, n_visual_words=20, mean_length=12, n_global_features=5)
    network = network_for(corpus)
    with torch.no_grad():
        network.global_weight.normal_(0, 0.5, generator=torch.Generator().manual_seed(0))
    arrays, features = network.arrays(), corpus.global_features_BF
    hidden = topic_features(arrays, COUNTS, features)
    batch = next(iter(ordered_batches(corpus.without_annotations(), 30, 0, 0)))
    expected = torch.relu(network.summary(batch)).detach()
    np.testing.assert_allclose(hidden, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(topic_features(arrays, COUNTS[[7]], features[[7]]), hidden[[7]])
    assert parameter_bits(network_from_arrays(arrays)) == parameter_bits(network)
    with pytest.raises(InvalidArgument, match=r"must have shape \(30, 5\), got None"):
        topic_features(arrays, COUNTS)
    with pytest.raises(InvalidArgument, match="must be None for this network"):
        topic_features(network_for(CORPUS).arrays(), COUNTS, features)


def test_logistic_outputs_as_in_the_network():
    _, corpus = scene_corpus(30, n_visual_words=20, mean_length=12, annotations_are_words=False)
    network = network_for(corpus)
    with torch.no_grad():
        network.tag_weight.normal_(0, 2, generator=torch.Generator().manual_seed(0))
    arrays, batch = network.arrays(), next(iter(ordered_batches(corpus, 30, 0, 0)))
    hidden = topic_features(arrays, COUNTS)
    for normalize in (False, True):
        actual = annotation_log_proba(arrays, hidden, normalize=normalize)
        expected = logsigmoid(network.tag_logits(network.summary(batch))).detach()
        if normalize:
            expected = expected - expected.logsumexp(dim=1, keepdim=True)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(
        annotation_log_proba(arrays, hidden[[7]], normalize=True), actual[[7]]
    )
    proba = np.exp(annotation_log_proba(arrays, hidden))
    odds = np.log(proba / (1 - proba))
    np.testing.assert_allclose(annotation_log_odds(arrays, hidden), odds, atol=1e-10)
    assert parameter_bits(network_from_arrays(arrays)) == parameter_bits(network)
