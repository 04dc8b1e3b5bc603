"""The tree's likelihood and its gradients on a GPU (`docs/gpu.md` explains the kernels)."""

import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.likelihood import vectorized
from supdocnade.likelihood.contract import DocumentBatch, DocumentTerms, Parameters
from supdocnade.likelihood.cuda.engine import (
    CUDAEngine,
    FinishNodes,
    LayerInputs,
    LayerResult,
    NodeGradients,
    differentiable,
)
from supdocnade.likelihood.cuda.prefix import Pieces, columns_of, cut_into_pieces, stride_of
from supdocnade.likelihood.cuda.rows import SLOTS, NodeSlots, Sparsity, add_parts, add_tiles
from supdocnade.likelihood.cuda.tree_kernels import walk_prefixes, walk_tiles
from supdocnade.tree import WordTree

# The tree cut into bands of four levels, as the GPU walks through it.
#
# A path is a number: its turns, right a 1 and left a 0, the first turn the highest bit. With
# sixteen times fewer prefixes from one band to the one above, the words below a prefix are
# neighbours once tokens are sorted by path, and the fifteen nodes of the four levels below a prefix
# are one small matrix: a tile of tokens times that matrix serves four levels at once.
#
# Within its band a node has the slot of a heap: the topmost is 1, the children of j are 2j and
# 2j+1. Slot 0 is empty. Where the depth is no multiple of four the topmost band begins with levels
# that do not exist, and a path one level shorter than the depth ends with a turn that does not
# exist: both are slots without a node.

LEVELS = 4

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


class Shape(NamedTuple):
    """How much a program of `walk_prefixes` takes, and with what."""

    tile: int
    columns: int
    warps: int
    stages: int
    registers: int | None
    """Of a thread; None: as many as the compiler likes."""


SHAPES = {
    "bf16": Shape(128, 32, 8, 3, 128),
    "tf32": Shape(64, 32, 4, 1, None),
    "tf32x3": Shape(64, 32, 4, 1, None),
}
"""Measured on an H200. Operands of four bytes cannot be turned round on their way to the tensor
cores, so to fetch them ahead would fetch them number by number: one stage."""

DENSE = 32
"""With fewer tokens than this to a prefix, tiles have several prefixes."""

MIXED_TILE = 32
"""Tokens of such a tile: with more, more prefixes would have to wait in turn."""

MIXED_COLUMNS = {"bf16": 128, "tf32": 64, "tf32x3": 64}
"""With four warps, in which these tiles and columns were the fastest of those tried."""


@dataclass(frozen=True, eq=False)
class TreeLayer:
    """The tree as an output layer of the GPU engine."""

    bands: Bands
    key_of_word_K: Tensor
    node_of_slot: Tensor
    nodes_of_prefix: Tensor
    """(prefixes, slots of all bands)."""
    word_of_key: Tensor
    first_prefix: Tensor

    @classmethod
    def of(cls, tree: WordTree, device: torch.device) -> "TreeLayer":
        """Bring the tables of a tree to a device."""
        bands = cut_into_bands(tree)

        def there(table: object) -> Tensor:
            return torch.as_tensor(table, device=device)

        return cls(
            bands,
            there(bands.path_K),
            there(bands.node_of_slot),
            there(bands.nodes_of_prefix(triton.next_power_of_2(SLOTS * bands.n_bands))),
            there(bands.word_of_path),
            there(bands.first_prefix).int(),
        )

    @property
    def n_prefixes(self) -> int:
        """Of the keys."""
        return len(self.word_of_key) // SLOTS

    @property
    def nodes(self) -> NodeSlots:
        """See `OutputLayer`."""
        return NodeSlots(self.node_of_slot, self.first_prefix, self.bands.n_bands)

    def prepare(self, inputs: LayerInputs) -> "_Walk":
        """Cut the tokens into tiles of one prefix each, where many share one."""
        V_TH, n_tokens = inputs.parameters.node_weight_TH, len(inputs.ids_N)
        if n_tokens < DENSE * self.n_prefixes:
            return _Walk(self, inputs, None, V_TH)
        tile = SHAPES[inputs.precision].tile
        tiles = cut_into_pieces(inputs.tokens.first_row_P1, n_tokens, tile)
        if inputs.precision == "bf16":
            # Products would round it for every tile again.
            V_TH = rounded_rows(V_TH)
        return _Walk(self, inputs, tiles, V_TH)


def rounded_rows(table_TH: Tensor) -> Tensor:
    """Return a table in bf16, (T, stride)."""
    T, H = table_TH.shape
    rounded_TS = torch.empty(T, stride_of(H), dtype=torch.bfloat16, device=table_TH.device)
    rounded_TS[:, :H].copy_(table_TH)
    return rounded_TS


@dataclass(frozen=True, eq=False)
class _Walk:
    """A call of the kernels."""

    layer: TreeLayer
    inputs: LayerInputs
    tiles: Pieces | None
    """Tiles of one prefix each; None: tiles have several prefixes."""
    weights: Tensor
    """V as the products take it."""

    @property
    def made(self) -> tuple[Tensor, ...]:
        """See `PreparedLayer`."""
        return () if self.tiles is None else (*self.tiles, self.weights)

    @property
    def width(self) -> int:
        """Of a row of parts: the gradients of a row of V and of its bias."""
        return stride_of(self.inputs.parameters.node_weight_TH.shape[1] + 1)

    def options(self, hidden_NS: Tensor) -> dict[str, Any]:
        """Return what the kernels are compiled for."""
        inputs = self.inputs
        return {
            "H": inputs.parameters.node_weight_TH.shape[1],
            "STRIDE": hidden_NS.shape[1],
            "WIDTH": self.width,
            "N_BANDS": self.layer.bands.n_bands,
            "WEIGHTED": inputs.loss_weight_N is not None,
            "ACTIVATION": inputs.activation,
            "GRADIENTS": inputs.want_gradients,
            "PRECISION": inputs.precision,
        }

    def run(self, hidden_NS: Tensor, sparsity: Sparsity | None) -> LayerResult:
        """See `PreparedLayer`."""
        nll_N = self.inputs.parameters.node_bias_T.new_empty(len(hidden_NS))
        row_of_slot, gradients = self.layer.node_of_slot, None
        if self.inputs.want_gradients:
            gradients = NodeGradients.empty(self.inputs.parameters, sparsity)
        if sparsity is not None:
            row_of_slot = sparsity.row_of_slot
        walk = self._by_tiles if self.tiles is None else self._by_prefixes
        nodes = walk(hidden_NS, nll_N, row_of_slot, gradients)
        return LayerResult(nll_N, hidden_NS, nodes)

    def _by_prefixes(
        self,
        hidden_NS: Tensor,
        nll_N: Tensor,
        row_of_slot: Tensor,
        gradients: NodeGradients | None,
    ) -> FinishNodes | None:
        """Walk where many tokens share a prefix."""
        layer, tokens, tiles = self.layer, self.inputs.tokens, self.tiles
        assert tiles is not None
        shape = SHAPES[self.inputs.precision]
        parts = self._parts(len(tiles.owner_P), nll_N)
        options = self.options(hidden_NS)
        walk_prefixes[(len(tiles.owner_P),)](
            hidden_NS, tokens.order_N, tokens.keys_N, self._loss_weights(nll_N), *tiles,
            tokens.first_row_P1, self.weights, self.inputs.parameters.node_bias_T,
            layer.nodes_of_prefix, nll_N, parts,
            V_STRIDE=self.weights.shape[1], SLOTS=layer.nodes_of_prefix.shape[1], TILE=shape.tile,
            BLOCK=columns_of(options["H"], shape.columns),
            num_warps=shape.warps, num_stages=shape.stages, maxnreg=shape.registers, **options,
        )  # fmt: skip
        if gradients is None:
            return None

        def finish(scale: Tensor) -> NodeGradients:
            add_tiles(
                parts, tokens, tiles, row_of_slot, layer.node_of_slot, layer.bands.first_prefix,
                layer.first_prefix, scale, *gradients, width=self.width, tile=shape.tile,
            )  # fmt: skip
            return gradients

        return finish

    def _by_tiles(
        self,
        hidden_NS: Tensor,
        nll_N: Tensor,
        row_of_slot: Tensor,
        gradients: NodeGradients | None,
    ) -> FinishNodes | None:
        """Walk where few tokens share a prefix: tiles are full, and have several prefixes."""
        layer, tokens = self.layer, self.inputs.tokens
        n_tiles = triton.cdiv(len(nll_N), MIXED_TILE)
        parts = self._parts(2 * n_tiles, nll_N)
        b_T = self.inputs.parameters.node_bias_T
        grad_V, grad_b = gradients or (self.weights, b_T)
        options = self.options(hidden_NS)
        walk_tiles[(n_tiles,)](
            hidden_NS, tokens.order_N, tokens.keys_N, self._loss_weights(nll_N), tokens.n_tokens,
            self.weights, b_T, layer.node_of_slot, row_of_slot, layer.first_prefix, nll_N, grad_V,
            grad_b, parts,
            TILE=MIXED_TILE, BLOCK=columns_of(options["H"], MIXED_COLUMNS[self.inputs.precision]),
            UPPER=triton.next_power_of_2(SLOTS * (layer.bands.n_bands - 1)),
            num_warps=4, num_stages=1, **options,
        )  # fmt: skip
        if gradients is None:
            return None

        def finish(scale: Tensor) -> NodeGradients:
            add_parts(
                tokens, parts, row_of_slot, layer.node_of_slot, layer.bands.first_prefix,
                layer.first_prefix, grad_V, grad_b, H=options["H"], width=self.width,
                tile=MIXED_TILE, biased=True,
            )  # fmt: skip
            grad_V.mul_(scale)
            grad_b.mul_(scale)
            return gradients

        return finish

    def _loss_weights(self, anything: Tensor) -> Tensor:
        given = self.inputs.loss_weight_N
        return anything if given is None else given

    def _parts(self, n_parts: int, nll_N: Tensor) -> Tensor:
        """Return room for what tiles give to the gradients of nodes."""
        if not self.inputs.want_gradients:
            return nll_N
        return nll_N.new_empty(n_parts * self.layer.bands.n_bands * SLOTS * self.width)


_LAYERS: "weakref.WeakKeyDictionary[WordTree, dict[torch.device, TreeLayer]]" = (
    weakref.WeakKeyDictionary()
)


def tree_layer(tree: WordTree, device: torch.device) -> TreeLayer:
    """Return the tables of a tree on a device, made once."""
    layers = _LAYERS.setdefault(tree, {})
    if device not in layers:
        layers[device] = TreeLayer.of(tree, device)
    return layers[device]


def tree_nll(
    batch: DocumentBatch, parameters: Parameters, tree: WordTree, activation: str
) -> DocumentTerms:
    """See `operations.tree_nll`."""
    if tree.n_words == 1:
        # There is nothing to decide: no nodes, no tables.
        return vectorized.tree_nll(batch, parameters, tree, activation)
    layer = tree_layer(tree, parameters.word_embedding_KH.device)
    return differentiable(CUDAEngine(layer, activation), batch, parameters)
