"""The kernels for GPUs on small cases, without a GPU by Triton's interpreter."""

import numpy as np
import pytest
import torch
from tests.likelihood_problems import Problem, make_problem, outputs_and_gradients, relative_error

from supdocnade.cuda import engine
from supdocnade.likelihood.contract import Parameters

pytest.importorskip("triton")
interpreted = not torch.cuda.is_available()
DEVICE = "cpu" if interpreted else "cuda"
pytestmark = pytest.mark.usefixtures("careful_interpreter")

# float32 against float64, as for the other backends.
FLOAT32 = 5e-6

# Operands are rounded to eight bits, once or twice.
BF16 = 2e-2


def check_agreement(problem: Problem):
    """Compare outputs and gradients with plain torch in float64."""
    expected = outputs_and_gradients(problem.run("relu", "vectorized"), problem)
    single = problem.to(torch.float32, DEVICE)
    actual = outputs_and_gradients(single.run("relu", "cuda"), single)
    names = ["nll", "summary", "W", "c", "V", "b"]
    for name, a, e in zip(names, actual, expected, strict=True):
        assert a.shape == e.shape, name
        assert relative_error(a.cpu(), e) <= FLOAT32, name


def append_unused_tokens(problem: Problem, count: int) -> Problem:
    """Return a problem whose token tables are longer than its offsets say, with invalid entries."""
    batch = problem.batch
    ids = torch.full((count,), 10**6).to(batch.word_ids_N)
    weights = torch.full((count,), float("nan")).to(batch.input_weight_N)
    longer = batch._replace(
        word_ids_N=torch.cat([batch.word_ids_N, ids]),
        input_weight_N=torch.cat([batch.input_weight_N, weights]),
        loss_weight_N=torch.cat([batch.loss_weight_N, weights]),
        checked=True,
    )
    return problem._replace(batch=longer)


# Trees of one, two and three bands.
@pytest.mark.parametrize(
    ("n_words", "n_topics", "dense"),
    [(2, 8, False), (17, 33, True), (300, 5, True), (300, 5, False)],
)
def test_trees_by_prefixes_and_by_tiles(monkeypatch, n_words, n_topics, dense):
    from supdocnade.cuda import tree_bands

    monkeypatch.setattr(tree_bands, "DENSE", 1 if dense else 10**6)
    check_agreement(make_problem([30, 3], n_words, n_topics, scale=0.2))


def test_prefixes_that_span_tiles_with_one_program_per_prefix(monkeypatch):
    from supdocnade.cuda import rows

    monkeypatch.setattr(rows, "FEW_PREFIXES", 0)
    check_agreement(make_problem([90], 3, n_topics=9, scale=0.1))


def test_documents_of_several_chunks():
    check_agreement(make_problem([70, 16, 17], 5, n_topics=9, scale=0.05))


@pytest.mark.parametrize("output", ["tree", "softmax"])
def test_missing_weights_and_weights_of_zero(output):
    problem = make_problem([5, 12], 9, n_topics=8, output=output, weighted=False, scale=0.2)
    check_agreement(problem)
    problem = make_problem([5, 12], 9, n_topics=8, output=output, scale=0.2)
    problem.batch.loss_weight_N[3:9] = 0
    problem.batch.input_weight_N[::2] = 0
    check_agreement(problem)


@pytest.mark.parametrize(("output", "uneven"), [("tree", True), ("softmax", False)])
def test_entries_after_the_last_token_have_no_influence(output, uneven):
    problem = make_problem([5, 12], 9, n_topics=8, output=output, scale=0.2)
    problem = problem.to(torch.float32, DEVICE)
    expected = outputs_and_gradients(problem.run("relu", "cuda"), problem, uneven=uneven)
    longer = append_unused_tokens(problem, 8)
    actual = outputs_and_gradients(longer.run("relu", "cuda"), longer, uneven=uneven)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=0, atol=0)


def test_values_without_gradients():
    problem = make_problem([5, 12], 9, n_topics=8, scale=0.2).to(torch.float32, DEVICE)
    expected = problem.run("relu", "cuda").nll_B
    frozen = problem._replace(parameters=Parameters(*(p.detach() for p in problem.parameters)))
    torch.testing.assert_close(frozen.run("relu", "cuda").nll_B, expected.detach(), rtol=0, atol=0)


def test_rows_of_a_tile_without_a_token_add_nothing_if_exp_overflows():
    problem = make_problem([5], 9, n_topics=8, output="softmax", scale=0.2)
    problem.parameters.node_bias_T.data += 200
    check_agreement(problem)


@pytest.mark.skipif(not interpreted, reason="tests/gpu/test_likelihood.py has these products")
@pytest.mark.parametrize("dense", [True, False])
def test_operands_in_bf16(monkeypatch, dense):
    from triton.runtime import interpreter

    from supdocnade.cuda import tree_bands

    # The interpreter stores bf16 as integers of sixteen bits, and would multiply these.
    multiply = interpreter.InterpreterBuilder.create_dot

    def widen(handle):
        values = (handle.data.astype(np.uint32) << 16).view(np.float32)
        return interpreter.TensorHandle(values, interpreter.tl.float32)

    monkeypatch.setattr(
        interpreter.InterpreterBuilder,
        "create_dot",
        lambda self, a, b, *rest: multiply(self, widen(a), widen(b), *rest),
    )
    monkeypatch.setattr(tree_bands, "DENSE", 1 if dense else 10**6)
    monkeypatch.setattr(engine, "product_precision", lambda: "bf16")
    problem = make_problem([30, 3, 70], 37, n_topics=9, scale=0.2)
    expected = outputs_and_gradients(problem.run("tanh", "vectorized"), problem)
    single = problem.to(torch.float32, DEVICE)
    actual = outputs_and_gradients(single.run("tanh", "cuda"), single)
    for a, e in zip(actual, expected, strict=True):
        assert relative_error(a, e) <= BF16
        assert a.dtype == torch.float32


@pytest.mark.parametrize(("allowed", "expected"), [("ieee", "tf32x3"), ("tf32", "tf32")])
def test_the_precision_follows_the_setting_for_gpus(allowed, expected):
    products = torch.backends.cuda.matmul
    if not hasattr(products, "fp32_precision"):
        pytest.skip("torch is older than 2.9")
    before = products.fp32_precision
    try:
        products.fp32_precision = allowed
        assert engine.product_precision() == expected
    finally:
        products.fp32_precision = before
    assert engine.product_precision() == "tf32x3"
