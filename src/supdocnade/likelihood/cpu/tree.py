"""The tree's likelihood and its gradients in one fused pass on the CPU.

The tokens of a block are sorted by leaf and walked through in that order, a tile at a time.
Consecutive tokens share most of the nodes above them, so a row of V and its gradient, once fetched
into the nearest caches, serve all tokens below that node in a row, and tokens that share a node are
multiplied with its row several at a time. In the order of the document every token would fetch its
whole path anew.

The walk is cut at fixed subtrees, of which each thread takes the next when it is done with one. A
subtree owns its nodes; the few nodes above it are shared with others, so it keeps their gradients
apart, and these are added up in order at the end.
"""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.likelihood.contract import DocumentBatch, DocumentTerms, Parameters
from supdocnade.likelihood.cpu.engine import Block, CPUEngine, Floats, Integers
from supdocnade.likelihood.cpu.threads import n_threads, run_parts
from supdocnade.likelihood.cpu.tree_kernels import add_tops, sort_by_leaf, touched_nodes, walk
from supdocnade.likelihood.fused_autograd import Gradients, differentiable
from supdocnade.tree import WordTree

SUBTREE_DEPTH = 4
"""The walk is cut into at most 2^4 parts."""


class Subtree(NamedTuple):
    """A part of the walk: the leaves `lo:hi` and the nodes above them that other parts share."""

    lo: int
    hi: int
    above: tuple[int, ...]


def subtrees(n_leaves: int, depth: int) -> list[Subtree]:
    """Cut the tree at a depth, left to right.

    >>> subtrees(5, 1)
    [Subtree(lo=0, hi=3, above=(2,)), Subtree(lo=3, hi=5, above=(2,))]
    """
    parts = [Subtree(0, n_leaves, ())]
    for _ in range(depth):
        halves: list[Subtree] = []
        for part in parts:
            if part.hi - part.lo == 1:
                halves.append(part)
                continue
            mid = (part.lo + part.hi + 1) // 2
            above = (*part.above, mid - 1)
            halves += [Subtree(part.lo, mid, above), Subtree(mid, part.hi, above)]
        parts = halves
    return parts


class Cut(NamedTuple):
    """The subtrees of a tree as arrays, one entry each."""

    first_leaf: NDArray[np.int32]
    depth: NDArray[np.int64]
    above: NDArray[np.int64]
    """(subtrees, SUBTREE_DEPTH): the nodes above, as many as `depth` says."""


@functools.cache
def cut(n_leaves: int) -> Cut:
    """Return the fixed parts of the walk over a tree of this size."""
    parts = subtrees(n_leaves, SUBTREE_DEPTH)
    above = np.zeros((len(parts), SUBTREE_DEPTH), np.int64)
    for number, part in enumerate(parts):
        above[number, : len(part.above)] = part.above
    first_leaf = np.array([part.lo for part in parts], np.int32)
    return Cut(first_leaf, np.array([len(part.above) for part in parts]), above)


@dataclass(frozen=True, eq=False)
class TreeLayer:
    """The tree as an output layer of the CPU engine."""

    tree: WordTree

    def touched_rows(self, ids_N: Integers) -> NDArray[np.int64]:
        """See `OutputLayer`."""
        seen = np.zeros(self.tree.n_words, np.bool_)
        seen[self.tree.leaf_of_word_K[ids_N]] = True
        nodes = np.empty(self.tree.n_nodes, np.int64)
        count = touched_nodes(np.flatnonzero(seen), self.tree.n_words, nodes)
        return np.sort(nodes[:count])

    def run(
        self,
        block: Block,
        hidden_NH: Floats,
        V_TH: Floats,
        b_T: Floats,
        activation: int,
        gradients: Gradients | None,
    ) -> Floats:
        """See `OutputLayer`."""
        if self.tree.n_nodes == 0:  # One word: nothing to decide, nothing to learn from it.
            hidden_NH[:] = 0
            return np.zeros(block.n_tokens, np.float32)
        ids_N = block.documents.ids_N[block.tokens]
        loss_weight_N = block.documents.loss_weight_N[block.tokens]
        order, leaves = np.empty_like(ids_N), np.empty_like(ids_N)
        sort_by_leaf(ids_N, self.tree.leaf_of_word_K, order, leaves)
        first_leaf, depths, above = cut(self.tree.n_words)
        edges = np.append(np.searchsorted(leaves, first_leaf), len(leaves))

        nll_N = np.empty(len(order), np.float32)
        top_V = np.zeros((*above.shape, hidden_NH.shape[1]), np.float32)
        top_b = np.zeros(above.shape, np.float32)
        if gradients is None:
            slots_T, grad_V, grad_b = np.empty(0, np.int32), top_V[0], top_b[0]
        else:
            slots_T = gradients.node_weight.slots
            grad_V, grad_b = gradients.node_weight.values, gradients.node_bias_T

        next_part = np.zeros(1, np.int64)

        def walk_parts(_: int) -> None:
            walk(
                next_part, edges, depths, order, leaves, self.tree.n_words, loss_weight_N,
                activation, hidden_NH, V_TH, b_T, slots_T, grad_V, grad_b, top_V, top_b, nll_N,
            )  # fmt: skip

        run_parts(walk_parts, range(n_threads()), small=block.small)
        if gradients is not None:
            add_tops(edges, above, depths, top_V, top_b, slots_T, grad_V, grad_b)
        return nll_N


def tree_nll(
    batch: DocumentBatch, parameters: Parameters, tree: WordTree, activation: str
) -> DocumentTerms:
    """See `operations.tree_nll`."""
    return differentiable(CPUEngine(TreeLayer(tree), activation), batch, parameters)
