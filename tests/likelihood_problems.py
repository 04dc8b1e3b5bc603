"""Small random batches and parameters, to compare the backends of the likelihood."""

import hashlib
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from supdocnade.likelihood.contract import Batch, DocumentTerms, Parameters
from supdocnade.likelihood.operations import softmax_nll, tree_nll, use_backend
from supdocnade.tree import WordTree


class Problem(NamedTuple):
    """A batch, parameters that require gradients, and the tree (None: softmax)."""

    batch: Batch
    parameters: Parameters
    tree: WordTree | None

    def run(self, activation: str, backend: str) -> DocumentTerms:
        if backend == "cuda" and self.batch.word_ids_N.device.type == "cpu":
            return self.interpret(activation)
        with use_backend(backend):
            if self.tree is None:
                return softmax_nll(self.batch, self.parameters, activation=activation)
            return tree_nll(self.batch, self.parameters, self.tree, activation=activation)

    def interpret(self, activation: str) -> DocumentTerms:
        """Run the kernels for a GPU by Triton's interpreter; the dispatcher would refuse to."""
        if self.tree is None:
            from supdocnade.cuda.softmax import softmax_nll

            return softmax_nll(self.batch, self.parameters, activation)
        from supdocnade.cuda.tree_bands import tree_nll

        return tree_nll(self.batch, self.parameters, self.tree, activation)

    def to(self, dtype: torch.dtype, device: str = "cpu") -> "Problem":
        """Return the same numbers in another precision or place, as new leaves of the graph."""
        batch = self.batch._replace(
            **{
                name: None if value is None else value.to(dtype)
                for name, value in self.batch._asdict().items()
                if name.endswith("weight_N")
            }
        )
        parameters = (p.detach().to(device, dtype).requires_grad_() for p in self.parameters)
        return Problem(batch.to(torch.device(device)), Parameters(*parameters), self.tree)

    def gradients(self) -> list[Tensor]:
        """Return dense gradients, zero for parameters without one, and clear them."""
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
    document_bias: bool = False,
    scale: float = 0.5,
    seed: int = 0,
) -> Problem:
    """Draw a problem in float64.

    `scale` is the standard deviation of W and V. With `document_bias` every document has its own c.
    """
    rng = np.random.default_rng(seed)
    n_tokens = sum(lengths)
    n_rows = n_words if output == "softmax" else n_words - 1

    def normal(*shape: int, spread: float = scale) -> Tensor:
        return torch.from_numpy(rng.normal(0, spread, shape)).requires_grad_()

    parameters = Parameters(
        normal(n_words, n_topics),
        normal(*([len(lengths)] if document_bias else []), n_topics, spread=0.3),
        normal(n_rows, n_topics),
        normal(n_rows, spread=0.3),
    )
    batch = Batch(
        torch.from_numpy(rng.integers(0, n_words, n_tokens)).int(),
        torch.tensor([0, *np.cumsum(lengths).tolist()]),
        torch.from_numpy(rng.uniform(0.5, 1.0, n_tokens)) if weighted else None,
        torch.from_numpy(rng.uniform(0.0, 2.0, n_tokens)) if weighted else None,
        n_summary_words,
    )
    tree = WordTree.random(n_words, rng) if output == "tree" else None
    return Problem(batch, parameters, tree)


def batch_of(documents, **options) -> Batch:
    """Return documents, lists of words, as a batch."""
    flat = torch.tensor([word for document in documents for word in document], dtype=torch.int32)
    lengths = torch.tensor([0] + [len(document) for document in documents])
    return Batch(flat, lengths.cumsum(0), **options)


def outputs_and_gradients(
    terms: DocumentTerms, problem: Problem, *, uneven: bool = False
) -> list[Tensor]:
    """Return the terms, and the gradients of a loss that depends on all of them.

    With `uneven`, the documents have different weights in the loss.
    """
    generator = torch.Generator().manual_seed(5)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(terms.nll_B)

    noise_B = noise(len(terms.nll_B))
    loss = (noise_B * terms.nll_B).sum() if uneven else 0.7 * terms.nll_B.sum()
    (loss + (noise(*terms.summary_BH.shape) * terms.summary_BH).sum()).backward()
    return [terms.nll_B.detach(), terms.summary_BH.detach(), *problem.gradients()]


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """Return ‖actual - expected‖ / ‖expected‖, or the absolute error if `expected` is zero."""
    difference = (actual.double() - expected.double()).norm()
    size = expected.double().norm()
    return float(difference / size if size > 0 else difference)


CASES = (
    ("softmax", 150, False),
    ("tree", 150, False),
    ("tree", 17_000, False),
    ("tree", 150, True),
)


def cpu_digest(cases=CASES) -> str:
    """Return a digest of the outputs and gradients of the `cpu` backend on some problems."""
    digest = hashlib.sha256()
    for output, n_words, document_bias in cases:
        lengths = [300, 0, 961, 5, 77] * 3
        problem = make_problem(
            lengths, n_words, 37, output=output, n_summary_words=140, document_bias=document_bias
        )
        problem = problem.to(torch.float32)
        terms = problem.run("relu", "cpu")
        (terms.nll_B.sum() + terms.summary_BH.sin().sum()).backward()
        for tensor in (*terms, *problem.gradients()):
            digest.update(tensor.detach().numpy().tobytes())
    return digest.hexdigest()
