"""The tree's likelihood and its gradients in one fused pass on the CPU.

The tokens of a block are sorted by leaf and processed in that order, one tile at a time.
Consecutive tokens share most of the nodes on their paths, so a row of V and its gradient stay in
the nearest caches for all tokens below that node, and tokens that share a node are multiplied with
its row several at a time. In document order every token would fetch its whole path again.

The walk is split at fixed subtrees, and each thread takes the next subtree when it has finished
one. A subtree owns its nodes. The few nodes above it are shared with other subtrees, so it collects
their gradients separately, and these are added in order at the end.
"""

from functools import cache, partial
from operator import call

import numpy as np
from numpy.typing import NDArray

from supdocnade.likelihood.contract import Batch, DocumentTerms, FusedTerms, Parameters
from supdocnade.likelihood.cpu.engine import Floats, Integers, evaluate
from supdocnade.likelihood.cpu.prefix_sums import ACTIVATION_CODES
from supdocnade.likelihood.cpu.tree_walk_kernels import (
    add_shared_gradients,
    sort_by_leaf,
    walk,
)
from supdocnade.threads import SMALL_WORK, n_threads, run_parts
from supdocnade.tree import WordTree

SUBTREE_DEPTH = 4
"""Depth at which the walk is split, into at most 2^4 subtrees."""


def split_tree(n_leaves: int, depth: int) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return the subtrees at a depth, left to right: first leaf, end, and the nodes above.

    >>> split_tree(5, 1)
    [(0, 3, (2,)), (3, 5, (2,))]
    """
    parts: list[tuple[int, int, tuple[int, ...]]] = [(0, n_leaves, ())]
    for _ in range(depth):
        halves: list[tuple[int, int, tuple[int, ...]]] = []
        for lo, hi, above in parts:
            if hi - lo == 1:
                halves.append((lo, hi, above))
                continue
            mid = (lo + hi + 1) // 2
            path = (*above, mid - 1)
            halves += [(lo, mid, path), (mid, hi, path)]
        parts = halves
    return parts


@cache
def _subtree_tables(
    n_leaves: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Return the first leaf and depth of every subtree, and the nodes above it.

    The nodes are a (subtrees, SUBTREE_DEPTH) table with as many valid entries as the depth.
    """
    parts = split_tree(n_leaves, SUBTREE_DEPTH)
    nodes_above = np.zeros((len(parts), SUBTREE_DEPTH), np.int64)
    for number, (_, _, above) in enumerate(parts):
        nodes_above[number, : len(above)] = above
    first_leaf = np.array([lo for lo, _, _ in parts], np.int32)
    return first_leaf, np.array([len(above) for _, _, above in parts]), nodes_above


def walk_tree(
    tree: WordTree,
    ids_N: Integers,
    loss_weight_N: Floats,
    hidden_NH: Floats,
    V_TH: Floats,
    b_T: Floats,
    activation: str,
    grad_V_TH: Floats,
    grad_b_T: Floats,
) -> Floats:
    """Compute the output layer of a tree, see `OutputLayer`."""
    if tree.n_nodes == 0:  # The only word has probability 1.
        hidden_NH[:] = 0
        return np.zeros(len(ids_N), np.float32)
    order, leaves = np.empty_like(ids_N), np.empty_like(ids_N)
    sort_by_leaf(ids_N, tree.leaf_of_word_K, order, leaves)
    first_leaf, depths, nodes_above = _subtree_tables(tree.n_words)
    edges = np.append(np.searchsorted(leaves, first_leaf), len(leaves))

    nll_N = np.empty(len(order), np.float32)
    top_V = np.zeros((*nodes_above.shape, hidden_NH.shape[1]), np.float32)
    top_b = np.zeros(nodes_above.shape, np.float32)
    walk_subtrees = partial(
        walk, np.zeros(1, np.int64), edges, depths, order, leaves, tree.n_words,
        loss_weight_N, ACTIVATION_CODES[activation], hidden_NH, V_TH, b_T, grad_V_TH, grad_b_T,
        top_V, top_b, nll_N,
    )  # fmt: skip
    run_parts(call, [walk_subtrees] * n_threads(), small=hidden_NH.size < SMALL_WORK)
    if len(grad_V_TH):
        add_shared_gradients(nodes_above, depths, top_V, top_b, grad_V_TH, grad_b_T)
    return nll_N


def tree_nll(
    batch: Batch, parameters: Parameters, tree: WordTree, activation: str
) -> DocumentTerms:
    """See `operations.tree_nll`."""
    inputs = partial(evaluate, partial(walk_tree, tree), activation), batch
    terms = FusedTerms.apply(*inputs, parameters.need_gradients, *parameters)  # type: ignore[no-untyped-call]
    return DocumentTerms(*terms)
