import copy
import itertools

import numpy as np
import pytest
import torch
from scipy import sparse
from tests.likelihood_problems import batch_of
from torch.nn.functional import linear, log_softmax

from supdocnade.corpus import Documents
from supdocnade.errors import InvalidArgument
from supdocnade.model.config import DocNADEConfig, SupDocNADEConfig
from supdocnade.model.inference import (
    annotation_log_proba,
    class_log_proba,
    sample_documents,
    topic_features,
    word_log_proba,
)
from supdocnade.model.network import (
    DocNADENetwork,
    SupDocNADENetwork,
    WordOutput,
    random_tree,
)
from supdocnade.tree import WordTree

OUTPUTS = ["tree", "softmax"]


def make_network(output="tree", activation="relu", *, seed=0, **options):
    shape = {"n_visual_words": 5, "n_annotation_words": 3, "n_topics": 4, **options}
    config = SupDocNADEConfig(**shape, output=output, activation=activation, n_classes=3)
    network = SupDocNADENetwork(config, random_tree(config, seed)).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.5, generator=generator)
    return network


PRESENT = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0]])


def four_documents(**options):
    """Four documents without words."""
    return Documents.from_counts(np.zeros((4, 5)), n_classes=3, **options)


def arrays_and_topics(network, documents, features=None):
    """Return the arrays of a network, and the topic features of documents by them."""
    arrays = copy.deepcopy(network).float().arrays()
    n_words = network.config.n_words
    counts = [np.bincount(np.array(words, int), minlength=n_words) for words in documents]
    return arrays, topic_features(arrays, sparse.csr_array(counts), features)


@pytest.mark.parametrize("output", OUTPUTS)
def test_next_word_probabilities_are_the_conditionals_of_the_likelihood(output):
    network = make_network(output)
    context = [0, 4, 4]
    next_log_p = word_log_proba(*arrays_and_topics(network, [context]), np.arange(8))[0]
    longer = network.log_prob(batch_of([[*context, word] for word in range(8)]))
    expected = (longer - network.log_prob(batch_of([context]))).detach()
    np.testing.assert_allclose(next_log_p, expected, rtol=1e-6)
    assert np.exp(next_log_p).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("output", OUTPUTS)
def test_annotation_probabilities(output):
    arrays, hidden = arrays_and_topics(make_network(output), [[0, 1], [], [4, 4, 4]])
    raw = annotation_log_proba(arrays, hidden)
    np.testing.assert_array_equal(raw, word_log_proba(arrays, hidden, np.arange(8))[:, 5:])
    normalised = annotation_log_proba(arrays, hidden, normalize=True)
    np.testing.assert_allclose(np.exp(normalised).sum(axis=1), 1)
    np.testing.assert_allclose((normalised - raw).std(axis=1), 0, atol=1e-12)


@pytest.mark.parametrize("output", OUTPUTS)
def test_drawn_documents_have_the_probabilities_of_the_network(output):
    network = make_network(output, n_visual_words=3, n_annotation_words=0)
    generator = np.random.default_rng(0)
    arrays = copy.deepcopy(network).float().arrays()
    drawn = sample_documents(arrays, np.full(4000, 2), generator).toarray()
    pairs = list(itertools.product(range(3), repeat=2))
    p = network.log_prob(batch_of(pairs)).detach().exp().numpy()
    # Six bags of two words, whatever their order; five standard deviations at most.
    for bag in {tuple(sorted(pair)) for pair in pairs}:
        expected = sum(q for q, pair in zip(p, pairs, strict=True) if tuple(sorted(pair)) == bag)
        share = (drawn == np.bincount(bag, minlength=3)).all(axis=1).mean()
        assert share == pytest.approx(expected, abs=5 * np.sqrt(expected / 4000))


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("length", [1, 2, 3])
def test_all_documents_of_a_length_together_have_probability_one(output, length):
    network = make_network(output, n_annotation_words=0)
    batch = batch_of(list(itertools.product(range(5), repeat=length)))
    assert float(network.log_prob(batch).detach().exp().sum()) == pytest.approx(1.0)


def test_several_labels_have_logistic_outputs():
    network = make_network(class_output="sigmoid")
    documents = [[0, 4, 4], []]
    expected = network.class_logits(network.summary(batch_of(documents))).sigmoid().detach()
    proba = np.exp(class_log_proba(*arrays_and_topics(network, documents)))
    np.testing.assert_allclose(proba, expected, rtol=1e-6)
    network.initialize(four_documents(annotations=0 * PRESENT, labels=PRESENT), 0)
    frequency = np.exp(class_log_proba(*arrays_and_topics(network, documents)))
    np.testing.assert_allclose(frequency[1], [0.1, 0.3, 0.7], rtol=1e-6)
    with pytest.raises(InvalidArgument, match="class_output must be one of 'softmax', 'sigmoid'"):
        make_network(class_output="words")


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_the_representation_is_the_summary_of_the_likelihood(output, activation):
    network = make_network(output, activation)
    batch = batch_of([[0, 1, 6], [], [4]], n_summary_words=5)
    terms = network.terms(batch)
    torch.testing.assert_close(network.summary(batch), terms.summary_BH)
    W, c = network.word_embedding, network.hidden_bias
    expected = torch.stack([c + W[0] + W[1], c, c + W[4]])
    torch.testing.assert_close(network.summary(batch), expected)
    weighted = batch._replace(input_weight_N=torch.tensor([0.5, 1, 1, 1], dtype=torch.float64))
    torch.testing.assert_close(network.summary(weighted)[0], c + 0.5 * W[0] + W[1])


def test_class_probabilities():
    network = make_network()
    log_p = class_log_proba(*arrays_and_topics(network, [[0, 1], []]))
    h = torch.relu(network.hidden_bias)
    expected = torch.log_softmax(network.label_bias + network.label_weight @ h, dim=0)
    np.testing.assert_allclose(log_p[1], expected.detach(), rtol=1e-6)


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_fresh_network_is_the_unigram_and_the_class_prior(output):
    config = SupDocNADEConfig(
        n_visual_words=20, n_topics=6, n_classes=3, output=output, init_scale=0
    )
    network = SupDocNADENetwork(config, random_tree(config, 1))
    counts = np.random.default_rng(0).integers(0, 9, 20).astype(float)
    bags, labels = np.vstack([counts, np.zeros((9, 20))]), np.repeat([0, 1, 2], [1, 2, 7])
    network.initialize(Documents.from_counts(bags, labels=labels, n_classes=3), seed=1)
    arrays, hidden = arrays_and_topics(network, [[], [3, 3]])
    unigram = np.log((counts + 0.5) / (counts + 0.5).sum())
    prior = np.log((np.array([1, 2, 7]) + 0.5) / 11.5)
    for row in range(2):
        words = word_log_proba(arrays, hidden, np.arange(20))[row]
        np.testing.assert_allclose(words, unigram, rtol=1e-5)
        np.testing.assert_allclose(class_log_proba(arrays, hidden)[row], prior, rtol=1e-5)


def test_initial_weights_follow_from_the_seed():
    networks = []
    for seed in (3, 3, 4):
        config = DocNADEConfig(n_visual_words=9, n_topics=5)
        networks.append(DocNADENetwork(config, random_tree(config, seed)))
        networks[-1].initialize(Documents.from_counts(np.ones((1, 9))), seed)
    same, other = networks[1], networks[2]
    assert torch.equal(networks[0].word_embedding, same.word_embedding)
    assert not torch.equal(networks[0].word_embedding, other.word_embedding)
    assert 0.005 < float(same.word_embedding.detach().std()) < 0.02


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output": "tee"}, "output must be one of 'tree', 'softmax', got 'tee'"),
        ({"activation": "gelu"}, "activation must be one of"),
        ({"n_classes": 0}, "n_classes must be a whole number of at least 1, got 0"),
        (
            {"annotation_output": "sigmoid", "class_input": "all"},
            "class_input must be 'visual' with",
        ),
    ],
)
def test_wrong_settings_are_refused(change, message):
    with pytest.raises(InvalidArgument, match=message):
        SupDocNADEConfig(**{"n_visual_words": 2, "n_classes": 2, **change})


def test_the_tree_must_fit_the_output():
    config = DocNADEConfig(n_visual_words=4)
    with pytest.raises(InvalidArgument, match="tree must have 4 words, got none"):
        DocNADENetwork(config)
    with pytest.raises(InvalidArgument, match="tree must have 4 words, got one of 3"):
        DocNADENetwork(config, WordTree(np.arange(3)))
    with pytest.raises(InvalidArgument, match="tree must be None"):
        DocNADENetwork(DocNADEConfig(n_visual_words=4, output="softmax"), WordTree(np.arange(4)))


@pytest.mark.parametrize("output", OUTPUTS)
def test_global_features_move_the_hidden_bias_of_a_document(output):
    network = make_network(output, n_global_features=2)
    features = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
    batch = batch_of([[0, 4, 1], [2, 2]], global_features_BF=features)
    plain = make_network(output)
    plain.load_state_dict(network.state_dict(), strict=False)
    _, hidden = arrays_and_topics(network, [[0, 4, 1], [2, 2]], features.numpy())
    for d, words in enumerate([[0, 4, 1], [2, 2]]):
        with torch.no_grad():
            moved = network.hidden_bias + network.global_weight @ features[d].double()
            plain.hidden_bias.copy_(moved)
        alone = batch_of([words])
        torch.testing.assert_close(network.log_prob(batch)[[d]], plain.log_prob(alone))
        summaries = network.summary(batch)[[d]], plain.summary(alone)
        torch.testing.assert_close(*summaries)
        expected = torch.relu(summaries[1]).detach()
        np.testing.assert_allclose(hidden[[d]], expected, rtol=1e-6, atol=1e-7)


def test_the_gradient_of_global_weights_against_finite_differences():
    network = make_network(activation="tanh", n_global_features=3)
    features = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3)))
    batch = batch_of([[0, 4, 1], [2, 2]], global_features_BF=features)

    def loss(global_weight, hidden_bias):
        parameters = {"global_weight": global_weight, "hidden_bias": hidden_bias}
        module = torch.nn.utils.stateless._reparametrize_module(network, parameters)
        with module:
            terms = network.terms(batch)
            return terms.nll_B, network.class_logits(terms.summary_BH)

    values = network.global_weight.detach(), network.hidden_bias.detach()
    assert torch.autograd.gradcheck(loss, tuple(value.requires_grad_() for value in values))


def test_global_features_must_be_those_of_the_network():
    with pytest.raises(InvalidArgument, match="batch must have 2 global features, got 0"):
        make_network(n_global_features=2).log_prob(batch_of([[0]]))
    with pytest.raises(InvalidArgument, match="batch must have 0 global features, got 3"):
        make_network().summary(batch_of([[0]], global_features_BF=torch.zeros(1, 3)))


def test_annotations_with_logistic_outputs():
    network = make_network(annotation_output="sigmoid")
    assert network.config.n_words == 5
    documents = [[0, 4, 4], []]
    expected = network.tag_logits(network.summary(batch_of(documents))).sigmoid().detach()
    arrays, hidden = arrays_and_topics(network, documents)
    raw = np.exp(annotation_log_proba(arrays, hidden))
    np.testing.assert_allclose(raw, expected, rtol=1e-6)
    shares = np.exp(annotation_log_proba(arrays, hidden, normalize=True))
    np.testing.assert_allclose(shares, raw / raw.sum(axis=1, keepdims=True))
    network.initialize(four_documents(annotations=PRESENT, annotations_are_words=False), 0)
    frequency = np.exp(annotation_log_proba(*arrays_and_topics(network, documents)))
    np.testing.assert_allclose(frequency[1], [0.1, 0.3, 0.7], rtol=1e-6)


class PlainSoftmax(WordOutput):
    """The softmax, by the methods that a user writes."""

    def log_prob(self, hidden_BH, parameters, words):
        logits = linear(hidden_BH, parameters.node_weight_TH, parameters.node_bias_T)
        return log_softmax(logits, dim=1)[:, words]


def test_likelihood_and_gradients_of_an_output_of_ones_own():
    results = []
    for output, activation in (("softmax", "tanh"), (PlainSoftmax, torch.tanh)):
        network = make_network(output, activation)
        documents = [[0, 4, 4, 6], [], [1], [7, 2, 0]]
        batch = batch_of(
            documents, loss_weight_N=torch.arange(1.0, 9.0).double(), n_summary_words=5
        )
        terms = network.terms(batch)
        (terms.nll_B.sum() + terms.summary_BH.sin().sum()).backward()
        results.append([terms.nll_B, terms.summary_BH, *(p.grad for p in network.weights)])
    for named, own in zip(*results, strict=True):
        torch.testing.assert_close(named, own, rtol=1e-4, atol=1e-5)


def test_inference_with_functions_is_that_of_the_network():
    network = make_network(PlainSoftmax, torch.nn.functional.softplus)
    documents = [[0, 2, 2], [], [1, 2, 4, 4, 4]]
    arrays, hidden = arrays_and_topics(network, documents)
    expected = torch.nn.functional.softplus(network.summary(batch_of(documents))).detach()
    np.testing.assert_allclose(hidden, expected, rtol=1e-5)
    log_p = network.output.log_prob(expected, network.weights, torch.arange(5, 8)).detach()
    tags = annotation_log_proba(arrays, hidden, normalize=True)
    np.testing.assert_allclose(tags, log_p - log_p.logsumexp(dim=1, keepdim=True), rtol=1e-5)


def test_the_number_of_rows_is_that_of_the_output():
    network = make_network(type("TwoRowsPerWord", (PlainSoftmax,), {"n_rows": 16}))
    assert network.node_weight.shape == (16, 4)
    assert network.float().arrays()["node_bias"].shape == (16,)


def test_other_outputs_are_refused():
    with pytest.raises(InvalidArgument, match="a WordOutput, got one that returns a list"):
        make_network(lambda n_words: [n_words])
    with pytest.raises(InvalidArgument, match="output must be one of"):
        make_network("sparsemax")
    with pytest.raises(NotImplementedError):
        make_network(WordOutput).log_prob(batch_of([[0]]))
