"""The softmax likelihood and its gradients on a GPU, without storing the logits.

A tile of tokens is multiplied with one block of words at a time, and logits exist for one block. A
first pass keeps their running maximum and sum, which give the normalisers. Two more passes compute
the logits again, turn them into δ = w (p - 1_v), and use these in δ V and δᵀ h. Computing the
logits three times is cheaper than writing and reading tokens × vocabulary numbers.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from supdocnade.cuda.engine import FinishNodes, LayerInputs, compute_terms
from supdocnade.cuda.prefix import block_columns
from supdocnade.cuda.prefix_kernels import slope
from supdocnade.cuda.rows import SLOTS
from supdocnade.cuda.rows_kernels import product
from supdocnade.likelihood.contract import Batch, DocumentTerms, Parameters

TILES, WORDS, COLUMNS, OUT = {"bf16": 128, "tf32": 64, "tf32x3": 64}, 64, 64, 256
"""Tokens and words per program, columns that it multiplies at a time and columns that it writes.
With operands of four bytes, more tokens would not fit into shared memory."""

PROGRAMS = 512
"""Number of programs, enough to fill a large GPU, into which the tokens are divided."""


@triton.jit
def _load_rows(table, rows, n_rows, columns, H: tl.constexpr, STRIDE: tl.constexpr):
    """Return some columns of some rows of a table, zero beyond its end."""
    places = rows.to(tl.int64)[:, None] * STRIDE + columns[None, :]
    return tl.load(
        table + places, mask=(rows < n_rows)[:, None] & (columns < H)[None, :], other=0.0
    )


@triton.jit
def _logits(
    hidden, tokens, n_tokens, weights, biases, words, n_words,
    H: tl.constexpr, STRIDE: tl.constexpr, TILE: tl.constexpr, WORDS: tl.constexpr,
    BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return b + V h for tokens and words, minus infinity beyond the last word."""
    sums = tl.zeros([TILE, WORDS], tl.float32)
    for start in range(0, H, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        h = _load_rows(hidden, tokens, n_tokens, columns, H, STRIDE)
        v = _load_rows(weights, words, n_words, columns, H, H)
        sums += product(h, tl.trans(v), PRECISION)
    known = words < n_words
    bias = tl.load(biases + words, mask=known, other=0.0)
    return tl.where(known[None, :], sums + bias[None, :], float("-inf"))


@triton.jit
def normalize(
    hidden, ids, loss_weight, n_tokens, weights, biases, n_words, nll, normalizer,
    H: tl.constexpr, STRIDE: tl.constexpr, TILE: tl.constexpr, WORDS: tl.constexpr,
    BLOCK: tl.constexpr, WEIGHTED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write log Σ exp(logits) and w · -log p(v) of every token."""
    n = tl.load(n_tokens).to(tl.int32)
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    used = tokens < n
    if tl.program_id(0) * TILE < n:
        word = tl.load(ids + tokens, mask=used, other=-1)
        top = tl.zeros([TILE], tl.float32) + float("-inf")
        total, chosen = tl.zeros([TILE], tl.float32), tl.zeros([TILE], tl.float32)
        for first in range(0, n_words, WORDS):
            words = first + tl.arange(0, WORDS)
            logit = _logits(
                hidden, tokens, n, weights, biases, words, n_words, H, STRIDE, TILE, WORDS,
                BLOCK, PRECISION,
            )  # fmt: skip
            higher = tl.maximum(top, tl.max(logit, axis=1))
            total = total * tl.exp(top - higher) + tl.sum(tl.exp(logit - higher[:, None]), axis=1)
            top = higher
            mine = words[None, :] == word[:, None]
            chosen += tl.sum(tl.where(mine, logit, 0.0), axis=1)
        log_total = top + tl.log(total)
        cost = log_total - chosen
        if WEIGHTED:
            cost *= tl.load(loss_weight + tokens, mask=used, other=0.0)
        tl.store(normalizer + tokens, log_total, mask=used)
        tl.store(nll + tokens, cost, mask=used)


@triton.jit
def _delta(logit, words, word, log_total, weight):
    """Return w (p - 1_v), the gradient of the logits.

    Rows without a token have an infinite `log_total`, so that p is 0: w = 0 is not enough, because
    p may overflow.
    """
    p = tl.exp(logit - log_total[:, None])
    return weight[:, None] * (p - (words[None, :] == word[:, None]).to(tl.float32))


@triton.jit
def _weights(loss_weight, tokens, used, WEIGHTED: tl.constexpr):
    if WEIGHTED:
        return tl.load(loss_weight + tokens, mask=used, other=0.0)
    else:
        return used.to(tl.float32)


@triton.jit
def differentiate_hidden(
    hidden, ids, loss_weight, n_tokens, weights, biases, n_words, normalizer, gradient,
    H: tl.constexpr, STRIDE: tl.constexpr, TILE: tl.constexpr, WORDS: tl.constexpr,
    BLOCK: tl.constexpr, OUT: tl.constexpr, WEIGHTED: tl.constexpr, ACTIVATION: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Write the gradient of the activations of a tile of tokens, in `OUT` columns."""
    n = tl.load(n_tokens).to(tl.int32)
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    used = tokens < n
    if tl.program_id(0) * TILE < n:
        columns = tl.program_id(1) * OUT + tl.arange(0, OUT)
        word = tl.load(ids + tokens, mask=used, other=-1)
        log_total = tl.load(normalizer + tokens, mask=used, other=float("inf"))
        weight = _weights(loss_weight, tokens, used, WEIGHTED)
        grad_h = tl.zeros([TILE, OUT], tl.float32)
        for first in range(0, n_words, WORDS):
            words = first + tl.arange(0, WORDS)
            logit = _logits(
                hidden, tokens, n, weights, biases, words, n_words, H, STRIDE, TILE, WORDS,
                BLOCK, PRECISION,
            )  # fmt: skip
            delta = _delta(logit, words, word, log_total, weight)
            v = _load_rows(weights, words, n_words, columns, H, H)
            grad_h += product(delta, v, PRECISION)
        h = _load_rows(hidden, tokens, n, columns, H, STRIDE)
        grad_a = grad_h * slope(h.to(tl.float32), ACTIVATION)
        places = tokens.to(tl.int64)[:, None] * STRIDE + columns[None, :]
        mask = used[:, None] & (columns < H)[None, :]
        tl.store(gradient + places, grad_a.to(gradient.dtype.element_ty), mask=mask)


@triton.jit
def differentiate_words(
    hidden, ids, loss_weight, n_tokens, weights, biases, n_words, normalizer, parts, bias_parts,
    share,
    H: tl.constexpr, STRIDE: tl.constexpr, TILE: tl.constexpr, WORDS: tl.constexpr,
    BLOCK: tl.constexpr, OUT: tl.constexpr, WEIGHTED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write the contribution of one share of the tokens to the gradients of V and b."""
    n = tl.load(n_tokens).to(tl.int32)
    words = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    columns = tl.program_id(1) * OUT + tl.arange(0, OUT)
    begin = tl.program_id(2) * share
    grad_v, grad_b = tl.zeros([WORDS, OUT], tl.float32), tl.zeros([WORDS], tl.float32)
    for first in range(begin, tl.minimum(begin + share, n), TILE):
        tokens = first + tl.arange(0, TILE)
        used = tokens < n
        word = tl.load(ids + tokens, mask=used, other=-1)
        log_total = tl.load(normalizer + tokens, mask=used, other=float("inf"))
        weight = _weights(loss_weight, tokens, used, WEIGHTED)
        logit = _logits(
            hidden, tokens, n, weights, biases, words, n_words, H, STRIDE, TILE, WORDS, BLOCK,
            PRECISION,
        )  # fmt: skip
        delta = _delta(logit, words, word, log_total, weight)
        h = _load_rows(hidden, tokens, n, columns, H, STRIDE)
        grad_v += product(tl.trans(delta), h, PRECISION)
        grad_b += tl.sum(delta, axis=0)
    rows = tl.program_id(2).to(tl.int64) * n_words + words
    known = words < n_words
    there = rows[:, None] * H + columns[None, :]
    tl.store(parts + there, grad_v, mask=known[:, None] & (columns < H)[None, :])
    if tl.program_id(1) == 0:
        tl.store(bias_parts + rows, grad_b, mask=known)


class SoftmaxLayer:
    """The softmax as an output layer of the GPU engine; the key of a word is its number."""

    def __init__(self, n_words: int, device: torch.device):
        n_keys = -(-n_words // SLOTS) * SLOTS
        keys = torch.arange(n_keys, dtype=torch.int32, device=device)
        self.key_of_word_K = keys[:n_words]
        self.word_of_key = keys.masked_fill(keys >= n_words, -1)

    @property
    def n_prefixes(self) -> int:
        """See `OutputLayer`."""
        return len(self.word_of_key) // SLOTS

    def prepare(self, inputs: LayerInputs) -> tuple[Tensor, ...]:
        """Return nothing: all steps depend on the hidden units."""
        return ()

    def run(
        self,
        inputs: LayerInputs,
        prepared: tuple[Tensor, ...],
        hidden_NS: Tensor,
    ) -> tuple[Tensor, Tensor, FinishNodes | None]:
        """See `OutputLayer`."""
        V_KH, b_K = inputs.parameters.node_weight_TH, inputs.parameters.node_bias_T
        loss_weight_N = inputs.loss_weight_N
        (N, stride), (K, H) = hidden_NS.shape, V_KH.shape
        tile = TILES[inputs.precision]
        nll_N, normalizer_N = V_KH.new_empty(N), V_KH.new_empty(N)
        weight_N = nll_N if loss_weight_N is None else loss_weight_N
        arguments = (hidden_NS, inputs.ids_N, weight_N, inputs.tokens.n_tokens, V_KH, b_K, K)
        options: dict[str, Any] = {
            "H": H,
            "STRIDE": stride,
            "TILE": tile,
            "WORDS": WORDS,
            "BLOCK": block_columns(H, COLUMNS),
            "WEIGHTED": loss_weight_N is not None,
            "PRECISION": inputs.precision,
        }
        n_tiles, out = triton.cdiv(N, tile), block_columns(H, OUT)
        normalize[(n_tiles,)](*arguments, nll_N, normalizer_N, **options)
        if not inputs.want_gradients:
            return nll_N, hidden_NS, None
        n_blocks, n_outs = triton.cdiv(K, WORDS), triton.cdiv(H, out)
        n_shares = max(min(PROGRAMS // (n_blocks * n_outs), n_tiles), 1)
        share = triton.cdiv(n_tiles, n_shares) * tile
        parts = V_KH.new_empty(n_shares, K, H)
        bias_parts = V_KH.new_empty(n_shares, K)
        warps = 8 if out == OUT else 4
        differentiate_words[(n_blocks, n_outs, n_shares)](
            *arguments, normalizer_N, parts, bias_parts, share, OUT=out, num_warps=warps,
            num_stages=1, **options,
        )  # fmt: skip
        gradient_NS = torch.empty_like(hidden_NS)
        differentiate_hidden[(n_tiles, n_outs)](
            *arguments, normalizer_N, gradient_NS, OUT=out, ACTIVATION=inputs.activation,
            num_warps=warps, num_stages=1, **options,
        )  # fmt: skip

        def finish(scale: Tensor) -> tuple[Tensor, Tensor]:
            return parts.sum(dim=0) * scale, bias_parts.sum(dim=0) * scale

        return nll_N, gradient_NS, finish


def softmax_nll(batch: Batch, parameters: Parameters, activation: str) -> DocumentTerms:
    """See `operations.softmax_nll`."""
    W_KH = parameters.word_embedding_KH
    return compute_terms(SoftmaxLayer(len(W_KH), W_KH.device), activation, batch, parameters)
