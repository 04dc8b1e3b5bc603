"""The tree's likelihood and its gradients on a GPU (`docs/gpu.md` explains the kernels).

The key of a word is its path through the tree as a number: one bit per turn, right 1 and left 0,
the first turn the highest bit. The tree is cut into bands of four levels. Once tokens are sorted by
key, the tokens below a prefix of the key are neighbours, and the fifteen nodes of the four levels
below a prefix are one small matrix: its product with a tile of tokens serves four levels at once.

Within its band a node has the slot of a binary heap: the topmost is 1, the children of j are 2j and
2j + 1, and slot 0 is empty. If four does not divide the depth, the topmost band begins with
missing levels, and a path that is shorter than the depth ends with a missing turn: both are slots
without a node.
"""

import weakref
from typing import Any

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.cuda.engine import FinishNodes, OutputLayer, compute_terms
from supdocnade.cuda.prefix import block_columns, find_pieces, row_stride
from supdocnade.cuda.rows import SLOTS, SortedTokens, add_parts, add_tiles
from supdocnade.cuda.tree_band_kernels import walk_prefixes, walk_tiles
from supdocnade.likelihood import vectorized
from supdocnade.likelihood.contract import Batch, DocumentTerms, Parameters
from supdocnade.tree import WordTree

LEVELS = 4

NONE = -1
"""Entry of a slot without a node, or of a key without a word."""

Integers = NDArray[np.int32]


class Bands:
    """Tables of a tree of at least two words, cut into bands.

    Attributes
    ----------
    key_of_word_K : the key of every word.
    word_of_key : (prefixes of the lowest band · 16,) the word of every key.
    node_of_slot : (prefixes of all bands · 16,) the node in every slot, topmost band first.
    first_prefix : first prefix of each band among those of `node_of_slot`, and the end of the last.

    >>> Bands(WordTree(np.array([0, 1, 2]))).key_of_word_K
    array([0, 1, 2], dtype=int32)
    """

    def __init__(self, tree: WordTree):
        n_bands = -(-tree.depth // LEVELS)
        n_missing = n_bands * LEVELS - tree.depth
        lo, hi = np.zeros(1, np.int64), np.full(1, tree.n_words)
        tables: list[Integers] = []
        for level in range(tree.depth):
            place = (level + n_missing) % LEVELS
            if place == 0 or level == 0:
                # All prefixes of this level, also those of paths that end above it.
                tables.append(np.full((len(lo), SLOTS), NONE, np.int32))
            table = tables[-1]
            inner = hi - lo > 1
            mid = (lo + hi + 1) // 2
            # In the topmost band all missing levels turn left.
            slot = (1 << place) + np.arange(len(lo)) % (1 << place)
            prefix = np.arange(len(lo)) >> (place if len(table) > 1 else tree.depth)
            table[prefix, slot] = np.where(inner, mid - 1, NONE)
            lo, hi = (
                np.stack([lo, np.where(inner, mid, hi)], axis=1).ravel(),
                np.stack([np.where(inner, mid, hi), hi], axis=1).ravel(),
            )
        key_of_leaf = np.flatnonzero(hi - lo == 1).astype(np.int32)
        self.key_of_word_K: Integers = key_of_leaf[tree.leaf_of_word_K]
        self.word_of_key = np.full(len(tables[-1]) * SLOTS, NONE, np.int32)
        self.word_of_key[self.key_of_word_K] = np.arange(tree.n_words, dtype=np.int32)
        self.node_of_slot = np.concatenate([table.ravel() for table in tables])
        first_prefix = np.cumsum([0, *(len(table) for table in tables)])
        self.first_prefix: tuple[int, ...] = tuple(first_prefix.tolist())

    @property
    def n_bands(self) -> int:
        """Number of bands."""
        return len(self.first_prefix) - 1

    def nodes_of_prefix(self, n_slots: int) -> Integers:
        """Return the nodes above and below every prefix of the lowest band, topmost band first.

        Parameters
        ----------
        n_slots : columns of the table; those after the last band are empty.
        """
        table = np.full((len(self.word_of_key) // SLOTS, n_slots), NONE, np.int32)
        prefixes = np.arange(len(table))
        for band, first in enumerate(self.first_prefix[:-1]):
            above = first + (prefixes >> (LEVELS * (self.n_bands - 1 - band)))
            columns = slice(band * SLOTS, (band + 1) * SLOTS)
            table[:, columns] = self.node_of_slot.reshape(-1, SLOTS)[above]
        return table


WALK_COLUMNS = 32
"""Columns per step of `walk_prefixes`."""

WALK_OPTIONS: dict[str, dict[str, Any]] = {
    "bf16": {"TILE": 128, "num_warps": 8, "num_stages": 3, "maxnreg": 128},
    "tf32": {"TILE": 64, "num_warps": 4, "num_stages": 1, "maxnreg": None},
    "tf32x3": {"TILE": 64, "num_warps": 4, "num_stages": 1, "maxnreg": None},
}
"""Tokens and resources of a program of `walk_prefixes`, tuned on an H200. Operands of four bytes
cannot be transposed on their way to the tensor cores, so prefetching them would load them number by
number: one stage."""

DENSE = 32
"""Tokens per prefix below which tiles have several prefixes."""

MIXED_TILE = 32
"""Tokens of such a tile; a longer tile would have more prefixes to process in turn."""

MIXED_COLUMNS = {"bf16": 128, "tf32": 64, "tf32x3": 64}
"""Columns per step of such a tile, tuned for four warps."""


class TreeLayer(OutputLayer):
    """The tree as an output layer of the GPU engine, with its tables on a device."""

    def __init__(self, tree: WordTree, device: torch.device):
        self.bands = Bands(tree)
        n_slots = triton.next_power_of_2(SLOTS * self.bands.n_bands)

        def to_device(table: object) -> Tensor:
            return torch.as_tensor(table, device=device)

        super().__init__(to_device(self.bands.key_of_word_K), to_device(self.bands.word_of_key))
        self.node_of_slot = to_device(self.bands.node_of_slot)
        self.nodes_of_prefix = to_device(self.bands.nodes_of_prefix(n_slots))
        self.first_prefix = to_device(self.bands.first_prefix).int()

    def prepare(
        self, tokens: SortedTokens, parameters: Parameters, precision: str
    ) -> tuple[Tensor, ...]:
        """Split the tokens into tiles of one prefix each, if many tokens share a prefix.

        Returns
        -------
        Prefix and first row of every tile, and V as the products take it; or nothing.
        """
        V_TH, n_tokens = parameters.node_weight_TH, len(tokens.order_N)
        if n_tokens < DENSE * self.n_prefixes:
            return ()
        tiles = find_pieces(tokens.first_row_P1, n_tokens, WALK_OPTIONS[precision]["TILE"])
        # Rounded once here, not again for every tile.
        return *tiles, _round_to_bf16(V_TH) if precision == "bf16" else V_TH

    def run(
        self,
        tokens: SortedTokens,
        parameters: Parameters,
        prepared: tuple[Tensor, ...],
        hidden_NS: Tensor,
        options: dict[str, Any],
    ) -> tuple[Tensor, FinishNodes | None]:
        """See `OutputLayer`."""
        H, weight_N = parameters.node_weight_TH.shape[1], tokens.batch.loss_weight_N
        nll_N = parameters.node_bias_T.new_empty(len(hidden_NS))
        options = {
            **options,
            "H": H,
            "STRIDE": hidden_NS.shape[1],
            "WIDTH": row_stride(H + 1),  # The gradients of a row of V and of its bias.
            "N_BANDS": self.bands.n_bands,
            "WEIGHTED": weight_N is not None,
        }
        rows = (
            hidden_NS, tokens.order_N, tokens.keys_N, nll_N if weight_N is None else weight_N,
        )  # fmt: skip
        if prepared:
            finish = self._walk_prefixes(tokens, parameters, prepared, rows, nll_N, options)
        else:
            finish = self._walk_tiles(tokens, parameters, rows, nll_N, options)
        return nll_N, finish

    def _walk_prefixes(
        self,
        tokens: SortedTokens,
        parameters: Parameters,
        prepared: tuple[Tensor, ...],
        rows: tuple[Tensor, ...],
        nll_N: Tensor,
        options: dict[str, Any],
    ) -> FinishNodes | None:
        """Walk where many tokens share a prefix: every tile has one prefix."""
        V_TH, b_T = parameters.node_weight_TH, parameters.node_bias_T
        tile_prefix, tile_start, weights = prepared
        walk_options = WALK_OPTIONS[options["PRECISION"]]
        parts = self._new_parts(len(tile_prefix), nll_N, options)
        walk_prefixes[(len(tile_prefix),)](
            *rows, tile_prefix, tile_start, tokens.first_row_P1, weights, b_T,
            self.nodes_of_prefix, nll_N, parts,
            V_STRIDE=weights.shape[1], SLOTS=self.nodes_of_prefix.shape[1],
            BLOCK=block_columns(options["H"], WALK_COLUMNS), **walk_options, **options,
        )  # fmt: skip
        if not options["GRADIENTS"]:
            return None
        gradients = V_TH.new_empty(V_TH.shape), torch.empty_like(b_T)

        def finish(scale: Tensor) -> tuple[Tensor, Tensor]:
            add_tiles(
                parts, tokens, tile_prefix, self.node_of_slot, self.bands.first_prefix,
                self.first_prefix, scale, *gradients, width=options["WIDTH"],
                tile=walk_options["TILE"],
            )  # fmt: skip
            return gradients

        return finish

    def _walk_tiles(
        self,
        tokens: SortedTokens,
        parameters: Parameters,
        rows: tuple[Tensor, ...],
        nll_N: Tensor,
        options: dict[str, Any],
    ) -> FinishNodes | None:
        """Walk where few tokens share a prefix: tiles are full and have several prefixes."""
        V_TH, b_T = parameters.node_weight_TH, parameters.node_bias_T
        n_tiles = triton.cdiv(len(nll_N), MIXED_TILE)
        parts = self._new_parts(2 * n_tiles, nll_N, options)
        grad_V, grad_b = V_TH, b_T
        if options["GRADIENTS"]:
            grad_V, grad_b = V_TH.new_empty(V_TH.shape), torch.empty_like(b_T)
        columns = MIXED_COLUMNS[options["PRECISION"]]
        walk_tiles[(n_tiles,)](
            *rows, tokens.n_tokens, V_TH, b_T, self.node_of_slot, self.first_prefix, nll_N,
            grad_V, grad_b, parts,
            TILE=MIXED_TILE, BLOCK=block_columns(options["H"], columns),
            UPPER=triton.next_power_of_2(SLOTS * (self.bands.n_bands - 1)),
            num_warps=4, num_stages=1, **options,
        )  # fmt: skip
        if not options["GRADIENTS"]:
            return None

        def finish(scale: Tensor) -> tuple[Tensor, Tensor]:
            add_parts(
                tokens, parts, self.node_of_slot, self.bands.first_prefix, self.first_prefix,
                grad_V, grad_b, H=options["H"], width=options["WIDTH"], tile=MIXED_TILE,
                biased=True,
            )  # fmt: skip
            return grad_V.mul_(scale), grad_b.mul_(scale)

        return finish

    def _new_parts(self, n_parts: int, nll_N: Tensor, options: dict[str, Any]) -> Tensor:
        """Return memory for the tiles' contributions to the gradients of nodes."""
        if not options["GRADIENTS"]:
            return nll_N
        return nll_N.new_empty(n_parts * self.bands.n_bands * SLOTS * options["WIDTH"])


def _round_to_bf16(table_TH: Tensor) -> Tensor:
    """Return a table in bf16, (T, stride)."""
    T, H = table_TH.shape
    rounded_TS = torch.empty(T, row_stride(H), dtype=torch.bfloat16, device=table_TH.device)
    rounded_TS[:, :H].copy_(table_TH)
    return rounded_TS


_LAYERS: "weakref.WeakKeyDictionary[WordTree, dict[torch.device, TreeLayer]]" = (
    weakref.WeakKeyDictionary()
)


def tree_layer(tree: WordTree, device: torch.device) -> TreeLayer:
    """Return the layer of a tree on a device, made once."""
    layers = _LAYERS.setdefault(tree, {})
    if device not in layers:
        layers[device] = TreeLayer(tree, device)
    return layers[device]


def tree_nll(
    batch: Batch, parameters: Parameters, tree: WordTree, activation: str
) -> DocumentTerms:
    """See `operations.tree_nll`."""
    if tree.n_words == 1:  # The tree has no nodes.
        return vectorized.tree_nll(batch, parameters, tree, activation)
    layer = tree_layer(tree, parameters.word_embedding_KH.device)
    return compute_terms(layer, activation, batch, parameters)
