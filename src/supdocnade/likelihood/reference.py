"""Algorithm 1 of the paper as loops in float64. Every other backend must agree with it.

Only the forward computation is written down; torch derives the gradients. The paper's Algorithm 2
is wrong as printed (`tests/unit/likelihood/test_reference.py`).
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import softplus

from supdocnade.likelihood import Activation
from supdocnade.likelihood.contract import Batch, DocumentTerms, Parameters, activate
from supdocnade.tree import WordTree

WordNLL = Callable[[int, Tensor], Tensor]
"""(word, hidden_H) -> -log p(word | hidden)."""


def _run_algorithm_1(
    batch: Batch, parameters: Parameters, word_nll: WordNLL, activation: Activation
) -> DocumentTerms:
    """Sum -log p and the embeddings of every document, word by word."""
    W_KH, n_topics = parameters.word_embedding_KH, parameters.word_embedding_KH.shape[1]
    c_BH = parameters.hidden_bias_H.expand(batch.n_documents, n_topics)
    limit = len(W_KH) if batch.n_summary_words is None else batch.n_summary_words
    nll, summary = [], []
    for c_H, (start, stop) in zip(c_BH, pairwise(batch.offsets_B1.tolist()), strict=True):
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
        return DocumentTerms(c_BH.sum(dim=1), c_BH)
    return DocumentTerms(torch.stack(nll), torch.stack(summary))


def tree_nll(
    batch: Batch, parameters: Parameters, tree: WordTree, activation: Activation
) -> DocumentTerms:
    """See `operations.tree_nll`."""
    V_TH, b_T = parameters.node_weight_TH, parameters.node_bias_T
    nodes_KL, signs_KL = tree.paths

    def word_nll(word: int, hidden_H: Tensor) -> Tensor:
        """Return Σ_m -log p(π(v)_m) over the path of the word, paper equations 3 and 4."""
        total = hidden_H.new_zeros(())
        for node, sign in zip(nodes_KL[word].tolist(), signs_KL[word].tolist(), strict=True):
            if sign != 0:
                # -log σ(s z) = softplus(-s z), which stays finite where σ underflows.
                total = total + softplus(-sign * (b_T[node] + torch.dot(V_TH[node], hidden_H)))
        return total

    return _run_algorithm_1(batch, parameters, word_nll, activation)


def softmax_nll(batch: Batch, parameters: Parameters, activation: Activation) -> DocumentTerms:
    """See `operations.softmax_nll`."""
    V_KH, b_K = parameters.node_weight_TH, parameters.node_bias_T

    def word_nll(word: int, hidden_H: Tensor) -> Tensor:
        """Return -log softmax(b + V h)_v, paper equation 2."""
        logits_K = b_K + V_KH @ hidden_H
        return torch.logsumexp(logits_K, dim=0) - logits_K[word]

    return _run_algorithm_1(batch, parameters, word_nll, activation)
