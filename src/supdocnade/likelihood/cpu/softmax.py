"""The softmax likelihood and its gradients on the CPU, in bounded memory.

The products are torch's matrix multiplications. The logits of a few thousand tokens exist at a
time; they become probabilities and then derivatives in place. Products are split into fixed parts,
each computed on one thread, so the bits do not depend on the number of threads. Parts are as large
as a cache allows: every call into torch holds the interpreter lock for a moment, for which threads
with small parts would wait.
"""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from supdocnade.likelihood.contract import Batch, DocumentTerms, FusedTerms, Parameters
from supdocnade.likelihood.cpu.engine import Floats, Integers, evaluate
from supdocnade.likelihood.vectorized import slope, write_softmax_delta
from supdocnade.threads import SMALL_WORK, run_parts

LOGITS = 2**21
"""Number of logits that exist at a time: 8 MiB, or those of `ROW_STEP` tokens if these are more."""

PART_LOGITS = 2**17
"""Number of logits of a part: 512 KiB, which stay in the cache of a thread."""

ROW_STEP = 64
"""Tokens are taken in multiples of this number."""

MAX_WORD_PARTS, MIN_PART_WORDS = 16, 64
"""Maximal number of parts of the gradient of V, and minimal number of words of a part."""


def rows_per_part(n_words: int) -> int:
    """Return how many tokens a thread takes at a time.

    >>> rows_per_part(158), rows_per_part(200_000)
    (768, 64)
    """
    return max(PART_LOGITS // n_words // ROW_STEP, 1) * ROW_STEP


def softmax_layer(
    ids_N: Integers,
    loss_weight_N: Floats,
    hidden_NH: Floats,
    V_TH: Floats,
    b_T: Floats,
    activation: str,
    grad_V_TH: Floats,
    grad_b_T: Floats,
) -> Floats:
    """Compute the output layer of a softmax, see `OutputLayer`."""
    nll_N = np.empty(len(ids_N), np.float32)
    words_N, weight_N = torch.from_numpy(ids_N).long(), torch.from_numpy(loss_weight_N)
    V_KH, b_K, grad_V, grad_b = map(torch.from_numpy, (V_TH, b_T, grad_V_TH, grad_b_T))
    part = rows_per_part(len(V_TH))
    n_rows = max(LOGITS // len(V_TH) // part, 1) * part
    for start in range(0, len(ids_N), n_rows):
        rows = slice(start, start + n_rows)
        _run_tile(
            torch.from_numpy(hidden_NH[rows]), V_KH, b_K, words_N[rows], weight_N[rows],
            torch.from_numpy(nll_N[rows]), activation, grad_V, grad_b,
            small=hidden_NH.size < SMALL_WORK,
        )  # fmt: skip
    return nll_N


def _run_tile(
    hidden_NH: Tensor,
    V_KH: Tensor,
    b_K: Tensor,
    words_N: Tensor,
    weight_N: Tensor,
    nll_N: Tensor,
    activation: str,
    grad_V: Tensor,
    grad_b: Tensor,
    *,
    small: bool,
) -> None:
    """Write the costs of tokens whose logits exist at the same time.

    Also add the gradients of V and b, and replace the hidden units by the gradients of the
    activations, unless `grad_V` is empty.
    """
    n_tokens, n_words = len(words_N), len(V_KH)
    delta_NK = torch.empty(n_tokens, n_words, dtype=hidden_NH.dtype)
    grad_NH = torch.empty_like(hidden_NH)
    want_gradients, part = len(grad_V) > 0, rows_per_part(n_words)

    def write_rows(start: int) -> None:
        rows = slice(start, start + part)
        nll_N[rows] = write_softmax_delta(
            hidden_NH[rows], V_KH, b_K, words_N[rows, None], weight_N[rows, None], delta_NK[rows]
        )
        if want_gradients:
            torch.mm(delta_NK[rows], V_KH, out=grad_NH[rows])

    run_parts(write_rows, range(0, n_tokens, part), small=small)
    if not want_gradients:
        return
    width = max(-(-n_words // MAX_WORD_PARTS), MIN_PART_WORDS)

    def add_words(start: int) -> None:
        words = slice(start, start + width)
        grad_V[words].addmm_(delta_NK[:, words].T, hidden_NH)
        grad_b[words] += delta_NK[:, words].sum(dim=0)

    run_parts(add_words, range(0, n_words, width), small=small)

    def replace_hidden(start: int) -> None:
        rows = slice(start, start + part)
        hidden = hidden_NH[rows]
        hidden.copy_(grad_NH[rows].mul_(slope(activation, hidden)))

    run_parts(replace_hidden, range(0, n_tokens, part), small=small)


def softmax_nll(batch: Batch, parameters: Parameters, activation: str) -> DocumentTerms:
    """See `operations.softmax_nll`."""
    inputs = partial(evaluate, softmax_layer, activation), batch
    terms = FusedTerms.apply(*inputs, parameters.need_gradients, *parameters)  # type: ignore[no-untyped-call]
    return DocumentTerms(*terms)
