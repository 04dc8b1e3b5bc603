import numpy as np
import pytest
import torch
from tests.planted_corpus import network_for, randomize
from torch.nn.functional import logsigmoid

from supdocnade.corpus import Documents
from supdocnade.seeding import kept_features
from supdocnade.training.objective import (
    batch_loss,
    drop_features,
    epoch_batches,
    make_batch,
    ordered_batches,
)

pytestmark = pytest.mark.usefixtures("one_process_on_a_cpu")
CORPUS = Documents.from_counts(
    [[2, 0.5, 0], [0, 0, 1], [1, 1, 1]],
    annotations=[[1], [0], [2]],
    labels=[0, -1, 1],
    n_classes=2,
    document_weight=[1, 2, 3],
)


def test_a_batch_by_hand():
    order = np.array([4, 3, 2, 1, 0, 8, 7, 6, 5])
    batch = make_batch(CORPUS, np.array([2, 0]), order, annotation_weight=10.0, n_summary_words=3)
    assert batch.word_ids_N.tolist() == [3, 3, 2, 1, 0, 3, 1, 0, 0]
    assert batch.offsets_B1.tolist() == [0, 5, 9]
    assert batch.input_weight_N.tolist() == [1, 1, 1, 1, 1, 1, 0.5, 1, 1]
    assert batch.loss_weight_N.tolist() == [10, 10, 1, 1, 1, 10, 0.5, 1, 1]
    assert batch.n_summary_words == 3
    assert batch.label_B.tolist() == [1, 0]
    assert batch.weight_B.tolist() == [3, 1]
    assert batch.n_documents == 2


def test_an_epoch_is_a_partition_and_no_two_epochs_are_alike():
    first, second = (epoch_batches(10, 4, seed=1, epoch=e) for e in (0, 1))
    assert [len(part) for part in first] == [4, 4, 2]
    assert sorted(np.concatenate(first)) == list(range(10))
    assert np.concatenate(first).tolist() != np.concatenate(second).tolist()


def test_evaluation_uses_the_same_order_in_any_batch_size():
    def tokens(size):
        return torch.cat([b.word_ids_N for b in ordered_batches(CORPUS, size, 5, 2)])

    assert torch.equal(tokens(1), tokens(3))
    counts = [np.bincount(tokens(2)[:4], minlength=4), np.bincount(tokens(2)[5:], minlength=4)]
    assert [c.tolist() for c in counts] == [[2, 1, 0, 1], [1, 1, 1, 2]]


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_weights_are_absent_where_all_are_one(weight):
    corpus = Documents.from_counts([[1, 1]], annotations=[[1]] if weight != 1 else None)
    batch = make_batch(corpus, np.array([0]), np.arange(len(corpus.tokens.ids_N)),
                       annotation_weight=weight)  # fmt: skip
    assert batch.input_weight_N is None
    assert (batch.loss_weight_N is None) == (weight == 1.0)


def test_dropout_of_global_features():
    features = np.random.default_rng(0).normal(size=(40, 50)).astype(np.float32)
    corpus = Documents.from_counts(np.ones((40, 1)), global_features=features)
    rows = np.arange(39, -1, -1)
    batch = make_batch(corpus, rows, np.arange(40))
    np.testing.assert_array_equal(batch.global_features_BF, features[rows])
    dropped = drop_features(batch, 0.75, 5, 1, rows).global_features_BF.numpy()
    kept = kept_features(5, 1, rows, 50, 0.75)
    np.testing.assert_array_equal(dropped, np.where(kept, 4 * features[rows], 0))
    assert kept.mean() == pytest.approx(0.25, abs=0.03)
    # A document has its own features in each epoch, whatever its batch.
    np.testing.assert_array_equal(kept_features(5, 1, rows[:3], 50, 0.75), kept[:3])
    assert not np.array_equal(kept_features(5, 2, rows, 50, 0.75), kept)
    assert drop_features(batch, 0.0, 5, 1, rows) is batch


COUNTS = [[2, 0, 1], [0, 3, 0], [1, 1, 1]]
TAGS = [[1, 0], [0, 1], [0, 0]]


def make_corpus(labels, **options):
    return Documents.from_counts(COUNTS, annotations=TAGS, labels=labels, n_classes=2, **options)


def whole_batch(corpus, network, annotation_weight=1.0):
    return make_batch(
        corpus,
        np.arange(3),
        np.arange(len(corpus.tokens.ids_N)),
        annotation_weight=annotation_weight,
        n_summary_words=network.n_summary_words,
    )


@pytest.mark.parametrize("class_input", ["visual", "all"])
@pytest.mark.parametrize("generative_weight", [0.0, 0.3])
def test_the_hybrid_objective_by_its_definition(class_input, generative_weight):
    corpus = make_corpus([0, -1, 1], document_weight=[1, 1, 2])
    network = randomize(network_for(corpus, class_input=class_input))
    batch = whole_batch(corpus, network, annotation_weight=5.0)
    loss = batch_loss(network, batch, generative_weight, torch.tensor([1.0, 3.0]))

    W, c, (nodes, signs) = network.word_embedding, network.hidden_bias, network.output.tree.paths
    expected = torch.zeros(())
    for d, (start, stop) in enumerate([(0, 4), (4, 8), (8, 11)]):
        words = corpus.tokens.ids_N[start:stop].tolist()
        a = c
        document = torch.zeros(())
        for word in words:
            path = signs[word] != 0
            used = torch.from_numpy(nodes[word][path]).long()
            logits = network.node_bias[used] + network.node_weight[used] @ torch.relu(a)
            log_p = logsigmoid(torch.from_numpy(signs[word][path]) * logits).sum()
            document = document - generative_weight * (5.0 if word >= 3 else 1.0) * log_p
            a = a + W[word]
        used = words if class_input == "all" else [word for word in words if word < 3]
        hidden = torch.relu(c + W[used].sum(dim=0))
        log_p_class = torch.log_softmax(network.label_bias + network.label_weight @ hidden, dim=0)
        if d != 1:  # The second document has no label, hence no class term.
            document = document - [1.0, None, 3.0][d] * log_p_class[[0, None, 1][d]]
        expected = expected + [1, 1, 2][d] * document / 3
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize(
    ("output", "activation", "generative_weight"),
    [
        ("tree", "relu", 0.3),
        ("tree", "sigmoid", 0.0),
        ("softmax", "tanh", 0.3),
        ("softmax", "sigmoid", 0.3),
    ],
)
def test_all_gradients_against_finite_differences(output, activation, generative_weight):
    corpus = make_corpus([0, -1, 1], document_weight=[1, 1, 2])
    network = randomize(
        network_for(corpus, output=output, activation=activation, n_topics=3)
    ).double()
    batch = whole_batch(corpus, network, annotation_weight=5.0)
    names = [name for name, _ in network.named_parameters()]
    if generative_weight == 0:
        names = [name for name in names if not name.startswith("node")]
    assert len(names) == (6 if generative_weight else 4)
    check_gradients(network, batch, generative_weight, names)


def check_gradients(network, batch, generative_weight, names):
    """Compare the gradients of the objective by some parameters with finite differences."""

    def loss(*values):
        given = {f"network.{name}": value for name, value in zip(names, values, strict=True)}
        return torch.func.functional_call(Loss(network, batch, generative_weight), given, ())

    values = tuple(network.get_parameter(name).detach().requires_grad_() for name in names)
    assert torch.autograd.gradcheck(loss, values)


class Loss(torch.nn.Module):
    """The objective as a module, so that its parameters can be replaced."""

    def __init__(self, network, batch, generative_weight):
        super().__init__()
        self.network, self.batch, self.generative_weight = network, batch, generative_weight

    def forward(self):
        return batch_loss(self.network, self.batch, self.generative_weight)


def test_a_network_without_classes_has_the_generative_term_alone():
    corpus = make_corpus([0, 1, 1])
    network = network_for(corpus, supervised=False)
    batch = whole_batch(corpus, network)
    expected = network.terms(batch).nll_B.mean()
    torch.testing.assert_close(batch_loss(network, batch, 1.0), expected)


def test_without_labels_no_gradient_reaches_the_class_head():
    corpus = make_corpus([-1, -1, -1])
    network = randomize(network_for(corpus))
    batch_loss(network, whole_batch(corpus, network), 0.1).backward()
    assert not network.label_weight.grad.any()
    assert network.node_weight.grad.any()


def logistic_case(**options):
    corpus = make_corpus(
        [0, -1, 1],
        document_weight=[1, 1, 2],
        annotation_mask=[True, True, False],
        annotations_are_words=False,
    )
    network = randomize(network_for(corpus, n_topics=3, **options)).double()
    return network, whole_batch(corpus, network)


@pytest.mark.parametrize(
    ("supervised", "generative_weight"), [(True, 0.0), (True, 0.3), (False, 1.0)]
)
def test_the_term_of_annotations_that_are_no_words(supervised, generative_weight):
    network, batch = logistic_case(supervised=supervised)
    without = batch_loss(network, batch, generative_weight, annotation_weight=0.0)
    loss = batch_loss(network, batch, generative_weight, annotation_weight=5.0)
    p_BA = network.tag_logits(network.summary(batch)).sigmoid()
    # The tags of the third document are unknown.
    right = [p_BA[0, 0], 1 - p_BA[0, 1], 1 - p_BA[1, 0], p_BA[1, 1]]
    expected = -5.0 * torch.stack(right).log().sum() / 3
    torch.testing.assert_close(loss - without, expected)


def test_gradients_of_logistic_outputs_against_finite_differences():
    network, batch = logistic_case(activation="tanh")
    names = [name for name, _ in network.named_parameters()]
    assert {"tag_weight", "tag_bias"} <= set(names)
    check_gradients(network, batch, 0.3, names)


@pytest.mark.parametrize("generative_weight", [0.0, 0.3])
def test_several_labels_by_their_definition(generative_weight):
    labels = [[1, 0], [-1, -1], [-1, 1]]
    corpus = make_corpus(labels, document_weight=[1, 1, 2])
    network = randomize(network_for(corpus))
    batch = whole_batch(corpus, network)
    loss = batch_loss(network, batch, generative_weight, torch.tensor([5.0, 3.0]))
    words = batch_loss(network, batch, generative_weight, torch.zeros(2))
    logits = network.class_logits(network.summary(batch))
    absent, present = -logsigmoid(-logits)[0, 1], -logsigmoid(logits)
    # The weight multiplies the labels that are present; words and absent labels have weight 1.
    expected = words + (5 * present[0, 0] + 2 * 3 * present[2, 1]) / 3
    torch.testing.assert_close(loss, expected)
    if generative_weight == 0:
        torch.testing.assert_close(words, absent / 3)
