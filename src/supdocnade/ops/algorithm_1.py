"""Algorithm 1 of the paper as loops: the forward computation that every backend must agree with.

Only the forward computation is written down; torch derives the gradients from it. The paper's
Algorithm 2 is not followed, because as printed it is wrong (tests/unit/ops/test_algorithm_2.py).
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from supdocnade.ops.contract import DocumentBatch, DocumentTerms, Parameters, activate

WordNLL = Callable[[int, Tensor], Tensor]
"""(word, hidden_H) -> -log p(word | hidden)."""


def algorithm_1(
    batch: DocumentBatch, parameters: Parameters, word_nll: WordNLL, activation: str
) -> DocumentTerms:
    """Walk through every document, one word after the other."""
    W_KH, c_H = parameters.word_embedding_KH, parameters.hidden_bias_H
    limit = len(W_KH) if batch.n_summary_words is None else batch.n_summary_words
    nll, summary = [], []
    for start, stop in pairwise(batch.offsets_B1.tolist()):
        a_H, summary_H, total = c_H, c_H, c_H.new_zeros(())
        for i in range(start, stop):
            word = int(batch.word_ids_N[i])
            input_weight = 1 if batch.input_weight_N is None else batch.input_weight_N[i]
            loss_weight = 1 if batch.loss_weight_N is None else batch.loss_weight_N[i]
            hidden_H = activate(activation, a_H)
            total = total + loss_weight * word_nll(word, hidden_H)
            a_H = a_H + input_weight * W_KH[word]
            if word < limit:
                summary_H = summary_H + input_weight * W_KH[word]
        nll.append(total)
        summary.append(summary_H)
    if not nll:
        return DocumentTerms(c_H.sum().expand(0), c_H.expand(0, len(c_H)))
    return DocumentTerms(torch.stack(nll), torch.stack(summary))
