"""Small random problems for the tests of the operations."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from supdocnade.likelihood.contract import DocumentBatch, DocumentTerms, Parameters
from supdocnade.likelihood.operations import softmax_nll, tree_nll
from supdocnade.tree import WordTree


class Problem(NamedTuple):
    """A batch, parameters that require gradients, and the tree (None: softmax)."""

    batch: DocumentBatch
    parameters: Parameters
    tree: WordTree | None

    def run(self, activation: str, backend: str) -> DocumentTerms:
        if self.tree is None:
            return softmax_nll(self.batch, self.parameters, activation=activation, backend=backend)
        return tree_nll(
            self.batch, self.parameters, self.tree, activation=activation, backend=backend
        )

    def to(self, dtype: torch.dtype) -> "Problem":
        """The same numbers in another precision, as new leaves of the graph."""
        batch = self.batch._replace(
            **{
                name: None if value is None else value.to(dtype)
                for name, value in self.batch._asdict().items()
                if name.endswith("weight_N")
            }
        )
        parameters = (p.detach().to(dtype).requires_grad_() for p in self.parameters)
        return Problem(batch, Parameters(*parameters), self.tree)

    def gradients(self) -> list[Tensor]:
        """Dense gradients, zero where none arrived; they are cleared on the way."""
        result = []
        for parameter in self.parameters:
            grad = parameter.grad
            result.append(torch.zeros_like(parameter) if grad is None else grad.to_dense())
            parameter.grad = None
        return result


def make_problem(
    lengths: list[int],
    n_words: int,
    n_topics: int,
    *,
    output: str = "tree",
    weighted: bool = True,
    n_summary_words: int | None = None,
    scale: float = 0.5,
    seed: int = 0,
) -> Problem:
    """Draw a problem in float64. `scale` is the spread of W and V."""
    rng = np.random.default_rng(seed)
    n_tokens = sum(lengths)
    n_rows = n_words if output == "softmax" else n_words - 1

    def normal(*shape: int, spread: float = scale) -> Tensor:
        return torch.from_numpy(rng.normal(0, spread, shape)).requires_grad_()

    parameters = Parameters(
        normal(n_words, n_topics),
        normal(n_topics, spread=0.3),
        normal(n_rows, n_topics),
        normal(n_rows, spread=0.3),
    )
    batch = DocumentBatch(
        torch.from_numpy(rng.integers(0, n_words, n_tokens)).int(),
        torch.tensor([0, *np.cumsum(lengths).tolist()]),
        torch.from_numpy(rng.uniform(0.5, 1.0, n_tokens)) if weighted else None,
        torch.from_numpy(rng.uniform(0.0, 2.0, n_tokens)) if weighted else None,
        n_summary_words,
    )
    tree = WordTree.random(n_words, rng) if output == "tree" else None
    return Problem(batch, parameters, tree)


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """‖actual - expected‖ / ‖expected‖, or the absolute error where nothing is expected."""
    difference = (actual.double() - expected.double()).norm()
    size = expected.double().norm()
    return float(difference / size if size > 0 else difference)
