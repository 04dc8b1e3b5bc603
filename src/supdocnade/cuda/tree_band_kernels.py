"""Kernels of the walk through the tree (`tree_bands.py`), in Triton.

Tokens are sorted by key and processed in tiles. The tokens of a tile that share a prefix pass the
same fifteen nodes in the four levels below it, so three products serve them all: their logits h Vᵀ,
the gradients of their hidden units δ V and those of the nodes δᵀ h. A token contributes to the
slots on its own path; all others have δ = 0. All bands are processed at once, with sixteen slots
each.

If many tokens share a prefix, every tile has tokens of one prefix (`walk_prefixes`). Otherwise
tiles are cut regardless of prefixes, so that they are full (`walk_tiles`): a tile processes the
first prefix of several bands at once, then the second prefix of those bands that have one, and so
on. In the lowest band a tile has several prefixes, in all others seldom more than one. So the
lowest band is processed separately, with sixteen slots instead of those of all bands.
"""

import triton
import triton.language as tl

from supdocnade.cuda.prefix_kernels import slope
from supdocnade.cuda.rows_kernels import MAX_KEY, place_of_part, product


@triton.jit
def slots_passed(key, slots, shift):
    """Return masks of the slots that tokens pass below their prefix, and of their right turns."""
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
    # With e = exp(-|z|): -log p = max(-z, 0) + log(1 + e), where z > 0 favours the turn taken. One
    # logarithm per token is enough: that of the product of its 1 + e, each at most 2. NaN stays
    # NaN.
    z = tl.where(right == 1, logit, -logit)
    e = tl.exp(-tl.abs(logit))
    p = tl.where(logit < 0, e, 1.0) / (1 + e)
    delta = tl.where(on_path, (p - right) * weight[:, None], 0.0)
    short = tl.sum(tl.where(on_path, tl.maximum(-z, 0.0), 0.0), axis=1)
    return short + tl.log(tl.reduce(tl.where(on_path, 1 + e, 1.0), 1, _times)), delta


@triton.jit
def find_nodes(node_of_slot, first_prefix, bands, slots, current, N_BANDS: tl.constexpr):
    """Return the nodes of slots, -1 for none."""
    known = (bands < N_BANDS) & (current < MAX_KEY)
    base = tl.load(first_prefix + bands, mask=known, other=0)
    place = tl.where(known, (base + current) * 16 + slots, 0)
    return tl.load(node_of_slot + place, mask=known, other=-1)


@triton.jit
def load_rows(table, rows, columns, H: tl.constexpr, STRIDE: tl.constexpr):
    """Return some columns of some rows of a table, zero for negative rows."""
    places = rows.to(tl.int64)[:, None] * STRIDE + columns[None, :]
    return tl.load(table + places, mask=(rows >= 0)[:, None] & (columns < H)[None, :], other=0.0)


@triton.jit
def store_rows(table, rows, columns, values, H: tl.constexpr, STRIDE: tl.constexpr):
    """Write some columns of some rows of a table; negative rows are skipped."""
    places = rows.to(tl.int64)[:, None] * STRIDE + columns[None, :]
    mask = (rows >= 0)[:, None] & (columns < H)[None, :]
    tl.store(table + places, values.to(table.dtype.element_ty), mask=mask)


@triton.jit
def compute_logits(
    hidden, position, weights, biases, node,
    H: tl.constexpr, STRIDE: tl.constexpr, V_STRIDE: tl.constexpr, TILE: tl.constexpr,
    BLOCK: tl.constexpr, SLOTS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return h Vᵀ + b for tokens and nodes."""
    sums = tl.zeros([TILE, SLOTS], tl.float32)
    for start in range(0, H, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        h = load_rows(hidden, position, columns, H, STRIDE)
        v = load_rows(weights, node, columns, H, V_STRIDE)
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

    A tile has tokens of one prefix of the lowest band, hence of one prefix in every band. Their
    contributions to the gradients of the nodes are written to `parts`.
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
        logit = compute_logits(
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
                h = load_rows(hidden, position, columns, H, STRIDE)
                v = load_rows(weights, node, columns, H, V_STRIDE)
                grad_v = product(tl.trans(delta), h, PRECISION)
                inside = (node >= 0)[:, None] & (columns < H)[None, :]
                tl.store(parts + part[:, None] + columns[None, :], grad_v, mask=inside)
                grad_a = product(delta, v, PRECISION) * slope(h.to(tl.float32), ACTIVATION)
                store_rows(hidden, position, columns, grad_a, H, STRIDE)


@triton.jit
def _next_prefixes(key, shift, current):
    """Return the next prefix after the current one among the tokens, for every slot."""
    prefixes = key[:, None] >> shift[None, :]
    return tl.min(tl.where(prefixes > current[None, :], prefixes, MAX_KEY), axis=0)


@triton.jit
def _gradients(
    h, delta, node, part, spans, columns, weights, grad_weights, parts,
    H: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return the gradient of h from some nodes, in some columns; write that of the nodes.

    The latter goes to the rows of the nodes, or to the parts of prefixes that span several tiles.
    """
    v = load_rows(weights, node, columns, H, H)
    grad_v = product(tl.trans(delta), h, PRECISION)
    inside = (columns < H)[None, :]
    there = part[:, None] + columns[None, :]
    tl.store(parts + there, grad_v, mask=(spans & (node >= 0))[:, None] & inside)
    there = node.to(tl.int64)[:, None] * H + columns[None, :]
    tl.store(grad_weights + there, grad_v, mask=((spans == 0) & (node >= 0))[:, None] & inside)
    return product(delta, v, PRECISION)


@triton.jit
def _all_logits(
    hidden, position, key, weights, biases, node_of_slot, first_prefix, bands, shift, first,
    H: tl.constexpr, STRIDE: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
    N_BANDS: tl.constexpr, SLOTS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return the logits of tokens in the slots of some bands, and a mask of existing nodes."""
    slots = tl.arange(0, SLOTS) % 16
    logit = tl.zeros([TILE, SLOTS], tl.float32)
    exists = tl.zeros([TILE, SLOTS], tl.int1)
    current = first
    while tl.min(current, axis=0) < MAX_KEY:
        node = find_nodes(node_of_slot, first_prefix, bands, slots, current, N_BANDS)
        some = compute_logits(
            hidden, position, weights, biases, node, H, STRIDE, H, TILE, BLOCK, SLOTS, PRECISION
        )
        same = (key[:, None] >> shift[None, :]) == current[None, :]
        logit = tl.where(same, some, logit)
        exists = exists | (same & (node >= 0)[None, :])
        current = _next_prefixes(key, shift, current)
    return logit, exists


@triton.jit
def _all_gradients(
    h, delta, key, key_before, key_after, columns, tile, weights, node_of_slot,
    first_prefix, bands, shift, first, grad_weights, grad_biases, parts, biased,
    H: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
    N_BANDS: tl.constexpr, SLOTS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return the gradient of h from the nodes of some bands; write that of the nodes."""
    slots = tl.arange(0, SLOTS) % 16
    grad_h = tl.zeros([TILE, BLOCK], tl.float32)
    current = first
    while tl.min(current, axis=0) < MAX_KEY:
        node = find_nodes(node_of_slot, first_prefix, bands, slots, current, N_BANDS)
        continued = (key_before >> shift) == current
        spans = continued | ((key_after >> shift) == current)
        part = place_of_part(tile, bands, continued, slots, N_BANDS, 16, WIDTH)
        same = (key[:, None] >> shift[None, :]) == current[None, :]
        some = tl.where(same, delta, 0.0)
        if biased:
            grad_b = tl.sum(some, axis=0)
            tl.store(parts + part + H, grad_b, mask=spans & (node >= 0))
            tl.store(grad_biases + node, grad_b, mask=(spans == 0) & (node >= 0))
        grad_h += _gradients(
            h, some, node, part, spans, columns, weights, grad_weights, parts, H, PRECISION
        )
        current = _next_prefixes(key, shift, current)
    return grad_h


@triton.jit
def walk_tiles(
    hidden, order, keys, loss_weight, n_tokens, weights, biases, node_of_slot,
    first_prefix, nll, grad_weights, grad_biases, parts,
    H: tl.constexpr, STRIDE: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr,
    BLOCK: tl.constexpr, N_BANDS: tl.constexpr, UPPER: tl.constexpr, WEIGHTED: tl.constexpr,
    ACTIVATION: tl.constexpr, GRADIENTS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write the cost of every token; with `GRADIENTS`, replace h by the gradient of a.

    `UPPER` is the number of slots above the lowest band, rounded up to a power of two.
    """
    tile = tl.program_id(0)
    n = tl.load(n_tokens).to(tl.int32)
    first = tile * TILE
    if first < n:
        tokens = first + tl.arange(0, TILE)
        used = tokens < n
        key = tl.load(keys + tokens, mask=used, other=-1).to(tl.int32)
        position = tl.load(order + tokens, mask=used, other=-1)
        key_first = tl.load(keys + first).to(tl.int32)
        key_before = tl.load(keys + first - 1, mask=first > 0, other=-1).to(tl.int32)
        key_after = tl.load(keys + first + TILE, mask=first + TILE < n, other=-1).to(tl.int32)
        weight = used.to(tl.float32)
        if WEIGHTED:
            weight = tl.load(loss_weight + position, mask=used, other=0.0)

        low = tl.full([16], N_BANDS - 1, tl.int32)
        low_shift = tl.full([16], 4, tl.int32)
        low_first = tl.full([16], 0, tl.int32) + (key_first >> 4)
        logit, exists = _all_logits(
            hidden, position, key, weights, biases, node_of_slot, first_prefix, low, low_shift,
            low_first, H, STRIDE, TILE, BLOCK, N_BANDS, 16, PRECISION,
        )  # fmt: skip
        passed, right = slots_passed(key, tl.arange(0, 16), low_shift)
        cost, low_delta = decide(logit, right, passed & exists & used[:, None], weight)
        if N_BANDS > 1:
            bands = tl.arange(0, UPPER) // 16
            shift = 4 * tl.maximum(N_BANDS - bands, 2)
            up_first = tl.where(bands < N_BANDS - 1, key_first >> shift, MAX_KEY)
            logit, exists = _all_logits(
                hidden, position, key, weights, biases, node_of_slot, first_prefix, bands, shift,
                up_first, H, STRIDE, TILE, BLOCK, N_BANDS, UPPER, PRECISION,
            )  # fmt: skip
            passed, right = slots_passed(key, tl.arange(0, UPPER) % 16, shift)
            more, delta = decide(logit, right, passed & exists & used[:, None], weight)
            cost += more
        tl.store(nll + position, cost * weight, mask=used)
        if GRADIENTS:
            for start in range(0, H, BLOCK):
                columns = start + tl.arange(0, BLOCK)
                h = load_rows(hidden, position, columns, H, STRIDE)
                grad_h = _all_gradients(
                    h, low_delta, key, key_before, key_after, columns, tile, weights,
                    node_of_slot, first_prefix, low, low_shift, low_first,
                    grad_weights, grad_biases, parts, start == 0,
                    H, WIDTH, TILE, BLOCK, N_BANDS, 16, PRECISION,
                )  # fmt: skip
                if N_BANDS > 1:
                    grad_h += _all_gradients(
                        h, delta, key, key_before, key_after, columns, tile, weights,
                        node_of_slot, first_prefix, bands, shift, up_first,
                        grad_weights, grad_biases, parts, start == 0,
                        H, WIDTH, TILE, BLOCK, N_BANDS, UPPER, PRECISION,
                    )  # fmt: skip
                store_rows(
                    hidden, position, columns,
                    grad_h * slope(h.to(tl.float32), ACTIVATION), H, STRIDE,
                )  # fmt: skip
