"""All backends compute the same function and the same gradients."""

import importlib.util

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.likelihood_problems import Problem, make_problem, outputs_and_gradients, relative_error

from supdocnade.likelihood.cpu import engine as cpu_engine
from supdocnade.likelihood.cpu import tree_walk

# float32 against float64: rounding errors of sums of some hundred terms.
FLOAT32 = 5e-6

pytestmark = pytest.mark.usefixtures("careful_interpreter")
KERNELS = ["cpu", *(["cuda"] if importlib.util.find_spec("triton") else [])]
OUTPUTS = ["tree", "softmax"]
ACTIVATIONS = ["relu", "tanh", "sigmoid"]


def evaluate(problem: Problem, activation: str, backend: str, *, uneven: bool = False):
    """Return the outputs and the gradients of a loss that uses both of them."""
    terms = problem.run(activation, backend)
    found = outputs_and_gradients(terms, problem, uneven=uneven)
    return [each.cpu() for each in found]


def in_float32(problem: Problem, backend: str) -> Problem:
    """Return a problem in float32 where a backend runs."""
    on_gpu = backend == "cuda" and torch.cuda.is_available()
    return problem.to(torch.float32, "cuda" if on_gpu else "cpu")


def assert_same(actual, expected, tolerance):
    names = ["nll", "summary", "W", "c", "V", "b"]
    for name, a, e in zip(names, actual, expected, strict=True):
        assert a.shape == e.shape, name
        assert relative_error(a, e) <= tolerance, name


def check_backends(problem, activation, uneven=False, backends=("cpu",)):
    expected = evaluate(problem, activation, "reference", uneven=uneven)
    assert_same(evaluate(problem, activation, "vectorized", uneven=uneven), expected, 1e-12)
    for backend in ("vectorized", *backends):
        single = in_float32(problem, backend)
        assert_same(evaluate(single, activation, backend, uneven=uneven), expected, FLOAT32)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("n_words", [2, 3, 5, 37, 64])
@pytest.mark.parametrize("uneven", [False, True])
def test_backends_agree(output, activation, n_words, uneven):
    problem = make_problem(
        [0, 1, 9, 0, 25], n_words, n_topics=7, output=output, n_summary_words=n_words - 1
    )
    check_backends(problem, activation, uneven)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(
    ("activation", "uneven"), [("relu", False), ("tanh", True), ("sigmoid", False)]
)
def test_backends_agree_on_biases_of_documents(output, activation, uneven):
    problem = make_problem(
        [0, 1, 9, 0, 25], 37, n_topics=7, output=output, n_summary_words=30, document_bias=True,
        scale=0.2,
    )  # fmt: skip
    check_backends(problem, activation, uneven, KERNELS)


@pytest.mark.parametrize(
    ("output", "activation", "document_bias"),
    [*((o, a, False) for o in OUTPUTS for a in ACTIVATIONS), ("tree", "tanh", True)],
)
def test_gradients_against_finite_differences(output, activation, document_bias):
    # Seed and scale keep every unit away from the kink of ReLU.
    problem = make_problem(
        [3, 5], n_words=6, n_topics=4, output=output, n_summary_words=5, document_bias=document_bias
    )

    def function(*parameters):
        return Problem(problem.batch, type(problem.parameters)(*parameters), problem.tree).run(
            activation, "vectorized"
        )

    assert torch.autograd.gradcheck(function, tuple(problem.parameters))


@pytest.mark.parametrize("n_topics", [1, 2, 31, 32, 33, 200])
def test_any_number_of_topics(n_topics):
    problem = make_problem([40, 3], n_words=23, n_topics=n_topics, scale=0.2)
    expected = evaluate(problem, "relu", "vectorized")
    assert_same(evaluate(problem.to(torch.float32), "relu", "cpu"), expected, FLOAT32)


def test_a_vocabulary_of_one_word_costs_nothing():
    problem = make_problem([4, 0], n_words=1, n_topics=3)
    assert evaluate(problem, "relu", "reference")[0].tolist() == [0.0, 0.0]
    check_backends(problem, "relu", backends=KERNELS)


@pytest.mark.parametrize("backend", ["vectorized", "cpu"])
@pytest.mark.parametrize("output", OUTPUTS)
def test_all_hidden_units_off(output, backend):
    # With relu and a very negative c all units are zero: only the biases have gradients.
    problem = make_problem([8, 5], n_words=6, n_topics=4, output=output, scale=0.1).to(
        torch.float32
    )
    problem.parameters.hidden_bias_H.data.fill_(-50.0)
    problem.run("relu", backend).nll_B.sum().backward()
    W, c, V, b = problem.gradients()
    assert not W.any()
    assert not c.any()
    assert not V.any()
    assert b.any()


@pytest.mark.parametrize(
    ("lengths", "document_bias"), [([], False), ([], True), ([0], False), ([0, 0, 0], False)]
)
@pytest.mark.parametrize("output", OUTPUTS)
def test_batches_without_words(output, lengths, document_bias):
    problem = make_problem(
        lengths, n_words=6, n_topics=4, output=output, document_bias=document_bias
    )
    c = problem.parameters.hidden_bias_H.detach()
    for backend in ("reference", "vectorized", *KERNELS):
        given = in_float32(problem, backend) if backend in KERNELS else problem
        nll, summary, *gradients = evaluate(given, "tanh", backend)
        assert nll.tolist() == [0.0] * len(lengths)
        torch.testing.assert_close(summary, c.to(summary).expand(len(lengths), 4))
        assert not gradients[0].any()
        assert not gradients[2].any()


@pytest.mark.parametrize("backend", ["vectorized", *KERNELS])
@pytest.mark.parametrize("logit", [80.0, 1e4, 1e30])
def test_extreme_logits_stay_finite(backend, logit):
    problem = in_float32(make_problem([2], n_words=2, n_topics=1, weighted=False), backend)
    problem.parameters.node_weight_TH.data.zero_()
    problem.parameters.node_bias_T.data.fill_(logit)
    words = torch.tensor([0, 1]).to(problem.batch.word_ids_N)
    assert problem.tree is not None
    right = int(np.argmax(problem.tree.leaf_of_word_K))
    terms = problem._replace(batch=problem.batch._replace(word_ids_N=words)).run("relu", backend)
    # The word on the right costs nothing, the one on the left the whole logit.
    assert terms.nll_B.item() == pytest.approx(logit, rel=1e-6), right
    terms.nll_B.sum().backward()
    assert problem.gradients()[3].item() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("backend", ["vectorized", *KERNELS])
@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_a_nan_parameter_shows_in_the_loss(output, backend, which):
    problem = in_float32(make_problem([20], n_words=4, n_topics=3, output=output), backend)
    problem.parameters[which].data.fill_(float("nan"))
    for activation in ACTIVATIONS:
        assert problem.run(activation, backend).nll_B.isnan().all()


@pytest.mark.parametrize(("output", "n_words"), [("softmax", 16_385), ("tree", 200_000)])
def test_large_vocabularies(output, n_words):
    problem = make_problem([7, 4], n_words, n_topics=3, output=output)
    expected = evaluate(problem, "relu", "vectorized")
    assert_same(evaluate(problem.to(torch.float32), "relu", "cpu"), expected, FLOAT32)


@pytest.mark.parametrize("document_bias", [False, True])
def test_blocks_of_documents_add_up(monkeypatch, document_bias):
    problem = make_problem([5, 0, 30, 1, 2, 9, 3, 4], 11, n_topics=6, document_bias=document_bias)
    expected = evaluate(problem, "relu", "reference")
    single = problem.to(torch.float32)
    for words_per_block in (1, 8, 33):
        monkeypatch.setattr(cpu_engine, "BLOCK_BYTES", words_per_block * 6 * 4)
        assert_same(evaluate(single, "relu", "cpu"), expected, FLOAT32)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("backend", KERNELS)
def test_a_second_backward_gives_the_same_gradients(output, backend):
    problem = in_float32(make_problem([5, 30], n_words=6, n_topics=4, output=output), backend)
    loss = sum(term.sum() for term in problem.run("tanh", backend))
    loss.backward(retain_graph=True)
    first = problem.gradients()
    loss.backward()
    for a, e in zip(problem.gradients(), first, strict=True):
        torch.testing.assert_close(a, e, rtol=0, atol=0)


def test_a_call_without_gradients_gives_the_same_values_and_computes_none(monkeypatch):
    calls = []
    evaluate = tree_walk.evaluate

    def spy(*arguments):
        calls.append(arguments[-1])
        return evaluate(*arguments)

    monkeypatch.setattr(tree_walk, "evaluate", spy)
    problem = make_problem([50, 3], n_words=23, n_topics=40).to(torch.float32)
    with_graph = problem.run("relu", "cpu")
    with torch.no_grad():
        without = problem.run("relu", "cpu")
    assert calls == [True, False]
    for a, e in zip(without, with_graph, strict=True):
        assert not a.requires_grad
        torch.testing.assert_close(a, e, rtol=0, atol=0)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 40), max_size=6),
    n_words=st.integers(1, 70),
    n_topics=st.integers(1, 40),
    output=st.sampled_from(OUTPUTS),
    activation=st.sampled_from(ACTIVATIONS),
    weighted=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_random_problems(lengths, n_words, n_topics, output, activation, weighted, seed):
    problem = make_problem(
        lengths, n_words, n_topics, output=output, weighted=weighted, scale=0.1, seed=seed
    )
    expected = evaluate(problem, activation, "vectorized")
    actual = evaluate(problem.to(torch.float32), activation, "cpu")
    for a, e in zip(actual, expected, strict=True):
        # Sums that nearly cancel have no relative precision; their terms are of the order of 1.
        torch.testing.assert_close(a.double(), e, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("output", OUTPUTS)
def test_equal_biases_of_documents_are_one_bias(output):
    shared = make_problem([5, 0, 30], 11, n_topics=6, output=output).to(torch.float32)
    c_H = shared.parameters.hidden_bias_H
    rows_BH = c_H.detach().repeat(3, 1).requires_grad_()
    own = shared._replace(parameters=shared.parameters._replace(hidden_bias_H=rows_BH))
    nll, summary, W, c, V, b = evaluate(shared, "tanh", "cpu")
    own_nll, own_summary, own_W, own_c, own_V, own_b = evaluate(own, "tanh", "cpu")
    for a, e in ((own_nll, nll), (own_summary, summary), (own_W, W), (own_V, V), (own_b, b)):
        torch.testing.assert_close(a, e, rtol=0, atol=0)
    torch.testing.assert_close(own_c.sum(dim=0), c)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_word_repeated_beyond_a_tile(activation):
    problem = make_problem([75], n_words=3, n_topics=9, scale=0.05)
    expected = evaluate(problem, activation, "reference")
    assert_same(evaluate(problem.to(torch.float32), activation, "cpu"), expected, FLOAT32)
