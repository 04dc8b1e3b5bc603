"""The tree cut into bands of four levels, as the GPU walks through it.

A path is a number: its turns, right a 1 and left a 0, the first turn the highest bit. With sixteen
times fewer prefixes from one band to the one above, the words below a prefix are neighbours once
tokens are sorted by path, and the fifteen nodes of the four levels below a prefix are one small
matrix: a tile of tokens times that matrix serves four levels at once.

Within its band a node has the slot of a heap: the topmost is 1, the children of j are 2j and 2j+1.
Slot 0 is empty. Where the depth is no multiple of four the topmost band begins with levels that do
not exist, and a path one level shorter than the depth ends with a turn that does not exist: both
are slots without a node.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supdocnade.tree import WordTree

LEVELS = 4
SLOTS = 2**LEVELS

NOTHING = -1
"""In a slot without a node, or without a word."""

Integers = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Bands:
    """The tables by which a tree is walked."""

    path_K: Integers
    """The path of every word."""
    node_of_slot: Integers
    """(prefixes of all bands · 16,): the node in every slot, topmost band first."""
    first_prefix: tuple[int, ...]
    """Where each band begins among the prefixes of `node_of_slot`, and where the last one ends."""
    word_of_path: Integers
    """(prefixes of the lowest band · 16,): the word at the end of every path."""

    @property
    def n_bands(self) -> int:
        """How many bands there are."""
        return len(self.first_prefix) - 1

    def n_prefixes(self, band: int) -> int:
        """Return how many prefixes lead into a band."""
        return self.first_prefix[band + 1] - self.first_prefix[band]

    def nodes_of_prefix(self, n_slots: int) -> Integers:
        """Return the nodes that every prefix of the lowest band leads past, the topmost band first.

        Parameters
        ----------
        n_slots : of a row; those behind the last band are empty.
        """
        table = np.full((len(self.word_of_path) // SLOTS, n_slots), NOTHING, np.int32)
        prefixes = np.arange(len(table))
        for band, first in enumerate(self.first_prefix[:-1]):
            above = first + (prefixes >> (LEVELS * (self.n_bands - 1 - band)))
            there = slice(band * SLOTS, (band + 1) * SLOTS)
            table[:, there] = self.node_of_slot.reshape(-1, SLOTS)[above]
        return table


def cut_into_bands(tree: WordTree) -> Bands:
    """Return the bands of a tree of at least two words.

    >>> cut_into_bands(WordTree(np.array([0, 1, 2]))).path_K
    array([0, 1, 2], dtype=int32)
    """
    n_bands = -(-tree.depth // LEVELS)
    pretended = n_bands * LEVELS - tree.depth
    lo, hi = np.zeros(1, np.int64), np.full(1, tree.n_words)
    tables: list[Integers] = []
    for level in range(tree.depth):
        place = (level + pretended) % LEVELS
        if place == 0 or level == 0:
            # Prefixes of this band: all there are at this level, also those that end above it.
            tables.append(np.full((len(lo), SLOTS), NOTHING, np.int32))
        table = tables[-1]
        inner = hi - lo > 1
        mid = (lo + hi + 1) // 2
        # In the topmost band the missing levels above all turn left.
        heap = (1 << place) + np.arange(len(lo)) % (1 << place)
        below = np.arange(len(lo)) >> (place if len(table) > 1 else tree.depth)
        table[below, heap] = np.where(inner, mid - 1, NOTHING)
        lo, hi = (
            np.stack([lo, np.where(inner, mid, hi)], axis=1).ravel(),
            np.stack([np.where(inner, mid, hi), hi], axis=1).ravel(),
        )
    ends = hi - lo == 1
    path_of_leaf = np.flatnonzero(ends).astype(np.int32)
    path_K = path_of_leaf[tree.leaf_of_word_K]
    n_lowest = len(tables[-1])
    word_of_path = np.full(n_lowest * SLOTS, NOTHING, np.int32)
    word_of_path[path_K] = np.arange(tree.n_words, dtype=np.int32)
    first = np.cumsum([0, *(len(table) for table in tables)])
    node_of_slot = np.concatenate([table.ravel() for table in tables])
    return Bands(path_K, node_of_slot, tuple(first.tolist()), word_of_path)
