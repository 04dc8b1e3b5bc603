"""The tree's likelihood and its gradients in one fused pass on the CPU.

The tokens of a block are sorted by leaf and walked through in that order, a tile at a time.
Consecutive tokens share most of the nodes above them, so a row of V and its gradient, once fetched
into the nearest caches, serve all tokens below that node in a row, and tokens that share a node are
multiplied with its row several at a time. In the order of the document every token would fetch its
whole path anew.

The walk is cut at fixed subtrees. A part owns the nodes of its subtree; the few nodes above it are
shared with other parts, so it keeps their gradients apart, and these are added up in order.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.ops.contract import DocumentBatch, DocumentTerms, Parameters
from supdocnade.ops.cpu_engine import Block, CPUEngine, Floats, Integers
from supdocnade.ops.eager import Gradients, differentiable
from supdocnade.ops.threads import run_parts
from supdocnade.ops.tree_nll.cpu_kernels import touched_nodes, walk
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


@dataclass(frozen=True, eq=False)
class TreeLayer:
    """The tree as an output layer of the CPU engine."""

    tree: WordTree

    @cached_property
    def parts(self) -> list[Subtree]:
        """The fixed parts of the walk."""
        return subtrees(self.tree.n_words, SUBTREE_DEPTH)

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
        order, leaves = self._sort(block.documents.ids_N[block.tokens])
        loss_weight_N = block.documents.loss_weight_N[block.tokens]
        nll_N = np.zeros(len(order), np.float32)
        top_V = np.zeros((len(self.parts), SUBTREE_DEPTH, hidden_NH.shape[1]), np.float32)
        top_b = np.zeros((len(self.parts), SUBTREE_DEPTH), np.float32)
        if gradients is None:
            slots_T, grad_V, grad_b = np.empty(0, np.int32), top_V[0], top_b[0]
        else:
            slots_T = gradients.node_weight.slots
            grad_V, grad_b = gradients.node_weight.values, gradients.node_bias_T
        edges = np.searchsorted(leaves, [part.lo for part in self.parts] + [self.tree.n_words])

        def walk_part(number: int) -> None:
            walk(
                edges[number], edges[number + 1], len(self.parts[number].above), order, leaves,
                self.tree.n_words, loss_weight_N, activation, hidden_NH, V_TH, b_T,
                slots_T, grad_V, grad_b, top_V[number], top_b[number], nll_N,
            )  # fmt: skip

        busy = np.flatnonzero(np.diff(edges)).tolist()
        run_parts(walk_part, busy, small=block.small)
        if gradients is not None:
            for number in busy:
                for level, node in enumerate(self.parts[number].above):
                    grad_V[slots_T[node]] += top_V[number, level]
                    grad_b[node] += top_b[number, level]
        return nll_N

    def _sort(self, ids_N: Integers) -> tuple[Integers, Integers]:
        """Return the places of the tokens in the order of their leaves, and those leaves."""
        # The place makes keys unique, so every sorting algorithm gives this order.
        place_bits = len(ids_N).bit_length()
        leaves_N = self.tree.leaf_of_word_K[ids_N].astype(np.uint64)
        keys = (leaves_N << np.uint64(place_bits)) | np.arange(len(ids_N), dtype=np.uint64)
        if place_bits + self.tree.depth <= 32:  # Half the bytes are sorted in half the time.
            keys = np.sort(keys.astype(np.uint32)).astype(np.uint64)
        else:
            keys.sort()
        order = keys & np.uint64((1 << place_bits) - 1)
        return order.astype(np.int32), (keys >> np.uint64(place_bits)).astype(np.int32)


def tree_nll(
    batch: DocumentBatch, parameters: Parameters, tree: WordTree, activation: str
) -> DocumentTerms:
    """See `supdocnade.ops.tree_nll`."""
    return differentiable(CPUEngine(TreeLayer(tree), activation), batch, parameters)
