import itertools
import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from supdocnade.errors import BackendUnavailable, InvalidArgument
from supdocnade.likelihood import bags
from supdocnade.likelihood.contract import DocumentBatch, activate
from supdocnade.likelihood.cpu import bag_counts
from supdocnade.model import layers
from supdocnade.model.config import DocNADEConfig, SupDocNADEConfig, check_layers
from supdocnade.model.network import DocNADENetwork, SupDocNADENetwork, random_tree
from supdocnade.model.outputs import WordOutput

OUTPUTS = ["tree", "softmax"]


class OwnOutput(WordOutput):
    def log_prob(self, hidden_BH, parameters, words):
        logits_BK = hidden_BH @ parameters.node_weight_TH.T + parameters.node_bias_T
        return torch.log_softmax(logits_BK, dim=1)[:, words]


def make_network(output="tree", activation="tanh", *, seed=0, spread=0.5, **options):
    shape = {"n_visual_words": 5, "n_annotation_words": 2, "n_topics": (4, 3, 5), **options}
    config = SupDocNADEConfig(**shape, output=output, activation=activation, n_classes=3)
    network = SupDocNADENetwork(config, random_tree(config, seed)).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, spread, generator=generator)
    return network


def make_batch(documents, *, given=None, **options):
    flat = torch.tensor([word for document in documents for word in document], dtype=torch.int32)
    lengths = torch.tensor([0] + [len(document) for document in documents])
    if given is not None:
        options["given_N"] = torch.tensor([each for one in given for each in one])
    return DocumentBatch(flat, lengths.cumsum(0), **options)


def draw_batch(lengths, n_words, seed=0, **options):
    """Return documents with weights and split points, where some words follow each split."""
    rng = np.random.default_rng(seed)
    documents = [rng.integers(0, n_words, length).tolist() for length in lengths]
    given = [(rng.permutation(n) < rng.integers(n)).tolist() if n else [] for n in lengths]
    n_tokens = sum(lengths)
    return make_batch(
        documents,
        given=given,
        input_weight_N=torch.from_numpy(rng.uniform(0.5, 1, n_tokens)),
        loss_weight_N=torch.from_numpy(rng.uniform(0, 2, n_tokens)),
        **options,
    )


def run_loops(network, batch):
    """Return the objective and the summaries of `layers`, one document and word at a time."""
    W_KH, activation = network.word_embedding, network.config.activation
    c_BH = network.document_bias(batch).expand(batch.n_documents, -1)
    limit = len(W_KH) if batch.n_summary_words is None else batch.n_summary_words
    words_K = torch.arange(len(W_KH))

    def top(a_H):
        for weight, bias in network.upper_layers:
            a_H = bias + weight @ activate(activation, a_H)
        return a_H

    costs, summaries = [], []
    for c_H, (start, stop) in zip(c_BH, pairwise(batch.offsets_B1.tolist()), strict=True):
        before_H = summary_H = c_H
        cost, n_after = c_H.new_zeros(()), 0
        for i in range(start, stop):
            term = batch.input_weight_N[i] * W_KH[batch.word_ids_N[i].long()]
            before_H = before_H + term * batch.given_N[i]
            summary_H = summary_H + term * (batch.word_ids_N[i] < limit)
        hidden_1H = activate(activation, top(before_H))[None]
        log_p_K = network.output.log_prob(hidden_1H, network.weights, words_K)[0]
        for i in range(start, stop):
            if not batch.given_N[i]:
                cost = cost - batch.loss_weight_N[i] * log_p_K[batch.word_ids_N[i].long()]
                n_after += 1
        costs.append(cost * (stop - start) / max(n_after, 1))
        summaries.append(top(summary_H))
    return torch.stack(costs), torch.stack(summaries)


def gradients(network, loss):
    network.zero_grad()
    loss.backward()
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.to_dense().clone()
        for name, p in network.named_parameters()
    }


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("lengths", [[3, 0, 2, 1], [60, 40, 70]])
@pytest.mark.parametrize("output", [*OUTPUTS, OwnOutput])
def test_objective_and_gradients_are_those_of_loops(output, lengths, sparse, monkeypatch):
    if sparse:
        monkeypatch.setattr("supdocnade.likelihood.contract.SPARSE_ROWS", 4)
    network = make_network(output, n_visual_words=9, n_global_features=2)
    features = torch.tensor(np.random.default_rng(1).normal(size=(len(lengths), 2)))
    batch = draw_batch(lengths, 11, n_summary_words=9, global_features_BF=features)
    terms, (costs, summaries) = network.terms(batch), run_loops(network, batch)
    torch.testing.assert_close(terms.nll_B, costs)
    torch.testing.assert_close(terms.summary_BH, summaries)
    factor = torch.arange(1.0, 1 + len(lengths), dtype=torch.float64)
    actual = gradients(network, factor @ terms.nll_B + terms.summary_BH.sin().sum())
    expected = gradients(network, factor @ costs + summaries.sin().sum())
    for name, gradient in expected.items():
        torch.testing.assert_close(actual[name], gradient, msg=name)


@pytest.mark.parametrize("output", OUTPUTS)
def test_large_vocabularies_have_gradients_of_touched_rows(output, monkeypatch):
    monkeypatch.setattr("supdocnade.likelihood.contract.SPARSE_ROWS", 20)
    network = make_network(output, n_visual_words=60)
    network.terms(draw_batch([3, 2], 62)).nll_B.sum().backward()
    rows = network.word_embedding.grad._indices()[0]
    assert network.word_embedding.grad.is_sparse
    assert len(rows) <= 5
    assert (rows.diff() > 0).all()
    assert network.node_weight.grad.is_sparse == (output == "tree")


@pytest.mark.parametrize("length", [3, 400])
def test_rows_that_no_document_needs_have_no_gradient(length, monkeypatch):
    # RowAdam would move a row whose gradient is zero by its first moment.
    monkeypatch.setattr("supdocnade.likelihood.contract.SPARSE_ROWS", 20)
    config = DocNADEConfig(n_visual_words=60, n_topics=(4, 3))
    network = DocNADENetwork(config, random_tree(config, 0)).double()
    batch = draw_batch([length, 2], 30)
    network.terms(batch).nll_B.sum().backward()
    before, after = (
        np.unique(batch.word_ids_N[mask].numpy()) for mask in (batch.given_N, ~batch.given_N)
    )
    np.testing.assert_array_equal(network.word_embedding.grad._indices()[0], before)
    nodes, signs = network.output.tree.paths
    on_path = np.unique(nodes[after][signs[after] != 0])
    found = network.node_weight.grad._indices()[0].numpy()
    assert set(on_path) <= set(found) <= {0, *on_path}  # Node 0 pads the paths.


@pytest.mark.parametrize("output", OUTPUTS)
def test_gradients_agree_with_finite_differences(output):
    network = make_network(output)
    batch = draw_batch([4, 3], 7)
    names = [name for name, _ in network.named_parameters()]

    def objective(*values):
        parameters = dict(zip(names, values, strict=True))
        terms = torch.func.functional_call(network, parameters, (batch,))
        return terms.nll_B.sum() + terms.summary_BH.sin().sum()

    network.forward = network.terms
    values = [p.detach().clone().requires_grad_() for p in network.parameters()]
    assert torch.autograd.gradcheck(objective, values)


@pytest.mark.parametrize("output", OUTPUTS)
def test_mean_of_split_gradients_is_the_gradient_of_the_full_likelihood(output):
    # All orders and split points of documents with repeated words and two weights per word.
    network = make_network(output)
    rng = np.random.default_rng(3)
    for document in ([0, 3, 3, 6], [5, 1], [2]):
        length = len(document)
        weight = {
            name: torch.from_numpy(rng.uniform(0.5, 1.5, length))
            for name in ("input_weight_N", "loss_weight_N")
        }
        full = split = 0.0
        for order in itertools.permutations(range(length)):
            words = [[document[place] for place in order]]
            weights = {name: value[list(order)] for name, value in weight.items()}
            full = full + network.terms(make_batch(words, **weights)).nll_B.sum()
            for point in range(length):
                given = [[place < point for place in range(length)]]
                batch = make_batch(words, given=given, **weights)
                split = split + network.terms(batch).nll_B.sum() / length
        n_orders = math.factorial(length)
        torch.testing.assert_close(split, full)
        expected = gradients(network, full / n_orders)
        actual = gradients(network, split / n_orders)
        for name, gradient in expected.items():
            torch.testing.assert_close(actual[name], gradient, msg=name)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("step", [1, 2, 5, 100])
def test_exact_likelihood_is_the_product_of_conditionals(output, step, monkeypatch):
    monkeypatch.setattr(layers, "MAX_ACTIVATIONS", 5 * step)
    monkeypatch.setattr("supdocnade.model.outputs.MAX_DECISIONS", 40)
    network = make_network(output)
    documents = [[], [0, 6, 6, 2, 2, 2, 1], [3], [], [5, 4, 0, 1]]
    rng = np.random.default_rng(0)
    weights = [rng.uniform(0.5, 1, len(document)) for document in documents]
    expected = []
    for document, weight in zip(documents, weights, strict=True):
        total = 0.0
        for place, word in enumerate(document):
            prefix = make_batch([document[:place]], input_weight_N=torch.from_numpy(weight[:place]))
            total += weight[place] * float(network.word_log_prob(prefix).detach()[0, word])
        expected.append(total)
    weight_N = torch.from_numpy(np.concatenate(weights))
    batch = make_batch(documents, input_weight_N=weight_N, loss_weight_N=weight_N)
    assert network.log_prob(batch).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("length", [1, 2, 3])
def test_probabilities_of_all_documents_sum_to_one(output, length):
    network = make_network(output, n_visual_words=4, n_annotation_words=1)
    every = list(itertools.product(range(5), repeat=length))
    assert float(network.log_prob(make_batch(every)).detach().exp().sum()) == pytest.approx(1)
    context = make_batch([[0, 4, 4]])
    assert float(network.word_log_prob(context).detach().exp().sum()) == pytest.approx(1)


def test_drawn_documents_have_the_probabilities_of_the_network():
    network = make_network(n_visual_words=3, n_annotation_words=0, spread=1.0)
    drawn = network.sample(np.full(4000, 2), np.random.default_rng(0)).toarray()
    pairs = list(itertools.product(range(3), repeat=2))
    p = network.log_prob(make_batch(pairs)).detach().exp().numpy()
    for bag in {tuple(sorted(pair)) for pair in pairs}:
        expected = sum(q for q, pair in zip(p, pairs, strict=True) if tuple(sorted(pair)) == bag)
        share = (drawn == np.bincount(bag, minlength=3)).all(axis=1).mean()
        assert share == pytest.approx(expected, abs=5 * np.sqrt(expected / 4000))


def test_class_and_words_are_predicted_from_the_top_layer():
    network = make_network("softmax", activation="sigmoid")
    batch = make_batch([[0, 2]])
    hidden = network.hidden_bias + network.word_embedding[0] + network.word_embedding[2]
    hidden = hidden.sigmoid()
    for weight, bias in network.upper_layers:
        hidden = (bias + weight @ hidden).sigmoid()
    torch.testing.assert_close(network.representation(batch)[0], hidden)
    logits = network.label_bias + network.label_weight @ hidden
    torch.testing.assert_close(network.class_log_prob(batch)[0], logits.log_softmax(0))
    logits = network.node_bias + network.node_weight @ hidden
    torch.testing.assert_close(network.word_log_prob(batch)[0], logits.log_softmax(0))


def test_summaries_are_left_out_where_nothing_is_predicted_from_them():
    config = DocNADEConfig(n_visual_words=5, n_topics=(4, 3))
    network = DocNADENetwork(config, random_tree(config, 0)).double()
    terms = network.terms(draw_batch([3, 2], 5))
    assert terms.summary_BH.shape == (0, 3)
    assert network.terms(make_batch([[0], [1]])).summary_BH.shape == (2, 3)


def test_one_layer_in_a_tuple_is_a_number():
    assert DocNADEConfig(n_visual_words=5, n_topics=(7,)) == DocNADEConfig(
        n_visual_words=5, n_topics=7
    )
    config = DocNADEConfig(n_visual_words=5, n_topics=[np.int64(7), 3])
    assert config.n_topics == config.layer_sizes == (7, 3)
    network = DocNADENetwork(DocNADEConfig(n_visual_words=5, n_topics=7), random_tree(config, 0))
    assert [name for name, _ in network.named_parameters()] == [
        "word_embedding", "hidden_bias", "node_weight", "node_bias",
    ]  # fmt: skip


@pytest.mark.parametrize("sizes", [(), (5, 0), (5, 2.5), (3,) * 17, "55", (5, True)])
def test_invalid_layers_raise(sizes):
    with pytest.raises(InvalidArgument, match="n_topics must be a"):
        check_layers(sizes)


@pytest.mark.parametrize("backend", ["cpu", "cuda", "reference", "fast"])
def test_other_backends_are_refused(backend):
    network = make_network()
    network.backend = backend
    with pytest.raises(BackendUnavailable, match="several hidden layers"):
        network.terms(make_batch([[0]]))


def test_words_out_of_range_are_refused():
    with pytest.raises(InvalidArgument, match="word_ids must lie in"):
        make_network().terms(make_batch([[0, 7]], given=[[True, False]]))


def test_initial_activations_keep_their_size():
    config = DocNADEConfig(n_visual_words=50, n_topics=(400, 300, 200), init_scale=0.1)
    network = DocNADENetwork(config, random_tree(config, 0))
    network.initialize(np.ones(50), 0)
    words = np.random.default_rng(0).integers(0, 50, (40, 30)).tolist()
    first = make_batch(words)
    bottom = network.word_embedding[torch.tensor(words)].sum(dim=1)
    ratio = float((network.summary(first).std() / bottom.std()).detach())
    assert ratio == pytest.approx(1, rel=0.3)


def test_sums_of_rounded_weights_are_exact_in_any_order():
    rng = np.random.default_rng(0)
    weight_N = torch.from_numpy(rng.uniform(0, 3e-4, 10_000))
    bag = bags.WordBag(torch.from_numpy(rng.integers(0, 3, 10_000)), weight_N, weight_N, 3)
    rounded_N = bag._round_weights(weight_N)
    torch.testing.assert_close(rounded_N, weight_N, rtol=0, atol=3e-4 / 2**29)
    order = torch.from_numpy(rng.permutation(10_000))
    assert float(rounded_N[order].cumsum(0)[-1]) == float(rounded_N.cumsum(0)[-1])
    assert float(weight_N[order].cumsum(0)[-1]) != float(weight_N.cumsum(0)[-1])


def test_node_weights_are_those_of_the_words_below():
    config = DocNADEConfig(n_visual_words=11, n_topics=2)
    tree = random_tree(config, 0)
    weight_BK = torch.from_numpy(np.random.default_rng(0).uniform(0, 2, (3, 11)))
    below, right = bag_counts.sum_node_weights(weight_BK, tree, torch.float64)
    nodes, signs = tree.paths
    for node in range(tree.n_nodes):
        on_path = (nodes == node) & (signs != 0)
        to_right = on_path & (signs > 0)
        words, right_words = on_path.any(axis=1), to_right.any(axis=1)
        torch.testing.assert_close(below[:, node], weight_BK[:, words].sum(dim=1))
        torch.testing.assert_close(right[:, node], weight_BK[:, right_words].sum(dim=1))
