"""Bags of words under one vector of hidden units per document, in plain torch on any device.

With several hidden layers, all words after a split point are predicted from the same hidden units
(`model.layers`). So an output layer needs one logit per document and row of V, a matrix product,
and a word layer needs the sum of the embeddings of a bag, another one:

    Σ_k x_k W[v_k] = X W              X: (B, K) weights of the words before the split
    tree:    Σ_n (l_n + r_n) softplus(z_n) - r_n z_n,  z = V h + b
    softmax: -Σ_v w_v log softmax(z)_v

where l_n and r_n are the weights of the words below node n, to its left and to its right. Only the
rows of W and V that a batch touches are multiplied, unless most of them are.
"""

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding, pad, softplus

from supdocnade.likelihood.contract import Parameters, has_sparse_gradients
from supdocnade.likelihood.cpu.bag_counts import sum_node_weights
from supdocnade.likelihood.cpu.products import apply_layer, multiply
from supdocnade.tree import WordTree

FIXED_POINT = 2.0**30
"""Steps into which weights that are summed on a GPU are rounded: float64 then holds the sums of 2²³
tokens exactly."""


class WordBag(NamedTuple):
    """Words of documents, in no particular order."""

    document_N: Tensor
    """Document of every token."""
    ids_N: Tensor
    """Words, int64."""
    weight_N: Tensor
    """Weights, not negative; tokens of weight 0 are none."""
    n_documents: int

    def sum_weights(self, place_N: Tensor, n_places: int) -> Tensor:
        """Return the sum of the weights of the tokens at every place, float64, (places,).

        Tokens of different documents have different places. The order of additions on a GPU is
        random, so there weights are rounded first, to multiples of a power of two: their sums, and
        the sums of these, are exact in any order.
        """
        weight_N = self.weight_N.double()
        if weight_N.is_cuda:
            weight_N = self._round_weights(weight_N)
        return weight_N.new_zeros(n_places).scatter_add_(0, place_N, weight_N)

    def _round_weights(self, weight_N: Tensor) -> Tensor:
        """Round to 1 / `FIXED_POINT` of the power of two above the largest weight of a document."""
        largest_B = weight_N.new_zeros(self.n_documents)
        largest_B = largest_B.scatter_reduce(0, self.document_N, weight_N, "amax")
        power_B = largest_B / torch.frexp(largest_B).mantissa
        unit_B = torch.where(largest_B > 0, power_B, 1.0) / FIXED_POINT
        unit_N = unit_B[self.document_N]
        return (weight_N / unit_N).round() * unit_N

    def counts(self, n_words: int) -> Tensor:
        """Return the sum of the weights by document and word, float64, (B, K)."""
        place_N = self.document_N * n_words + self.ids_N
        return self.sum_weights(place_N, self.n_documents * n_words).view(-1, n_words)

    def drop_empty(self) -> "WordBag":
        """Return the bag without the tokens of weight 0."""
        return self.take(self.weight_N.nonzero()[:, 0])

    def take(self, tokens: Tensor) -> "WordBag":
        """Return the bag of some tokens, given by their numbers."""
        return WordBag(
            self.document_N[tokens], self.ids_N[tokens], self.weight_N[tokens], self.n_documents
        )


def embed_bags(bags: Sequence[WordBag], table_KH: Tensor) -> Tensor:
    """Return the weighted sums of the rows of the words, (bags × B, H).

    Parameters
    ----------
    bags : the same tokens with different weights.
    """
    n_words, tokens = len(table_KH), bags[0]
    if has_sparse_gradients(n_words):
        # A row that no document needs must not have a gradient, not even zero.
        kept = torch.stack([bag.weight_N for bag in bags]).sum(dim=0).nonzero()[:, 0]
        bags = [bag.take(kept) for bag in bags]
        tokens = bags[0]
    rows_R, column_N = touched_rows(tokens.ids_N, n_words, n_words)
    n_columns = n_words if rows_R is None else len(rows_R)
    place_N, n_places = tokens.document_N * n_columns + column_N, tokens.n_documents * n_columns
    counts = torch.stack([bag.sum_weights(place_N, n_places) for bag in bags])
    counts_XR = counts.view(-1, n_columns)
    return multiply(counts_XR.to(table_KH.dtype), take_rows(table_KH, rows_R, n_words))


def touched_rows(rows: Tensor, n_rows: int, n_words: int) -> tuple[Tensor | None, Tensor]:
    """Return the different rows of a table in order, and the place of each given row among them.

    Parameters
    ----------
    rows : rows that are touched, of any shape.
    n_words : K, above `SPARSE_ROWS` of which gradients are sparse.

    Returns
    -------
    None, and the given rows, if all rows of the table should be used: if the given ones are more
    than half of them, or if they are very many, or on a GPU, which would have to wait for their
    number.
    """
    sparse = has_sparse_gradients(n_words)
    if not sparse and (rows.is_cuda or rows.numel() > 8 * n_rows):
        return None, rows
    touched = torch.zeros(n_rows, dtype=torch.bool, device=rows.device)
    touched[rows.flatten()] = True
    rows_R = touched.nonzero()[:, 0]
    if not sparse and 2 * len(rows_R) > n_rows:
        return None, rows
    return rows_R, (touched.cumsum(0) - 1)[rows]


def take_rows(table: Tensor, rows_R: Tensor | None, n_words: int) -> Tensor:
    """Return some rows of a table, or all; with many words its gradient is sparse."""
    if rows_R is None:
        return table
    return embedding(rows_R, table, sparse=has_sparse_gradients(n_words))


def tree_bag_nll(hidden_BH: Tensor, bag: WordBag, parameters: Parameters, tree: WordTree) -> Tensor:
    """Return the weighted sum of -log p(word | hidden) over the words of every document, (B,)."""
    tables = _load_tables(tree, hidden_BH.device)
    # The smaller of two sums: over the decisions of all tokens, or over all logits. The order of
    # additions to the gradient of a logit would be random on a GPU.
    n_logits, n_decisions = len(hidden_BH) * tree.n_nodes, len(bag.ids_N) * tree.depth
    if not hidden_BH.is_cuda and n_decisions < n_logits:
        bag = bag.drop_empty()
        nodes_NL, signs_NL = tables.nodes_KL[bag.ids_N].long(), tables.signs_KL[bag.ids_N]
        rows_R, column_NL = touched_rows(nodes_NL, tree.n_nodes, tree.n_words)
        bias_R, rows_RH = _take_nodes(parameters, rows_R, tree)
        logits_BR = apply_layer(hidden_BH, rows_RH, bias_R)
        return _sum_decisions(logits_BR, bag, column_NL, signs_NL)
    if has_sparse_gradients(tree.n_words):
        bag = bag.drop_empty()
        words_R, _ = touched_rows(bag.ids_N, tree.n_words, tree.n_words)
        rows_R, _ = touched_rows(tables.nodes_KL[words_R].long(), tree.n_nodes, tree.n_words)
        return tree_counts_nll(hidden_BH, bag.counts(tree.n_words), parameters, tree, rows_R)
    return tree_counts_nll(hidden_BH, bag.counts(tree.n_words), parameters, tree)


def tree_counts_nll(
    hidden_BH: Tensor,
    weight_BK: Tensor,
    parameters: Parameters,
    tree: WordTree,
    rows_R: Tensor | None = None,
) -> Tensor:
    """Return the weighted sum of -log p(word | hidden) over the words of every document, (B,).

    Parameters
    ----------
    weight_BK : weights of the words, float64.
    rows_R : nodes above the words that have weights; None: all.
    """
    bias_R, rows_RH = _take_nodes(parameters, rows_R, tree)
    logits_BR = apply_layer(hidden_BH, rows_RH, bias_R)
    all_BR, right_BR = _sum_nodes(weight_BK, tree, logits_BR.dtype)
    if rows_R is not None:
        all_BR, right_BR = all_BR[:, rows_R], right_BR[:, rows_R]
    return (all_BR * softplus(logits_BR) - right_BR * logits_BR).sum(dim=1)


class _TreeTables(NamedTuple):
    """Tables of a tree as tensors."""

    nodes_KL: Tensor
    signs_KL: Tensor
    leaf_K: Tensor
    spans_3T: Tensor
    """First leaf, first leaf to the right, and end, of every node."""


_TABLES: "WeakKeyDictionary[WordTree, dict[torch.device, _TreeTables]]" = WeakKeyDictionary()


def _load_tables(tree: WordTree, device: torch.device) -> _TreeTables:
    """Return the tables of a tree, copied to a device once: a recorded update cannot copy them."""
    copies = _TABLES.setdefault(tree, {})
    if device not in copies:
        arrays = *tree.paths, tree.leaf_of_word_K.astype(np.int64), np.stack(tree.spans)
        copies[device] = _TreeTables(*(torch.from_numpy(each).to(device) for each in arrays))
    return copies[device]


def _take_nodes(
    parameters: Parameters, rows_R: Tensor | None, tree: WordTree
) -> tuple[Tensor, Tensor]:
    """Return the biases and the weights of some nodes, or of all."""
    bias_R = parameters.node_bias_T if rows_R is None else parameters.node_bias_T[rows_R]
    return bias_R, take_rows(parameters.node_weight_TH, rows_R, tree.n_words)


def _sum_decisions(logits_BR: Tensor, bag: WordBag, column_NL: Tensor, signs_NL: Tensor) -> Tensor:
    """Return Σ_i w_i Σ_m softplus(-π_m z_m) over the decisions on the paths of the tokens, (B,)."""
    signs_NL = signs_NL.to(logits_BR.dtype)
    places_NL = bag.document_N[:, None] * logits_BR.shape[1] + column_NL
    chosen_NL = logits_BR.flatten().gather(0, places_NL.flatten()).view_as(signs_NL)
    nll_N = (softplus(-signs_NL * chosen_NL) * signs_NL.abs()).sum(dim=1) * bag.weight_N
    return nll_N.new_zeros(bag.n_documents).index_add(0, bag.document_N, nll_N)


def _sum_nodes(weight_BK: Tensor, tree: WordTree, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the weights of the words below every node, and of those to its right, (B, T) each."""
    if not weight_BK.is_cuda:
        return sum_node_weights(weight_BK, tree, dtype)
    tables = _load_tables(tree, weight_BK.device)
    at_leaf_BK = torch.empty_like(weight_BK).index_copy_(1, tables.leaf_K, weight_BK)
    before_BK = pad(at_leaf_BK.cumsum(dim=1), (1, 0))
    first_BT, middle_BT, end_BT = (before_BK[:, leaf_T] for leaf_T in tables.spans_3T)
    return (end_BT - first_BT).to(dtype), (end_BT - middle_BT).to(dtype)
