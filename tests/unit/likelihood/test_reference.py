"""The paper's Algorithm 2, as printed, is not the gradient of its Algorithm 1.

Two lines are wrong. `δW[v_i]` is updated after the gradient of position i was added to δa, although
h_i depends only on v_<i; and δc lacks the class term, although h_y depends on c. With both
corrected the algorithm agrees with the gradients that torch derives from Algorithm 1.
"""

import numpy as np
import pytest
import torch
from tests.likelihood_problems import Problem, make_problem
from torch.nn.functional import cross_entropy

from supdocnade.tree import WordTree

LAMBDA = 0.3
LABEL = 1


def algorithm_2(problem: Problem, U: np.ndarray, d: np.ndarray, *, corrected: bool):
    """Return the gradients of -log p(y | v) + λ Σ -log p(v_i | v_<i), line by line."""
    W, c, V, b = (p.detach().numpy() for p in problem.parameters)
    assert isinstance(problem.tree, WordTree)
    nodes, signs = problem.tree.paths
    words = problem.batch.word_ids_N.tolist()
    activations = [c]
    for word in words:
        activations.append(activations[-1] + W[word])
    h = [np.maximum(a, 0) for a in activations]

    logits = d + U @ h[-1]
    f = np.exp(logits - logits.max())
    grad_d = f / f.sum() - np.eye(len(d))[LABEL]
    grad_a = (U.T @ grad_d) * (h[-1] > 0)
    grad_W, grad_V, grad_b = np.zeros_like(W), np.zeros_like(V), np.zeros_like(b)
    grad_c = grad_a.copy() if corrected else np.zeros_like(c)
    for i in reversed(range(len(words))):
        word, grad_h = words[i], np.zeros_like(c)
        for node, sign in zip(nodes[word], signs[word], strict=True):
            if sign == 0:
                continue
            p_right = 1 / (1 + np.exp(-(b[node] + V[node] @ h[i])))
            grad_t = LAMBDA * (p_right - (sign > 0))
            grad_b[node] += grad_t
            grad_V[node] += grad_t * h[i]
            grad_h += grad_t * V[node]
        if corrected:
            grad_W[word] += grad_a
        grad_a = grad_a + grad_h * (h[i] > 0)
        grad_c += grad_h * (h[i] > 0)
        if not corrected:
            grad_W[word] += grad_a
    return {"W": grad_W, "c": grad_c, "V": grad_V, "b": grad_b}


@pytest.fixture
def problem():
    return make_problem([6], n_words=5, n_topics=3, weighted=False, seed=3)


@pytest.fixture
def head():
    rng = np.random.default_rng(0)
    return rng.normal(size=(4, 3)), rng.normal(size=4)


@pytest.fixture
def gradients(problem, head):
    """Gradients that torch derives from Algorithm 1."""
    U, d = (torch.from_numpy(array) for array in head)
    terms = problem.run("relu", "reference")
    logits = torch.relu(terms.summary_BH) @ U.T + d
    (cross_entropy(logits, torch.tensor([LABEL])) + LAMBDA * terms.nll_B.sum()).backward()
    return dict(zip("WcVb", (g.numpy() for g in problem.gradients()), strict=True))


def test_corrected_algorithm_2_is_the_gradient(problem, head, gradients):
    for name, value in algorithm_2(problem, *head, corrected=True).items():
        np.testing.assert_allclose(value, gradients[name], atol=1e-12, err_msg=name)


def test_printed_algorithm_2_is_wrong_in_W_and_c(problem, head, gradients):
    printed = algorithm_2(problem, *head, corrected=False)
    error = {name: np.abs(printed[name] - gradients[name]).max() for name in "WcVb"}
    assert error["V"] < 1e-12
    assert error["b"] < 1e-12
    assert error["W"] > 0.1
    assert error["c"] > 0.1
