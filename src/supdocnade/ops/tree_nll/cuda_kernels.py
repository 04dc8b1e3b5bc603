"""The walk through the tree of words, in Triton.

Tokens are sorted by their paths and taken in tiles. The tokens of a tile that share a prefix meet
the same fifteen nodes in the four levels below it, so three products serve them all: their logits
h Vᵀ, the gradient of their hidden units δ V and that of the nodes δᵀ h. A token takes part with the
slots on its own path; all others have δ = 0.

All bands are taken at once, sixteen slots each. With many tokens to a prefix, tiles have tokens of
one prefix alone (`walk_prefixes`); with few of them, see `cuda_mixed_kernels`.
"""

import triton
import triton.language as tl

from supdocnade.ops.prefix_sum.cuda_kernels import slope
from supdocnade.ops.row_sums.cuda_kernels import MOST, product


@triton.jit
def slots_passed(key, slots, shift):
    """Return which slots tokens pass below their prefix, and whether they turn right there."""
    level = (slots > 1).to(tl.int32) + (slots > 3).to(tl.int32) + (slots > 7).to(tl.int32)
    turns = (key[:, None] >> (shift - 4)[None, :]) & 15
    passed = ((turns | 16) >> (4 - level)[None, :]) == slots[None, :]
    right = (turns >> (3 - level)[None, :]) & 1
    return passed, right


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def decide(logit, right, on_path, weight):
    """Return Σ -log p(turn) of every token and δ = w (p(right) - right) of every decision."""
    # With e = exp(-|z|): -log p = max(-z, 0) + log(1 + e), z towards the turn that was taken. One
    # logarithm serves a token: that of the product of its 1 + e, each at most 2. A NaN shows in it.
    z = tl.where(right == 1, logit, -logit)
    e = tl.exp(-tl.abs(logit))
    p = tl.where(logit < 0, e, 1.0) / (1 + e)
    delta = tl.where(on_path, (p - right) * weight[:, None], 0.0)
    short = tl.sum(tl.where(on_path, tl.maximum(-z, 0.0), 0.0), axis=1)
    return short + tl.log(tl.reduce(tl.where(on_path, 1 + e, 1.0), 1, _times)), delta


@triton.jit
def nodes(node_of_slot, first_prefix, bands, slots, current, N_BANDS: tl.constexpr):
    """Return the places of slots in the tables, and their nodes, -1 for none."""
    known = (bands < N_BANDS) & (current < MOST)
    base = tl.load(first_prefix + bands, mask=known, other=0)
    place = tl.where(known, (base + current) * 16 + slots, 0)
    return place, tl.load(node_of_slot + place, mask=known, other=-1)


@triton.jit
def some_rows(table, rows, columns, H: tl.constexpr, STRIDE: tl.constexpr):
    """Return some columns of some rows of a table, zero for rows below 0."""
    places = rows.to(tl.int64)[:, None] * STRIDE + columns[None, :]
    return tl.load(table + places, mask=(rows >= 0)[:, None] & (columns < H)[None, :], other=0.0)


@triton.jit
def store_rows(table, rows, columns, values, H: tl.constexpr, STRIDE: tl.constexpr):
    """Write some columns of some rows of a table; rows below 0 are none."""
    places = rows.to(tl.int64)[:, None] * STRIDE + columns[None, :]
    mask = (rows >= 0)[:, None] & (columns < H)[None, :]
    tl.store(table + places, values.to(table.dtype.element_ty), mask=mask)


@triton.jit
def logits(
    hidden, position, weights, biases, node,
    H: tl.constexpr, STRIDE: tl.constexpr, V_STRIDE: tl.constexpr, TILE: tl.constexpr,
    BLOCK: tl.constexpr, SLOTS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return h V + b of tokens and nodes."""
    sums = tl.zeros([TILE, SLOTS], tl.float32)
    for start in range(0, H, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        h = some_rows(hidden, position, columns, H, STRIDE)
        v = some_rows(weights, node, columns, H, V_STRIDE)
        sums += product(h, tl.trans(v), PRECISION)
    return sums + tl.load(biases + node, mask=node >= 0, other=0.0)[None, :]


@triton.jit
def walk_prefixes(
    hidden, order, keys, loss_weight, tile_prefix, tile_start, first_row, weights, biases,
    nodes_of_prefix, nll, parts,
    H: tl.constexpr, STRIDE: tl.constexpr, V_STRIDE: tl.constexpr, WIDTH: tl.constexpr,
    TILE: tl.constexpr, BLOCK: tl.constexpr, N_BANDS: tl.constexpr, SLOTS: tl.constexpr,
    WEIGHTED: tl.constexpr, ACTIVATION: tl.constexpr, GRADIENTS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Write the cost of every token; with `GRADIENTS`, replace h by the gradient of a.

    A tile has tokens of one prefix of the lowest band, so of one prefix in every band. What they
    give to the gradients of the nodes goes to `parts`.
    """
    tile = tl.program_id(0)
    prefix = tl.load(tile_prefix + tile)
    if prefix >= 0:
        slots, bands = tl.arange(0, SLOTS) % 16, tl.arange(0, SLOTS) // 16
        tokens = tl.load(tile_start + tile) + tl.arange(0, TILE)
        used = tokens < tl.load(first_row + prefix + 1)
        key = tl.load(keys + tokens, mask=used, other=0).to(tl.int32)
        position = tl.load(order + tokens, mask=used, other=-1)
        node = tl.load(nodes_of_prefix + prefix * SLOTS + tl.arange(0, SLOTS))
        logit = logits(
            hidden, position, weights, biases, node, H, STRIDE, V_STRIDE, TILE, BLOCK, SLOTS,
            PRECISION,
        )  # fmt: skip
        weight = used.to(tl.float32)
        if WEIGHTED:
            weight = tl.load(loss_weight + position, mask=used, other=0.0)
        passed, right = slots_passed(key, slots, 4 * tl.maximum(N_BANDS - bands, 1))
        on_path = passed & (node >= 0)[None, :] & used[:, None]
        cost, delta = decide(logit, right, on_path, weight)
        tl.store(nll + position, cost * weight, mask=used)
        if GRADIENTS:
            part = ((tile.to(tl.int64) * N_BANDS + bands) * 16 + slots) * WIDTH
            tl.store(parts + part + H, tl.sum(delta, axis=0), mask=node >= 0)
            for start in range(0, H, BLOCK):
                columns = start + tl.arange(0, BLOCK)
                h = some_rows(hidden, position, columns, H, STRIDE)
                v = some_rows(weights, node, columns, H, V_STRIDE)
                grad_v = product(tl.trans(delta), h, PRECISION)
                inside = (node >= 0)[:, None] & (columns < H)[None, :]
                tl.store(parts + part[:, None] + columns[None, :], grad_v, mask=inside)
                grad_a = product(delta, v, PRECISION) * slope(h.to(tl.float32), ACTIVATION)
                store_rows(hidden, position, columns, grad_a, H, STRIDE)
