"""Balanced binary tree over the vocabulary.

The tree over K leaves is defined by one rule: the node over the leaves `lo:hi` splits them at
`mid = (lo + hi + 1) // 2` and has number `mid - 1`. So nodes are numbered 0 .. K - 2 in order, the
nodes of a subtree are neighbours in memory, and a path follows from the number of its leaf. Only
the assignment of words to leaves is random, and stored.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.schema import array

MAX_WORDS = 2**24


@dataclass(frozen=True, eq=False)
class WordTree:
    """A balanced binary tree whose leaves are the K words.

    `leaf_of_word_K` is the leaf of each word, a permutation of 0 .. K - 1.
    """

    leaf_of_word_K: NDArray[np.int32] = array("K", np.int32)

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
        copy = leaves.astype(np.int32)
        copy.setflags(write=False)
        object.__setattr__(self, "leaf_of_word_K", copy)

    @classmethod
    def random(cls, n_words: int, generator: np.random.Generator) -> "WordTree":
        """Return a tree with words at random leaves, as in the paper."""
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
        """L = ⌈log2 K⌉, the length of the longest path."""
        return self.n_nodes.bit_length()

    @cached_property
    def paths(self) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
        """The path from the root to every word, padded to the depth of the tree.

        Returns
        -------
        nodes : (K, L) inner nodes l(v); padding is node 0.
        signs : (K, L) decisions π(v): +1 right, -1 left, 0 padding.
        """
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
        return nodes_KL, signs_KL

    @cached_property
    def spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Leaves (lo, mid, hi) of every node, (T,): `lo:mid` are left of it, `mid:hi` right."""
        lo_T, mid_T, hi_T = (np.zeros(self.n_nodes, np.int64) for _ in range(3))
        lo, hi = np.zeros(1, np.int64), np.full(1, self.n_words, np.int64)
        while True:
            inner = hi - lo > 1
            lo, hi = lo[inner], hi[inner]
            if lo.size == 0:
                return lo_T, mid_T, hi_T
            mid = (lo + hi + 1) // 2
            lo_T[mid - 1], mid_T[mid - 1], hi_T[mid - 1] = lo, mid, hi
            lo, hi = np.concatenate([lo, mid]), np.concatenate([mid, hi])

    def log_odds(self, counts_K: ArrayLike) -> NDArray[np.float64]:
        """Return the node biases that make the tree the smoothed unigram model.

        The probability of turning right at a node is the share of the counts below it that lie to
        its right. 0.5 is added to every count, so that no odds are infinite.

        >>> tree = WordTree(np.array([0, 1, 2]))
        >>> np.exp(tree.log_odds([0.5, 0.5, 1.5])).tolist()
        [1.0, 1.0]
        """
        counts = np.asarray(counts_K, np.float64)
        check_shape("counts", counts.shape, (self.n_words,))
        at_leaf = np.empty(self.n_words)
        at_leaf[self.leaf_of_word_K] = counts + 0.5
        sums = np.concatenate([[0.0], np.cumsum(at_leaf)])
        lo, mid, hi = self.spans
        odds: NDArray[np.float64] = (sums[hi] - sums[mid]) / (sums[mid] - sums[lo])
        return np.log(odds)
