"""The balanced binary tree of words: the inner nodes a word's path visits and the way it turns.

The tree over K leaves is fixed by one rule: the node over the leaves `lo:hi` splits them at
`mid = (lo + hi + 1) // 2`, and is node number `mid - 1`. So every node has a number of its own in
0 .. K - 2 (the in-order numbering), the nodes of a subtree are neighbours in memory, and a path
follows from the leaf's number alone. What is random, and stored, is which word sits at which leaf.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument

MAX_WORDS = 2**24


class Paths(NamedTuple):
    """The way from the root to every word, padded to the depth of the tree."""

    nodes_KL: NDArray[np.int32]
    """Inner nodes l(v); padding repeats node 0."""
    signs_KL: NDArray[np.int8]
    """Choices π(v): +1 right, -1 left, 0 padding."""


class Spans(NamedTuple):
    """The leaves `lo:mid` to the left and `mid:hi` to the right of every inner node."""

    lo_T: NDArray[np.int64]
    mid_T: NDArray[np.int64]
    hi_T: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class WordTree:
    """A balanced binary tree whose leaves are the K words.

    Parameters
    ----------
    leaf_of_word_K : int array, a permutation of 0 .. K - 1. The leaf at which each word sits.
    """

    leaf_of_word_K: NDArray[np.int32]

    def __post_init__(self) -> None:
        leaves = np.asarray(self.leaf_of_word_K)
        if leaves.ndim != 1 or not np.issubdtype(leaves.dtype, np.integer):
            raise InvalidArgument(
                "leaf_of_word must be a one-dimensional array of integers, "
                f"got shape {leaves.shape} of {leaves.dtype}."
            )
        if not 1 <= leaves.size <= MAX_WORDS:
            raise InvalidArgument(
                f"leaf_of_word must have 1 to {MAX_WORDS} entries, got {leaves.size}."
            )
        inside = leaves.min() >= 0 and leaves.max() < leaves.size
        if not inside or np.bincount(leaves, minlength=leaves.size).max() != 1:
            raise InvalidArgument(
                f"leaf_of_word must be a permutation of 0 .. {leaves.size - 1}, "
                "got repeated or missing leaves."
            )
        own = leaves.astype(np.int32)
        own.setflags(write=False)
        object.__setattr__(self, "leaf_of_word_K", own)

    @classmethod
    def random(cls, n_words: int, generator: np.random.Generator) -> "WordTree":
        """Place `n_words` words at random leaves, as the paper does."""
        return cls(generator.permutation(n_words).astype(np.int32))

    @property
    def n_words(self) -> int:
        """K, the number of leaves."""
        return int(self.leaf_of_word_K.size)

    @property
    def n_nodes(self) -> int:
        """T = K - 1, the number of inner nodes."""
        return self.n_words - 1

    @property
    def depth(self) -> int:
        """L, the length of the longest path: the binary logarithm of K, rounded up."""
        return self.n_nodes.bit_length()

    @cached_property
    def paths(self) -> Paths:
        """Return every word's path (made once; K × L entries)."""
        leaf_K = self.leaf_of_word_K.astype(np.int64)
        lo, hi = np.zeros_like(leaf_K), np.full_like(leaf_K, self.n_words)
        nodes_KL = np.zeros((self.n_words, self.depth), np.int32)
        signs_KL = np.zeros((self.n_words, self.depth), np.int8)
        for level in range(self.depth):
            inner = hi - lo > 1
            mid = (lo + hi + 1) // 2
            right = leaf_K >= mid
            nodes_KL[inner, level] = mid[inner] - 1
            signs_KL[inner, level] = np.where(right, 1, -1)[inner]
            lo, hi = np.where(inner & right, mid, lo), np.where(inner & ~right, mid, hi)
        return Paths(nodes_KL, signs_KL)

    @cached_property
    def spans(self) -> Spans:
        """Return the leaves on either side of every inner node."""
        lo_T, mid_T, hi_T = (np.zeros(self.n_nodes, np.int64) for _ in range(3))
        lo, hi = np.zeros(1, np.int64), np.full(1, self.n_words, np.int64)
        while True:
            inner = hi - lo > 1
            lo, hi = lo[inner], hi[inner]
            if lo.size == 0:
                return Spans(lo_T, mid_T, hi_T)
            mid = (lo + hi + 1) // 2
            lo_T[mid - 1], mid_T[mid - 1], hi_T[mid - 1] = lo, mid, hi
            lo, hi = np.concatenate([lo, mid]), np.concatenate([mid, hi])

    def log_odds(self, counts_K: ArrayLike, smoothing: float = 0.5) -> NDArray[np.float64]:
        """Return the node biases under which an empty context predicts the smoothed unigram.

        Node n turns right with the share of the words below it that lie to its right; each word
        counts `smoothing` more often than it was seen, so that no odds are infinite.

        >>> tree = WordTree(np.array([0, 1, 2]))
        >>> np.exp(tree.log_odds([1.0, 1.0, 2.0], smoothing=0)).tolist()
        [1.0, 1.0]
        """
        counts = np.asarray(counts_K, np.float64)
        check_shape("counts", counts.shape, (self.n_words,))
        at_leaf = np.empty(self.n_words)
        at_leaf[self.leaf_of_word_K] = counts + smoothing
        below = np.concatenate([[0.0], np.cumsum(at_leaf)])
        lo, mid, hi = self.spans
        odds: NDArray[np.float64] = (below[hi] - below[mid]) / (below[mid] - below[lo])
        return np.log(odds)
