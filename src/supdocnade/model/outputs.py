"""Output layers, p(word | hidden units): a tree of binary decisions, a softmax, or one's own."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear, log_softmax, softplus

from supdocnade.checks import check_shape
from supdocnade.likelihood import Activation, vectorized
from supdocnade.likelihood.bags import WordBag, tree_bag_nll, tree_counts_nll
from supdocnade.likelihood.contract import DocumentBatch, DocumentTerms, Parameters
from supdocnade.likelihood.cpu.products import apply_layer
from supdocnade.likelihood.operations import SOFTMAX_NLL as softmax_nll_operation
from supdocnade.likelihood.operations import TREE_NLL as tree_nll_operation
from supdocnade.likelihood.operations import Operation, softmax_nll, tree_nll
from supdocnade.tree import WordTree

MAX_DECISIONS = 2**24
"""Decisions that `TreeOutput.log_prob` computes at a time: 64 MiB. Also the logits, or the entries
of rows of V, that `token_nll` has at a time."""


class WordOutput:
    """An output layer: p(word | hidden units).

    A layer of one's own derives from this class and defines `log_prob`; the other methods are those
    of a softmax. It has no parameters but V and b, and it is made anew wherever it is needed, so
    `WordOutput(n_words)` must always give the same layer.

    Parameters
    ----------
    n_words : K, the size of the joint vocabulary.
    """

    operation: Operation | None = None
    """Likelihood operation behind `nll`, with its backends; None: `nll` is plain torch."""

    def __init__(self, n_words: int):
        self.n_words = n_words

    @property
    def n_rows(self) -> int:
        """T, the number of rows of V and b; K by default."""
        return self.n_words

    def unigram_bias(self, counts_K: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return b, (T,), that gives words their smoothed frequencies when V is zero.

        By default they are log frequencies; counts are smoothed by one half, as in the tree.
        """
        check_shape("counts", counts_K.shape, (self.n_words,))
        frequency: NDArray[np.float64] = (counts_K + 0.5) / (counts_K + 0.5).sum()
        return np.log(frequency)

    def log_prob(self, hidden_BH: Tensor, parameters: Parameters, words: Tensor) -> Tensor:
        """Return log p(word | hidden) for every row of `hidden_BH` and every word of `words`.

        Parameters
        ----------
        parameters : `node_weight_TH` is V, `node_bias_T` is b.
        words : numbers of words; over all words the probabilities must sum to 1.
        """
        raise NotImplementedError

    def nll(
        self, batch: DocumentBatch, parameters: Parameters, activation: Activation, backend: str
    ) -> DocumentTerms:
        """Return the negative log-likelihood of documents, and their summaries."""
        hidden_NH, summary_BH = vectorized.prefix_sums(batch, parameters, activation)
        log_p_N = self._token_log_prob(hidden_NH, batch.word_ids_N.long(), parameters)
        return DocumentTerms(vectorized.sum_by_document(-log_p_N, batch), summary_BH)

    def token_nll(self, hidden_NH: Tensor, ids_N: Tensor, parameters: Parameters) -> Tensor:
        """Return -log p(word | hidden) of every token, each with hidden units of its own, (N,)."""
        step = max(MAX_DECISIONS // self.n_words, 1)
        parts = zip(torch.split(hidden_NH, step), torch.split(ids_N, step), strict=True)
        return -torch.cat([self._token_log_prob(*part, parameters) for part in parts])

    def bag_nll(self, hidden_BH: Tensor, bag: WordBag, parameters: Parameters) -> Tensor:
        """Return the weighted sum of -log p(word | hidden) over bags of words, (B,)."""
        return self.counts_nll(hidden_BH, bag.counts(self.n_words), parameters)

    def counts_nll(self, hidden_BH: Tensor, weight_BK: Tensor, parameters: Parameters) -> Tensor:
        """Return the weighted sum of -log p(word | hidden) over all words, (B,)."""
        words_K = torch.arange(self.n_words, device=hidden_BH.device)
        log_p_BK = self.log_prob(hidden_BH, parameters, words_K)
        return -(weight_BK.to(log_p_BK.dtype) * log_p_BK).sum(dim=1)

    def _token_log_prob(self, hidden_NH: Tensor, ids_N: Tensor, parameters: Parameters) -> Tensor:
        words_K = torch.arange(self.n_words, device=ids_N.device)
        log_p_NK = self.log_prob(hidden_NH, parameters, words_K)
        return log_p_NK.gather(1, ids_N[:, None])[:, 0]


class TreeOutput(WordOutput):
    """Tree output: p(word) is the product of the decisions on its path (equations 3 and 4)."""

    operation = tree_nll_operation

    def __init__(self, tree: WordTree):
        super().__init__(tree.n_words)
        self.tree = tree

    @property
    def n_rows(self) -> int:
        """See `WordOutput`."""
        return self.tree.n_nodes

    def unigram_bias(self, counts_K: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `WordOutput`."""
        return self.tree.log_odds(counts_K)

    def nll(
        self, batch: DocumentBatch, parameters: Parameters, activation: Activation, backend: str
    ) -> DocumentTerms:
        """See `WordOutput`."""
        return tree_nll(batch, parameters, self.tree, activation=activation, backend=backend)

    def token_nll(self, hidden_NH: Tensor, ids_N: Tensor, parameters: Parameters) -> Tensor:
        """See `WordOutput`."""
        step = max(MAX_DECISIONS // max(self.tree.depth * hidden_NH.shape[1], 1), 1)
        parts = zip(torch.split(hidden_NH, step), torch.split(ids_N, step), strict=True)
        return torch.cat(
            [vectorized.tree_token_nll(*part, parameters, self.tree) for part in parts]
        )

    def bag_nll(self, hidden_BH: Tensor, bag: WordBag, parameters: Parameters) -> Tensor:
        """See `WordOutput`."""
        return tree_bag_nll(hidden_BH, bag, parameters, self.tree)

    def counts_nll(self, hidden_BH: Tensor, weight_BK: Tensor, parameters: Parameters) -> Tensor:
        """See `WordOutput`."""
        return tree_counts_nll(hidden_BH, weight_BK, parameters, self.tree)

    def log_prob(self, hidden_BH: Tensor, parameters: Parameters, words: Tensor) -> Tensor:
        """See `WordOutput`."""
        _, _, V_TH, b_T = parameters
        nodes_KL, signs_KL = (
            torch.as_tensor(table, device=V_TH.device) for table in self.tree.paths
        )
        signs_XL = signs_KL[words].to(V_TH.dtype)
        # Only the nodes on the paths of these words are computed.
        rows, columns = torch.unique(nodes_KL[words].long(), return_inverse=True)
        if rows.numel() == 0:
            return hidden_BH.new_zeros(len(hidden_BH), len(words))
        chunk = max(MAX_DECISIONS // max(signs_XL.numel(), 1), 1)
        parts = []
        for part_BH in torch.split(hidden_BH, chunk):
            logits_BXL = linear(part_BH, V_TH[rows], b_T[rows])[:, columns]
            parts.append(-(softplus(-signs_XL * logits_BXL) * signs_XL.abs()).sum(dim=-1))
        return torch.cat(parts) if parts else hidden_BH.new_zeros(0, len(words))


class SoftmaxOutput(WordOutput):
    """Softmax output: p(word) is a softmax over all words (equation 2)."""

    operation = softmax_nll_operation

    def nll(
        self, batch: DocumentBatch, parameters: Parameters, activation: Activation, backend: str
    ) -> DocumentTerms:
        """See `WordOutput`."""
        return softmax_nll(batch, parameters, activation=activation, backend=backend)

    def counts_nll(self, hidden_BH: Tensor, weight_BK: Tensor, parameters: Parameters) -> Tensor:
        """See `WordOutput`."""
        _, _, V_KH, b_K = parameters
        log_p_BK = log_softmax(apply_layer(hidden_BH, V_KH, b_K), dim=1)
        return -(weight_BK.to(log_p_BK.dtype) * log_p_BK).sum(dim=1)

    def log_prob(self, hidden_BH: Tensor, parameters: Parameters, words: Tensor) -> Tensor:
        """See `WordOutput`."""
        logits_BK = linear(hidden_BH, parameters.node_weight_TH, parameters.node_bias_T)
        return log_softmax(logits_BK, dim=1)[:, words]
