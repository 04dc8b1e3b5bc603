"""Output layers of one's own, against those that have kernels."""

import numpy as np
import pytest
import torch
from scipy import sparse
from tests.likelihood_problems import batch_of
from torch.nn.functional import linear, log_softmax

from supdocnade.corpus import Documents
from supdocnade.errors import InvalidArgument
from supdocnade.model.config import DocNADEConfig
from supdocnade.model.inference import annotation_log_proba, topic_features
from supdocnade.model.network import DocNADENetwork
from supdocnade.model.outputs import WordOutput

DOCUMENTS = [[0, 4, 4, 6], [], [1], [7, 2, 0]]


class PlainSoftmax(WordOutput):
    """The softmax, by the methods that a user writes."""

    def log_prob(self, hidden_BH, parameters, words):
        logits = linear(hidden_BH, parameters.node_weight_TH, parameters.node_bias_T)
        return log_softmax(logits, dim=1)[:, words]


def make_network(output, activation="relu"):
    shape = {"n_visual_words": 5, "n_annotation_words": 3, "n_topics": 4}
    network = DocNADENetwork(DocNADEConfig(**shape, output=output, activation=activation))
    network.initialize(Documents.from_counts([np.arange(8)]), 0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator))
    return network


def test_likelihood_and_gradients_of_a_softmax():
    results = []
    for output, activation in (("softmax", "tanh"), (PlainSoftmax, torch.tanh)):
        network = make_network(output, activation)
        batch = batch_of(DOCUMENTS, loss_weight_N=torch.arange(1.0, 9.0), n_summary_words=5)
        terms = network.terms(batch)
        (terms.nll_B.sum() + terms.summary_BH.sin().sum()).backward()
        results.append([terms.nll_B, terms.summary_BH, *(p.grad for p in network.parameters())])
    for named, own in zip(*results, strict=True):
        torch.testing.assert_close(named, own, rtol=1e-4, atol=1e-5)


def test_inference_in_numpy_is_that_of_the_network():
    network = make_network(PlainSoftmax, torch.nn.functional.softplus)
    counts = np.array([[1, 0, 2, 0, 0], [0, 0, 0, 0, 0], [0, 1, 1, 0, 3]])
    hidden = topic_features(network.arrays(), sparse.csr_array(counts))
    batch = batch_of([[0, 2, 2], [], [1, 2, 4, 4, 4]])
    expected = torch.nn.functional.softplus(network.summary(batch)).detach()
    torch.testing.assert_close(torch.from_numpy(hidden), expected)
    tags = annotation_log_proba(network.arrays(), hidden, normalize=True)
    log_p = network.output.log_prob(expected, network.weights, torch.arange(5, 8)).detach()
    expected = log_p - log_p.logsumexp(dim=1, keepdim=True)
    np.testing.assert_allclose(tags, expected, rtol=1e-5)


def test_the_number_of_rows_is_that_of_the_layer():
    class TwoRowsPerWord(PlainSoftmax):
        n_rows = 16

    network = DocNADENetwork(DocNADEConfig(n_visual_words=8, n_topics=2, output=TwoRowsPerWord))
    assert network.node_weight.shape == (16, 2)
    assert network.arrays()["node_bias"].shape == (16,)


def test_anything_else_is_refused():
    with pytest.raises(InvalidArgument, match="a WordOutput, got one that returns a list"):
        make_network(lambda n_words: [n_words])
    with pytest.raises(InvalidArgument, match="output must be one of"):
        make_network("sparsemax")
    with pytest.raises(NotImplementedError):
        make_network(WordOutput).log_prob(batch_of([[0]]))
