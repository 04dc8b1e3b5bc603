"""The tree's likelihood and its gradients on a GPU (`docs/gpu.md` explains the kernels)."""

import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from supdocnade.ops.contract import DocumentBatch, DocumentTerms, Parameters
from supdocnade.ops.cuda_engine import (
    CUDAEngine,
    FinishNodes,
    LayerInputs,
    LayerResult,
    NodeGradients,
    differentiable,
)
from supdocnade.ops.prefix_sum.cuda import columns_of, cut_into_pieces
from supdocnade.ops.row_sums.cuda import SLOTS, add_parts, add_tiles
from supdocnade.ops.tree_nll import vectorized
from supdocnade.ops.tree_nll.bands import Bands, cut_into_bands
from supdocnade.ops.tree_nll.cuda_kernels import walk_prefixes
from supdocnade.ops.tree_nll.cuda_mixed_kernels import walk_tiles
from supdocnade.tree import WordTree


class Shape(NamedTuple):
    """How much a program of `walk_prefixes` takes, and with what."""

    tile: int
    columns: int
    warps: int
    stages: int
    registers: int | None
    """Of a thread; None: as many as the compiler likes."""


SHAPES = {
    "bf16": Shape(128, 32, 8, 2, 128),
    "tf32": Shape(64, 32, 4, 1, None),
    "tf32x3": Shape(64, 32, 4, 1, None),
}
"""Measured on an H200. Operands of four bytes cannot be turned round on their way to the tensor
cores, so to fetch them ahead would fetch them number by number: one stage."""

DENSE = 32
"""With fewer tokens than this to a prefix, tiles have several prefixes."""

MIXED_TILE, LEAST_TILE, MIXED_COLUMNS = 32, 16, 32
"""Such tiles have at most so many tokens: with more, more prefixes would have to wait in turn."""


@dataclass(frozen=True, eq=False)
class TreeLayer:
    """The tree as an output layer of the GPU engine."""

    bands: Bands
    key_of_word_K: Tensor
    node_of_slot: Tensor
    word_of_key: Tensor
    first_prefix: Tensor
    nodes_KL: Tensor
    """Every node on the path of every word, the topmost one repeated."""

    @classmethod
    def of(cls, tree: WordTree, device: torch.device) -> "TreeLayer":
        """Bring the tables of a tree to a device."""
        bands = cut_into_bands(tree)
        nodes_KL, signs_KL = tree.paths
        nodes_KL = nodes_KL.copy()
        nodes_KL[signs_KL == 0] = nodes_KL[0, 0]

        def there(table: object) -> Tensor:
            return torch.as_tensor(table, device=device)

        return cls(
            bands,
            there(bands.path_K),
            there(bands.node_of_slot),
            there(bands.word_of_path),
            there(bands.first_prefix).int(),
            there(nodes_KL),
        )

    @property
    def n_prefixes(self) -> int:
        """Of the keys."""
        return len(self.word_of_key) // SLOTS

    def touched_rows(self, ids_N: Tensor, n_rows: int) -> Tensor:
        """Return which rows of V the tokens touch, (T,)."""
        touched_T = torch.zeros(n_rows, dtype=torch.bool, device=ids_N.device)
        touched_T[self.nodes_KL[ids_N.long()].flatten().long()] = True
        return touched_T

    def run(self, inputs: LayerInputs) -> LayerResult:
        """See `OutputLayer`."""
        H = inputs.parameters.node_weight_TH.shape[1]
        row_of_slot = self.node_of_slot
        if inputs.sparsity is not None:
            row_of_slot = inputs.sparsity.slots_of(self.node_of_slot)
        options = {
            "H": H,
            "STRIDE": inputs.hidden_NS.shape[1],
            "WIDTH": -(-(H + 1) // 4) * 4,
            "N_BANDS": self.bands.n_bands,
            "SLOTS": triton.next_power_of_2(SLOTS * self.bands.n_bands),
            "WEIGHTED": inputs.loss_weight_N is not None,
            "ACTIVATION": inputs.activation,
            "GRADIENTS": inputs.want_gradients,
            "PRECISION": inputs.precision,
        }
        n_tokens = len(inputs.hidden_NS)
        nll_N = inputs.parameters.node_bias_T.new_empty(n_tokens)
        gradients = None
        if inputs.want_gradients:
            gradients = NodeGradients.empty(inputs.parameters, inputs.sparsity)
        walk = _Walk(self, inputs, gradients, row_of_slot, options, nll_N)
        dense = n_tokens >= DENSE * self.n_prefixes
        nodes = walk.by_prefixes() if dense else walk.by_tiles()
        return LayerResult(nll_N, inputs.hidden_NS, nodes)


@dataclass(frozen=True, eq=False)
class _Walk:
    """A call of the kernels."""

    layer: TreeLayer
    given: LayerInputs
    gradients: NodeGradients | None
    row_of_slot: Tensor
    options: dict[str, Any]
    nll_N: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tokens as the kernels take them."""
        given = self.given
        weight_N = self.nll_N if given.loss_weight_N is None else given.loss_weight_N
        return given.hidden_NS, given.tokens.order_N, given.tokens.keys_N, weight_N

    def by_prefixes(self) -> FinishNodes | None:
        """Walk where many tokens share a prefix: tiles have one prefix each."""
        layer, tokens = self.layer, self.given.tokens
        shape = SHAPES[self.options["PRECISION"]]
        tiles = cut_into_pieces(tokens.first_row_P1, len(self.nll_N), shape.tile)
        parts = self._parts(len(tiles.owner_P), 1)
        walk_prefixes[(len(tiles.owner_P),)](
            *self.inputs, tiles.owner_P, tiles.start_P, tokens.first_row_P1,
            self.given.parameters.node_weight_TH, self.given.parameters.node_bias_T,
            layer.node_of_slot, layer.first_prefix, self.nll_N, parts,
            TILE=shape.tile, BLOCK=columns_of(self.options["H"], shape.columns),
            num_warps=shape.warps, num_stages=shape.stages, maxnreg=shape.registers,
            **self.options,
        )  # fmt: skip
        gradients = self.gradients
        if gradients is None:
            return None

        def finish(scale: Tensor) -> NodeGradients:
            add_tiles(
                parts, tiles.first_piece_B1, self.row_of_slot, layer.node_of_slot,
                layer.bands.first_prefix, layer.first_prefix, scale, *gradients,
                width=self.options["WIDTH"],
            )  # fmt: skip
            return gradients

        return finish

    def by_tiles(self) -> FinishNodes | None:
        """Walk where few tokens share a prefix: tiles are full, and have several prefixes."""
        layer, tokens = self.layer, self.given.tokens
        n_tokens, tile = len(self.nll_N), MIXED_TILE
        while tile > LEAST_TILE and n_tokens < tile * layer.n_prefixes:
            tile //= 2
        n_tiles = triton.cdiv(n_tokens, tile)
        parts = self._parts(n_tiles, 2)
        V_TH, b_T = self.given.parameters.node_weight_TH, self.given.parameters.node_bias_T
        gradients = self.gradients
        grad_V, grad_b = (V_TH, b_T) if gradients is None else gradients
        if gradients is not None:
            grad_V.zero_()
            grad_b.zero_()
        walk_tiles[(n_tiles,)](
            *self.inputs, tokens.n_tokens, V_TH, b_T, layer.node_of_slot, self.row_of_slot,
            layer.first_prefix, self.nll_N, grad_V, grad_b, parts,
            TILE=tile, BLOCK=columns_of(self.options["H"], MIXED_COLUMNS), num_stages=1,
            **self.options,
        )  # fmt: skip
        if gradients is None:
            return None

        def finish(scale: Tensor) -> NodeGradients:
            add_parts(
                tokens, parts, self.row_of_slot, layer.node_of_slot, layer.bands.first_prefix,
                layer.first_prefix, grad_V, grad_b, H=self.options["H"],
                width=self.options["WIDTH"], tile=tile, biased=True,
            )  # fmt: skip
            grad_V.mul_(scale)
            grad_b.mul_(scale)
            return gradients

        return finish

    def _parts(self, n_tiles: int, each: int) -> Tensor:
        """Return room for what tiles give to the gradients of nodes."""
        if self.gradients is None:
            return self.nll_N
        rows = n_tiles * each * self.layer.bands.n_bands * SLOTS
        return self.nll_N.new_empty(rows * self.options["WIDTH"])


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
    """See `supdocnade.ops.tree_nll`."""
    if tree.n_words == 1:
        # There is nothing to decide: no nodes, no tables.
        return vectorized.tree_nll(batch, parameters, tree, activation)
    layer = tree_layer(tree, parameters.word_embedding_KH.device)
    return differentiable(CUDAEngine(layer, activation), batch, parameters)
