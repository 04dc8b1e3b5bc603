"""The full softmax over all words in plain torch, with products in bf16.

Frozen, and independent of the package.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding


def softmax_nll(
    word_ids_BD: Tensor, W_KH: Tensor, c_H: Tensor, V_KH: Tensor, b_K: Tensor
) -> Tensor:
    """Return the negative log-likelihood of documents of equal length, with ReLU units."""
    embedded_BDH = embedding(word_ids_BD, W_KH)
    before_BDH = embedded_BDH.cumsum(dim=1) - embedded_BDH
    hidden_NH = torch.relu(c_H + before_BDH).flatten(0, 1)
    logits_NK = torch.addmm(b_K.bfloat16(), hidden_NH.bfloat16(), V_KH.bfloat16().T)
    nll_N = cross_entropy(logits_NK, word_ids_BD.flatten(), reduction="none")
    return nll_N.view(word_ids_BD.shape).float().sum(dim=1)
