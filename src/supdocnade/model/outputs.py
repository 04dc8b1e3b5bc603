"""Output layers, p(word | hidden units): a tree of binary decisions, a softmax, or one's own."""

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.checks import check_shape
from supdocnade.likelihood import Activation, vectorized
from supdocnade.likelihood.contract import Batch, DocumentTerms, Parameters
from supdocnade.likelihood.operations import softmax_nll, tree_nll
from supdocnade.tree import WordTree


class WordOutput:
    """An output layer: p(word | hidden units).

    A layer of one's own derives from this class and defines `log_prob`; the other methods are those
    of a softmax. It has no parameters but V and b, and it is made anew wherever it is needed, so
    `WordOutput(n_words)` must always give the same layer.

    Parameters
    ----------
    n_words : K, the size of the joint vocabulary.
    """

    has_backends = False
    """Whether all backends of the likelihood compute `nll`, or plain torch alone."""

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
        self,
        batch: Batch,
        parameters: Parameters,
        *,
        activation: Activation,
    ) -> DocumentTerms:
        """Return the negative log-likelihood of documents, and their summaries."""
        hidden_NH, summary_BH = vectorized.prefix_sums(batch, parameters, activation)
        words_K = torch.arange(self.n_words, device=hidden_NH.device)
        log_p_NK = self.log_prob(hidden_NH, parameters, words_K)
        log_p_N = log_p_NK.gather(1, batch.word_ids_N.long()[:, None])[:, 0]
        return DocumentTerms(vectorized.sum_by_document(-log_p_N, batch), summary_BH)


class TreeOutput(WordOutput):
    """Tree output: p(word) is the product of the decisions on its path (equations 3 and 4)."""

    has_backends = True

    def __init__(self, tree: WordTree):
        super().__init__(tree.n_words)
        self.tree = tree
        self.nll = partial(tree_nll, tree=tree)  # type: ignore[method-assign]

    @property
    def n_rows(self) -> int:
        """See `WordOutput`."""
        return self.tree.n_nodes

    def unigram_bias(self, counts_K: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `WordOutput`."""
        return self.tree.log_odds(counts_K)


class SoftmaxOutput(WordOutput):
    """Softmax output: p(word) is a softmax over all words (equation 2)."""

    has_backends = True
    nll = staticmethod(softmax_nll)
