"""The softmax likelihood and its gradients on the CPU, in bounded memory.

The products go to torch's matrix multiplication. The logits of a few thousand tokens exist at a
time; they become probabilities and then derivatives in place. Products are cut into fixed parts,
each computed on one thread, so the bits do not depend on the number of threads. Parts are as large
as a cache allows: every call into torch holds the interpreter lock for a moment, and with small
parts the threads would wait for each other there.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from supdocnade.likelihood.contract import DocumentBatch, DocumentTerms, Parameters
from supdocnade.likelihood.cpu.engine import Block, CPUEngine, Floats, Integers
from supdocnade.likelihood.cpu.prefix_kernels import RELU, TANH
from supdocnade.likelihood.cpu.threads import run_parts
from supdocnade.likelihood.fused_autograd import Gradients, differentiable

LOGITS = 2**21
"""Logits that exist at a time: 8 MiB, or those of `ROW_STEP` tokens if these are more."""

PART_LOGITS = 2**17
"""Logits of the tokens that a thread takes at a time: 512 KiB, which stays in its cache."""

ROW_STEP = 64
"""Tokens are taken in multiples of this."""

WORD_PARTS = 16
LEAST_WORDS = 64
"""The gradient of V is cut into at most so many parts, of at least so many words."""


def rows_of_part(n_words: int) -> int:
    """Return how many tokens a thread takes at a time.

    >>> rows_of_part(158), rows_of_part(200_000)
    (768, 64)
    """
    return max(PART_LOGITS // n_words // ROW_STEP, 1) * ROW_STEP


@dataclass(frozen=True, eq=False)
class SoftmaxLayer:
    """The softmax as an output layer of the CPU engine."""

    def touched_rows(self, ids_N: Integers) -> None:
        """Return None: a softmax moves the probability of every word."""

    def run(
        self,
        block: Block,
        hidden_NH: Floats,
        V_TH: Floats,
        b_T: Floats,
        activation: int,
        gradients: Gradients | None,
    ) -> Floats:
        """See `OutputLayer`."""
        nll_N = np.empty(block.n_tokens, np.float32)
        words_N = torch.from_numpy(block.documents.ids_N[block.tokens]).long()
        weight_N = torch.from_numpy(block.documents.loss_weight_N[block.tokens])
        part = rows_of_part(len(V_TH))
        n_rows = max(LOGITS // len(V_TH) // part, 1) * part
        for start in range(0, block.n_tokens, n_rows):
            rows = slice(start, start + n_rows)
            tile = Tile(
                torch.from_numpy(hidden_NH[rows]),
                torch.from_numpy(V_TH),
                torch.from_numpy(b_T),
                words_N[rows],
                weight_N[rows],
                torch.from_numpy(nll_N[rows]),
            )
            tile.run(activation, gradients, small=block.small)
        return nll_N


@dataclass(frozen=True, eq=False)
class Tile:
    """The tokens whose logits exist at the same time."""

    hidden_NH: Tensor
    V_KH: Tensor
    b_K: Tensor
    words_N: Tensor
    weight_N: Tensor
    nll_N: Tensor

    def run(self, activation: int, gradients: Gradients | None, *, small: bool) -> None:
        """Write the costs; with `gradients`, add those of V and b and replace the hidden units."""
        n_tokens, n_words = len(self.words_N), len(self.V_KH)
        delta_NK = torch.empty(n_tokens, n_words, dtype=self.hidden_NH.dtype)
        grad_NH = torch.empty_like(self.hidden_NH)
        wanted, part = gradients is not None, rows_of_part(n_words)

        def by_rows(start: int) -> None:
            rows = slice(start, start + part)
            self._decide(rows, delta_NK[rows])
            if wanted:
                torch.mm(delta_NK[rows], self.V_KH, out=grad_NH[rows])

        run_parts(by_rows, range(0, n_tokens, part), small=small)
        if gradients is None:
            return
        grad_V = torch.from_numpy(gradients.node_weight.values)
        grad_b = torch.from_numpy(gradients.node_bias_T)
        width = max(-(-n_words // WORD_PARTS), LEAST_WORDS)

        def by_words(start: int) -> None:
            words = slice(start, start + width)
            grad_V[words].addmm_(delta_NK[:, words].T, self.hidden_NH)
            grad_b[words] += delta_NK[:, words].sum(dim=0)

        run_parts(by_words, range(0, n_words, width), small=small)

        def by_rows_again(start: int) -> None:
            rows = slice(start, start + part)
            hidden = self.hidden_NH[rows]
            hidden.copy_(grad_NH[rows].mul_(_slope(activation, hidden)))

        run_parts(by_rows_again, range(0, n_tokens, part), small=small)

    def _decide(self, rows: slice, delta_NK: Tensor) -> None:
        """Write w · -log p for some rows, and w · (p - 1_v), the derivative by the logits."""
        torch.addmm(self.b_K, self.hidden_NH[rows], self.V_KH.T, out=delta_NK)
        words_N1, weight_N1 = self.words_N[rows, None], self.weight_N[rows, None]
        delta_NK -= delta_NK.max(dim=1, keepdim=True).values
        chosen_N1 = delta_NK.gather(1, words_N1)
        total_N1 = delta_NK.exp_().sum(dim=1, keepdim=True)
        self.nll_N[rows] = (weight_N1 * (total_N1.log() - chosen_N1))[:, 0]
        delta_NK *= weight_N1 / total_N1
        delta_NK.scatter_add_(1, words_N1, -weight_N1)


def _slope(activation: int, hidden: Tensor) -> Tensor:
    """g'(a) in terms of h = g(a)."""
    if activation == RELU:
        return (hidden > 0).to(hidden.dtype)
    if activation == TANH:
        return 1 - hidden.square()
    return hidden * (1 - hidden)


def softmax_nll(batch: DocumentBatch, parameters: Parameters, activation: str) -> DocumentTerms:
    """See `operations.softmax_nll`."""
    return differentiable(CPUEngine(SoftmaxLayer(), activation), batch, parameters)
