"""The fused likelihood on a GPU, compared with plain torch on that GPU and with float64.

The tolerance is twice the error of plain torch with products of the same precision. Small cases are
in tests/unit/cuda, whose kernels run on the GPU where there is one.
"""

import pytest
import torch
from tests.likelihood_problems import Problem, make_problem, outputs_and_gradients, relative_error
from torch.nn.functional import linear, softplus

from supdocnade.likelihood.contract import DocumentTerms
from supdocnade.likelihood.vectorized import prefix_sums, sum_by_document

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU that torch can use"
)

# Near the rounding error of float32 a ratio of two errors says little: the gradient of b, a sum
# without products, had an error of 2.6e-7 on a tree with sigmoid units where plain torch had
# 0.96e-7. One unit of rounding is allowed beyond twice the error of torch.
ROUNDING = 2.0**-23

# (lengths, words, topics): empty, short, odd and long documents; 2 to 5 bands of the tree; many and
# few tokens per prefix.
SHAPES = {
    "small": ([0, 1, 9, 0, 25], 37, 8),
    "paper": ([961] * 6 + [0, 1], 1160, 200),
    "odd": ([300, 5, 77], 1160, 45),
    "wide": ([200, 30], 300, 1024),
    "many words": ([400, 100], 20_000, 50),
    "most words": ([300, 1], 200_000, 33),
}


@pytest.fixture(autouse=True)
def default_precision():
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


NAMES = ["nll", "summary", "W", "c", "V", "b"]


def errors(actual, expected):
    return {name: relative_error(a, e) for name, a, e in zip(NAMES, actual, expected, strict=True)}


def compare(problem: Problem, activation: str = "relu", *, uneven: bool = False):
    """Return the errors of the kernels and of plain torch in float32, relative to float64."""
    double, single = problem.to(torch.float64, "cuda"), problem.to(torch.float32, "cuda")
    expected, ours, plain = (
        outputs_and_gradients(given.run(activation, backend), given, uneven=uneven)
        for given, backend in ((double, "vectorized"), (single, "cuda"), (single, "vectorized"))
    )
    return errors(ours, expected), errors(plain, expected)


def assert_within_twice(ours, plain, slack: float):
    for name in NAMES:
        assert ours[name] <= 2 * plain[name] + slack, (name, ours, plain)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_tree_in_float32(shape):
    lengths, n_words, n_topics = SHAPES[shape]
    problem = make_problem(lengths, n_words, n_topics, n_summary_words=n_words - 1, scale=0.05)
    assert_within_twice(*compare(problem), ROUNDING)


@pytest.mark.parametrize("output", ["tree", "softmax"])
@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_activations_and_uneven_gradients(output, activation):
    problem = make_problem([0, 1, 90, 0, 250], 300, 33, output=output, scale=0.05)
    assert_within_twice(*compare(problem, activation, uneven=True), ROUNDING)


def plain_torch(problem: Problem, *, bf16: bool) -> DocumentTerms:
    """Return the likelihood from one product of all hidden units with all nodes or words."""
    hidden_NH, summary_BH = prefix_sums(problem.batch, problem.parameters, "relu")
    with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
        logits_NT = linear(hidden_NH, problem.parameters.node_weight_TH)
    logits_NT = logits_NT.float() + problem.parameters.node_bias_T
    ids_N = problem.batch.word_ids_N.long()
    if problem.tree is None:
        nll_N = torch.logsumexp(logits_NT, dim=1) - logits_NT.gather(1, ids_N[:, None])[:, 0]
    else:
        nodes_KL, signs_KL = (torch.as_tensor(table).cuda() for table in problem.tree.paths)
        logits_NL = logits_NT.gather(1, nodes_KL[ids_N].long())
        signs_NL = signs_KL[ids_N].float()
        nll_N = (softplus(-signs_NL * logits_NL) * signs_NL.abs()).sum(dim=1)
    return DocumentTerms(sum_by_document(nll_N, problem.batch), summary_BH)


@pytest.mark.parametrize("output", ["tree", "softmax"])
@pytest.mark.parametrize("precision", ["high", "medium"])
def test_products_of_lower_precision(output, precision):
    problem = make_problem([961] * 6 + [0, 1], 1160, 200, output=output, scale=0.05)
    double, single = problem.to(torch.float64, "cuda"), problem.to(torch.float32, "cuda")
    expected = outputs_and_gradients(double.run("relu", "vectorized"), double)
    torch.set_float32_matmul_precision(precision)
    plain = plain_torch(single, bf16=precision == "medium")
    plain_errors = errors(outputs_and_gradients(plain, single), expected)
    ours = errors(outputs_and_gradients(single.run("relu", "cuda"), single), expected)
    assert_within_twice(ours, plain_errors, slack=2e-5)
    assert max(ours.values()) < 1e-2


@pytest.mark.parametrize("output", ["tree", "softmax"])
@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_the_same_bits_from_run_to_run(output, precision):
    torch.set_float32_matmul_precision(precision)
    problem = make_problem([961] * 6, 1160, 200, output=output).to(torch.float32, "cuda")
    first = outputs_and_gradients(problem.run("relu", "cuda"), problem)
    for _ in range(3):
        for a, e in zip(
            outputs_and_gradients(problem.run("relu", "cuda"), problem), first, strict=True
        ):
            assert torch.equal(a, e)


@pytest.mark.parametrize("output", ["tree", "softmax"])
def test_recorded_calls(output):
    """Record a call with some words and replay it with others, fewer of them."""
    n_words = 20_000 if output == "tree" else 17_000
    problem = make_problem([300, 40], n_words, 24, output=output).to(torch.float32, "cuda")
    problem = problem._replace(batch=problem.batch._replace(checked=True))
    other = make_problem([200, 7], n_words, 24, output=output, seed=3).to(torch.float32, "cuda")
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        problem.run("relu", "cuda").nll_B.sum().backward()
    torch.cuda.synchronize()
    for parameter in problem.parameters:
        parameter.grad = None
    with torch.cuda.graph(graph, stream=stream):
        nll_B = problem.run("relu", "cuda").nll_B
        nll_B.sum().backward()
    nll_B = nll_B.detach()
    for recorded, new in zip(problem.batch[:4], other.batch[:4], strict=True):
        recorded[: len(new)].copy_(new)
    graph.replay()
    expected = problem._replace(batch=other.batch)
    recorded = [p.grad for p in problem.parameters]
    for parameter in problem.parameters:
        parameter.grad = None
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        again_B = expected.run("relu", "cuda").nll_B
        again_B.sum().backward()
    torch.cuda.synchronize()
    assert torch.equal(again_B, nll_B)
    # The products of a softmax have more rows in the record, of weight zero, and round differently:
    # each of both is within five roundings of float64.
    limit = 0.0 if output == "tree" else 10 * ROUNDING
    for a, parameter in zip(recorded, problem.parameters, strict=True):
        assert relative_error(a, parameter.grad) <= limit


def test_one_huge_document_with_a_very_frequent_word():
    problem = make_problem([200_000, 3], 300, 16, scale=0.002)
    problem.batch.word_ids_N[:150_000] = 7
    assert_within_twice(*compare(problem), ROUNDING)


def test_memory_of_a_call():
    """Besides parameters and gradients, hidden units and their gradients, but no logits."""
    problem = make_problem([961] * 40, 1160, 200, weighted=False).to(torch.float32, "cuda")
    problem.run("relu", "cuda").nll_B.sum().backward()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    problem.gradients()
    problem.run("relu", "cuda").nll_B.sum().backward()
    torch.cuda.synchronize()
    extra = torch.cuda.max_memory_allocated() - before
    hidden = 961 * 40 * 200 * 4
    assert extra < 2.5 * hidden
