"""The softmax likelihood and its gradients on a GPU, by torch's matrix products.

The logits of a part of the tokens exist at a time. Only the GPU knows the number of
tokens, so entries after the last token are computed, too, as tokens of weight zero.
"""

from typing import Any

import torch
from torch import Tensor

from supdocnade.cuda.engine import FinishNodes, OutputLayer, compute_terms
from supdocnade.cuda.rows import SLOTS, SortedTokens
from supdocnade.likelihood.contract import Batch, DocumentTerms, Parameters
from supdocnade.likelihood.vectorized import slope, write_softmax_delta

LOGITS = 2**26
"""Number of logits that exist at a time: 256 MiB, or those of one token if these are more."""


class SoftmaxLayer(OutputLayer):
    """The softmax as an output layer of the GPU engine; the key of a word is its number."""

    def __init__(self, n_words: int, device: torch.device):
        n_keys = -(-n_words // SLOTS) * SLOTS
        keys = torch.arange(n_keys, dtype=torch.int32, device=device)
        super().__init__(keys[:n_words], keys.masked_fill(keys >= n_words, -1))

    def run(
        self,
        tokens: SortedTokens,
        parameters: Parameters,
        prepared: tuple[Tensor, ...],
        hidden_NS: Tensor,
        options: dict[str, Any],
    ) -> tuple[Tensor, FinishNodes | None]:
        """See `OutputLayer`."""
        V_KH, b_K = parameters.node_weight_TH, parameters.node_bias_T
        (K, H), N = V_KH.shape, len(hidden_NS)
        unused_N1 = (torch.arange(N, device=V_KH.device) >= tokens.n_tokens)[:, None]
        words_N1 = tokens.batch.word_ids_N.long()[:, None].masked_fill(unused_N1, 0)
        weight_N = tokens.batch.loss_weight_N
        weight_N1 = V_KH.new_ones(N, 1) if weight_N is None else weight_N[:, None]
        weight_N1 = weight_N1.masked_fill(unused_N1, 0.0)
        nll_N = V_KH.new_empty(N)
        grad_V, grad_b = torch.zeros_like(V_KH), torch.zeros_like(b_K)
        step = max(LOGITS // K, 1)
        for start in range(0, N, step):
            rows = slice(start, start + step)
            hidden_MH = hidden_NS[rows, :H].float().masked_fill(unused_N1[rows], 0.0)
            delta_MK = torch.empty(len(hidden_MH), K, device=V_KH.device)
            nll_N[rows] = write_softmax_delta(
                hidden_MH, V_KH, b_K, words_N1[rows], weight_N1[rows], delta_MK
            )
            if options["GRADIENTS"]:
                grad_V.addmm_(delta_MK.T, hidden_MH)
                grad_b += delta_MK.sum(dim=0)
                hidden_NS[rows, :H] = delta_MK @ V_KH * slope(options["ACTIVATION"], hidden_MH)
        if not options["GRADIENTS"]:
            return nll_N, None
        return nll_N, lambda scale: (grad_V.mul_(scale), grad_b.mul_(scale))


def softmax_nll(batch: Batch, parameters: Parameters, activation: str) -> DocumentTerms:
    """See `operations.softmax_nll`."""
    W_KH = parameters.word_embedding_KH
    return compute_terms(SoftmaxLayer(len(W_KH), W_KH.device), activation, batch, parameters)
