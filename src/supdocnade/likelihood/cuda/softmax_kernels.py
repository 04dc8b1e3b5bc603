"""The softmax over all words, in Triton, without ever storing its logits.

A tile of tokens meets the vocabulary a block of words at a time. Logits live for one block: a first
pass keeps their running maximum and sum, which give the normalisers; two more passes compute them
again, turn them into δ = w (p - 1_v) at once, and use them up in δ V and δᵀ h. Three products are
computed once and the logits three times: cheaper than to write and read words × vocabulary numbers.
"""

import triton
import triton.language as tl

from supdocnade.likelihood.cuda.prefix_kernels import slope
from supdocnade.likelihood.cuda.rows_kernels import product


@triton.jit
def _rows(table, rows, n_rows, columns, H: tl.constexpr, STRIDE: tl.constexpr):
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
    """Return b + V h of tokens and words, minus infinity beyond the last word."""
    sums = tl.zeros([TILE, WORDS], tl.float32)
    for start in range(0, H, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        h = _rows(hidden, tokens, n_tokens, columns, H, STRIDE)
        v = _rows(weights, words, n_words, columns, H, H)
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
        most = tl.zeros([TILE], tl.float32) + float("-inf")
        total, chosen = tl.zeros([TILE], tl.float32), tl.zeros([TILE], tl.float32)
        for first in range(0, n_words, WORDS):
            words = first + tl.arange(0, WORDS)
            logit = _logits(
                hidden, tokens, n, weights, biases, words, n_words, H, STRIDE, TILE, WORDS,
                BLOCK, PRECISION,
            )  # fmt: skip
            higher = tl.maximum(most, tl.max(logit, axis=1))
            total = total * tl.exp(most - higher) + tl.sum(tl.exp(logit - higher[:, None]), axis=1)
            most = higher
            mine = words[None, :] == word[:, None]
            chosen += tl.sum(tl.where(mine, logit, 0.0), axis=1)
        log_total = most + tl.log(total)
        cost = log_total - chosen
        if WEIGHTED:
            cost *= tl.load(loss_weight + tokens, mask=used, other=0.0)
        tl.store(normalizer + tokens, log_total, mask=used)
        tl.store(nll + tokens, cost, mask=used)


@triton.jit
def _delta(logit, words, word, log_total, weight):
    """w (p - 1_v), the gradient of the logits.

    Rows without a token have an infinite `log_total`, so that p is 0: w = 0 alone would not help
    where p overflows.
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
            v = _rows(weights, words, n_words, columns, H, H)
            grad_h += product(delta, v, PRECISION)
        h = _rows(hidden, tokens, n, columns, H, STRIDE)
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
    """Write what one share of the tokens gives to the gradients of some words' V and b."""
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
        h = _rows(hidden, tokens, n, columns, H, STRIDE)
        grad_v += product(tl.trans(delta), h, PRECISION)
        grad_b += tl.sum(delta, axis=0)
    rows = tl.program_id(2).to(tl.int64) * n_words + words
    known = words < n_words
    there = rows[:, None] * H + columns[None, :]
    tl.store(parts + there, grad_v, mask=known[:, None] & (columns < H)[None, :])
    if tl.program_id(1) == 0:
        tl.store(bias_parts + rows, grad_b, mask=known)
