"""Checks of the `cuda` backend, made by Triton's interpreter and on a GPU.

`run` computes the terms of a problem with an activation; `device` is where it runs.
"""

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import torch
from tests.likelihood_problems import Problem, make_problem, outputs_and_gradients, relative_error

from supdocnade.cuda.engine import padded_sparse_gradients
from supdocnade.likelihood.contract import DocumentTerms

Run = Callable[[Problem, str], DocumentTerms]

# float32 against float64, as for the other backends.
FLOAT32 = 5e-6

NAMES = ["nll", "summary", "W", "c", "V", "b"]


def check_agreement(
    problem: Problem, run: Run, device: str, activation: str = "relu", *, uneven: bool = False
):
    """Compare outputs and gradients with plain torch in float64."""
    expected = outputs_and_gradients(problem.run(activation, "vectorized"), problem, uneven=uneven)
    single = problem.to(torch.float32, device)
    actual = outputs_and_gradients(run(single, activation), single, uneven=uneven)
    for name, a, e in zip(NAMES, actual, expected, strict=True):
        assert a.shape == e.shape, name
        assert relative_error(a.cpu(), e) <= FLOAT32, name


def check_touched_rows(problem: Problem, run: Run, device: str):
    """Check which rows have a gradient, with sparse gradients for every vocabulary."""
    single = problem.to(torch.float32, device)
    run(single, "relu").nll_B.sum().backward()
    words = np.unique(problem.batch.word_ids_N.numpy())
    W, _, V, _ = (parameter.grad for parameter in single.parameters)
    np.testing.assert_array_equal(W._indices()[0].cpu(), words)
    assert V.is_sparse == (problem.tree is not None)
    if problem.tree is not None:
        nodes, signs = problem.tree.paths
        on_path = np.unique(nodes[words][signs[words] != 0])
        np.testing.assert_array_equal(V._indices()[0].cpu(), on_path)
    if problem.batch.word_ids_N.numel():
        check_agreement(problem, run, device)


def check_padded_rows(problem: Problem, run: Run, device: str):
    """Compare padded sparse gradients with exact ones."""
    problem = append_unused_tokens(problem.to(torch.float32, device), 1)
    results = []
    for padded in (False, True):
        with padded_sparse_gradients() if padded else nullcontext():
            run(problem, "relu").nll_B.sum().backward()
        results.append([p.grad for p in problem.parameters])
        for parameter in problem.parameters:
            parameter.grad = None
    for exact, padded in zip(*results, strict=True):
        if not exact.is_sparse:
            assert torch.equal(padded, exact)
            continue
        rows, values = exact._indices()[0].tolist(), exact._values()
        padded_rows, padded_values = padded._indices()[0].tolist(), padded._values()
        n_rows = len(rows)
        assert len(padded_rows) > n_rows or len(padded_rows) == len(exact)
        assert padded_rows == rows + [rows[-1] if rows else -1] * (len(padded_rows) - n_rows)
        assert torch.equal(padded_values[:n_rows], values)
        assert not padded_values[n_rows:].any()


def check_unused_tokens(output: str, run: Run, device: str, *, uneven: bool):
    """Check that entries after the last token have no influence."""
    problem = make_problem([5, 12], 9, n_topics=8, output=output, scale=0.2)
    problem = problem.to(torch.float32, device)
    expected = outputs_and_gradients(run(problem, "relu"), problem, uneven=uneven)
    longer = append_unused_tokens(problem, 8)
    actual = outputs_and_gradients(run(longer, "relu"), longer, uneven=uneven)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=0, atol=0)


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


def check_empty_batch(lengths: list[int], output: str, run: Run, device: str):
    """Check the values and gradients of documents without words."""
    problem = make_problem(lengths, 6, n_topics=8, output=output).to(torch.float32, device)
    nll, summary, *gradients = outputs_and_gradients(run(problem, "tanh"), problem)
    assert nll.tolist() == [0.0] * len(lengths)
    c_H = problem.parameters.hidden_bias_H.detach()
    torch.testing.assert_close(summary, c_H.expand(len(lengths), 8))
    assert not gradients[0].any()
    assert not gradients[2].any()


def check_nan(output: str, parameter: int, run: Run, device: str):
    """Check that a NaN parameter makes the loss NaN, so that divergence is noticed."""
    problem = make_problem([20], 4, n_topics=3, output=output).to(torch.float32, device)
    problem.parameters[parameter].data.fill_(float("nan"))
    assert run(problem, "relu").nll_B.isnan().all()
