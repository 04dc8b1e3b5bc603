"""The tree's likelihood as loops in float64: what every other backend must agree with."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from supdocnade.ops.algorithm_1 import algorithm_1
from supdocnade.ops.contract import DocumentBatch, DocumentTerms, Parameters
from supdocnade.tree import WordTree


def tree_nll(
    batch: DocumentBatch, parameters: Parameters, tree: WordTree, activation: str
) -> DocumentTerms:
    """See `supdocnade.ops.tree_nll`."""
    V_TH, b_T = parameters.node_weight_TH, parameters.node_bias_T
    nodes_KL, signs_KL = tree.paths

    def word_nll(word: int, hidden_H: Tensor) -> Tensor:
        """-log p(v): the sum over its path of -log p(π(v)_m), paper equations 3 and 4."""
        total = hidden_H.new_zeros(())
        for node, sign in zip(nodes_KL[word].tolist(), signs_KL[word].tolist(), strict=True):
            if sign != 0:
                # -log σ(s z) is written softplus(-s z), which cannot become -log 0.
                total = total + softplus(-sign * (b_T[node] + torch.dot(V_TH[node], hidden_H)))
        return total

    return algorithm_1(batch, parameters, word_nll, activation)
