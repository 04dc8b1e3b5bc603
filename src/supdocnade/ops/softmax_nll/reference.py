"""The softmax likelihood as loops in float64: what every other backend must agree with."""

import torch
from torch import Tensor

from supdocnade.ops.algorithm_1 import algorithm_1
from supdocnade.ops.contract import DocumentBatch, DocumentTerms, Parameters


def softmax_nll(batch: DocumentBatch, parameters: Parameters, activation: str) -> DocumentTerms:
    """See `supdocnade.ops.softmax_nll`."""
    V_KH, b_K = parameters.node_weight_TH, parameters.node_bias_T

    def word_nll(word: int, hidden_H: Tensor) -> Tensor:
        """-log softmax(b + V h)_v, paper equation 2."""
        logits_K = b_K + V_KH @ hidden_H
        return torch.logsumexp(logits_K, dim=0) - logits_K[word]

    return algorithm_1(batch, parameters, word_nll, activation)
