"""The softmax likelihood and its gradients on a GPU."""

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from supdocnade.likelihood.contract import DocumentBatch, DocumentTerms, Parameters
from supdocnade.likelihood.cuda import softmax_kernels as kernels
from supdocnade.likelihood.cuda.engine import (
    CUDAEngine,
    LayerInputs,
    LayerResult,
    NodeGradients,
    differentiable,
)
from supdocnade.likelihood.cuda.prefix import columns_of
from supdocnade.likelihood.cuda.rows import SLOTS

TILES, WORDS, COLUMNS, OUT = {"bf16": 128, "tf32": 64, "tf32x3": 64}, 64, 64, 256
"""Tokens and words a program takes, columns it multiplies at a time and columns it writes. With
operands of four bytes more tokens would not fit into shared memory."""

PROGRAMS = 512
"""The tokens are shared out until there are so many programs, which fill a large GPU."""


@dataclass(frozen=True, eq=False)
class SoftmaxLayer:
    """The softmax as an output layer of the GPU engine."""

    key_of_word_K: Tensor
    word_of_key: Tensor

    @classmethod
    def of(cls, n_words: int, device: torch.device) -> "SoftmaxLayer":
        """Return the layer of a vocabulary: tokens are sorted by their words as they are."""
        padded = -(-n_words // SLOTS) * SLOTS
        keys = torch.arange(padded, dtype=torch.int32, device=device)
        return cls(keys[:n_words], keys.masked_fill(keys >= n_words, -1))

    @property
    def n_prefixes(self) -> int:
        """Of the keys."""
        return len(self.word_of_key) // SLOTS

    @property
    def nodes(self) -> None:
        """A softmax moves the probability of every word."""
        return None

    def prepare(self, inputs: LayerInputs) -> "_Pass":
        """Return the layer with what it is given: nothing can be done without hidden units."""
        return _Pass(inputs)


@dataclass(frozen=True, eq=False)
class _Pass:
    """A call of the kernels."""

    inputs: LayerInputs

    @property
    def made(self) -> tuple[Tensor, ...]:
        """See `PreparedLayer`."""
        return ()

    def run(self, hidden_NS: Tensor, sparsity: object) -> LayerResult:
        """See `PreparedLayer`."""
        inputs = self.inputs
        V_KH, b_K = inputs.parameters.node_weight_TH, inputs.parameters.node_bias_T
        loss_weight_N = inputs.loss_weight_N
        (N, stride), (K, H) = hidden_NS.shape, V_KH.shape
        tile = TILES[inputs.precision]
        nll_N, normalizer_N = V_KH.new_empty(N), V_KH.new_empty(N)
        weight_N = nll_N if loss_weight_N is None else loss_weight_N
        given = (hidden_NS, inputs.ids_N, weight_N, inputs.tokens.n_tokens, V_KH, b_K, K)
        options: dict[str, Any] = {
            "H": H,
            "STRIDE": stride,
            "TILE": tile,
            "WORDS": WORDS,
            "BLOCK": columns_of(H, COLUMNS),
            "WEIGHTED": loss_weight_N is not None,
            "PRECISION": inputs.precision,
        }
        n_tiles, out = triton.cdiv(N, tile), columns_of(H, OUT)
        kernels.normalize[(n_tiles,)](*given, nll_N, normalizer_N, **options)
        if not inputs.want_gradients:
            return LayerResult(nll_N, hidden_NS, None)
        n_blocks, n_outs = triton.cdiv(K, WORDS), triton.cdiv(H, out)
        n_shares = max(min(PROGRAMS // (n_blocks * n_outs), n_tiles), 1)
        share = triton.cdiv(n_tiles, n_shares) * tile
        parts = V_KH.new_empty(n_shares, K, H)
        bias_parts = V_KH.new_empty(n_shares, K)
        warps = 8 if out == OUT else 4
        kernels.differentiate_words[(n_blocks, n_outs, n_shares)](
            *given, normalizer_N, parts, bias_parts, share, OUT=out, num_warps=warps,
            num_stages=1, **options,
        )  # fmt: skip
        gradient_NS = torch.empty_like(hidden_NS)
        kernels.differentiate_hidden[(n_tiles, n_outs)](
            *given, normalizer_N, gradient_NS, OUT=out, ACTIVATION=inputs.activation,
            num_warps=warps, num_stages=1, **options,
        )  # fmt: skip

        def finish(scale: Tensor) -> NodeGradients:
            return NodeGradients(parts.sum(dim=0) * scale, bias_parts.sum(dim=0) * scale)

        return LayerResult(nll_N, gradient_NS, finish)


def softmax_nll(batch: DocumentBatch, parameters: Parameters, activation: str) -> DocumentTerms:
    """See `operations.softmax_nll`."""
    W_KH = parameters.word_embedding_KH
    layer = SoftmaxLayer.of(len(W_KH), W_KH.device)
    return differentiable(CUDAEngine(layer, activation), batch, parameters)
