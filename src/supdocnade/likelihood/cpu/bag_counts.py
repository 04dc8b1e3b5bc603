"""Words of documents counted by kernels, for networks with several hidden layers.

Documents are independent, so threads take whole documents.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.jit import kernel
from supdocnade.likelihood.contract import DocumentBatch
from supdocnade.likelihood.cpu.threads import SMALL_WORK, even_ranges, n_threads, run_parts
from supdocnade.tree import WordTree


class SplitCounts(NamedTuple):
    """Weights of the words of documents, before and after their split points."""

    before_BK: Tensor
    """Input weights of the words before the split point."""
    whole_BK: Tensor
    """Input weights of all words that enter the summary; no rows if it is not needed."""
    after_BK: Tensor
    """Loss weights of the words after the split point, float64."""
    n_after_B: Tensor
    """Number of these."""


@kernel
def add_tokens(
    first, last, offsets, ids, given, inputs, losses, limit, before_BK, whole_BK, after_BK, n_after
):
    """Add the weights of the tokens of the documents `first:last`; no weights mean ones."""
    for d in range(first, last):
        for i in range(offsets[d], offsets[d + 1]):
            word = ids[i]
            x = inputs[i] if inputs.size else 1.0
            if given[i]:
                before_BK[d, word] += x
            else:
                after_BK[d, word] += losses[i] if losses.size else 1.0
                n_after[d] += 1
            if word < limit and whole_BK.shape[0]:
                whole_BK[d, word] += x


@kernel
def write_node_weights(first, last, weight_BK, leaf_of_word, lo, mid, hi, all_BT, right_BT):
    """Write the weights of the words below every node, and of those to its right."""
    n_words = weight_BK.shape[1]
    before = np.zeros(n_words + 1)
    for d in range(first, last):
        for word in range(n_words):
            before[leaf_of_word[word] + 1] = weight_BK[d, word]
        for leaf in range(n_words):
            before[leaf + 1] += before[leaf]
        for node in range(lo.size):
            all_BT[d, node] = before[hi[node]] - before[lo[node]]
            right_BT[d, node] = before[hi[node]] - before[mid[node]]


def count_split(
    batch: DocumentBatch, n_words: int, dtype: torch.dtype, *, with_summary: bool
) -> SplitCounts:
    """Return the weights of the words before and after the split points of a batch.

    Parameters
    ----------
    batch : checked, with `given_N`.
    dtype : of the weights before the split point.
    with_summary : also count whole documents.
    """
    assert batch.given_N is not None, "a batch with split points"
    n_documents = batch.n_documents
    shape = n_documents, n_words
    counts = SplitCounts(
        torch.zeros(shape, dtype=dtype),
        torch.zeros(shape if with_summary else (0, n_words), dtype=dtype),
        torch.zeros(shape, dtype=torch.float64),
        torch.zeros(n_documents, dtype=torch.int64),
    )
    offsets, ids = batch.offsets_B1.numpy(), batch.word_ids_N.numpy()
    none = torch.zeros(0, dtype=dtype)
    inputs, losses = (
        (none if each is None else each).numpy()
        for each in (batch.input_weight_N, batch.loss_weight_N)
    )
    limit = n_words if batch.n_summary_words is None else batch.n_summary_words
    arrays = offsets, ids, batch.given_N.numpy(), inputs, losses, limit
    results = [each.numpy() for each in counts]
    run_parts(
        lambda part: add_tokens(*part, *arrays, *results),
        even_ranges(offsets, n_threads()),
        small=8 * len(ids) < SMALL_WORK,
    )
    return counts


def sum_node_weights(
    weight_BK: Tensor, tree: WordTree, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return the weights of the words below every node, and of those to its right, (B, T) each."""
    n_documents = len(weight_BK)
    tables: tuple[NDArray[np.integer], ...] = (tree.leaf_of_word_K, *tree.spans)
    results = [torch.empty(n_documents, tree.n_nodes, dtype=dtype) for _ in range(2)]
    arrays = weight_BK.numpy(), *tables, *(each.numpy() for each in results)
    run_parts(
        lambda part: write_node_weights(*part, *arrays),
        even_ranges(np.arange(n_documents + 1), n_threads()),
        small=4 * weight_BK.numel() < SMALL_WORK,
    )
    return results[0], results[1]
