"""Kernels of the walk over the tree (`tree_walk.py`), compiled for the CPU.

A tile needs three small matrix products: hidden units with rows of V for the logits, derivatives
with hidden units for the gradients of V, derivatives with rows of V for those of the hidden units.
Four tokens are multiplied with three rows at a time, or twelve sums of either kind are accumulated,
so that a loaded value is used three or four times and sixteen registers are enough.

Rows are referred to by their addresses: one table holds the rows of V on every path, another the
rows that collect their gradients. A path shorter than the longest of the tile is continued with a
row of zeros, where it turns right with certainty; the gradient of that step goes to a spare row.

All kernels of the walk are in one file: Numba recompiles a function when its own file has changed,
but does not check the files that it imports from, such as `vectors.py`.
"""

import numpy as np

from supdocnade.jit import kernel
from supdocnade.likelihood.cpu.prefix_sums import RELU, TANH
from supdocnade.likelihood.cpu.vectors import (
    LANES,
    add_product,
    load,
    load_address,
    load_first,
    load_one,
    multiply,
    prefetch,
    splat,
    store,
    store_first,
    store_sums,
    take_next,
    where_positive,
)

TILE = 32
"""Tokens of a tile: neighbours in the order of leaves, which share most of their nodes."""

GROUP, LEVELS = 4, 3
"""Tokens and levels of the tree that are multiplied at a time."""

_ZERO, _HALF, _ONE, _TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)

_CERTAIN = np.float32(100)
"""Logit of a step past the end of a path: its cost and its gradient are zero (NaN where hidden
units are not finite, as for the other steps)."""


@kernel
def _find_paths(
    leaves, n_leaves, top_depth, row_bytes, V, zeros, grad, top, spare, b_T, path_of,
    begins, nodes, V_rows, grad_rows, bias, turns,
):  # fmt: skip
    """Count the paths to the leaves of a tile and describe every step of them.

    For every step are written: the node, the addresses of its row of V and of its gradient, its
    bias and the turn taken there. Past the end of a path the node is negative and different for
    every last node, so that paths share a step if and only if its node is the same. Path p has the
    tokens `begins[p]:begins[p + 1]`. Return the number of paths and the length of the longest; none
    is shorter by more than one.
    """
    path, longest = -1, 0
    for r in range(leaves.size):
        if r > 0 and leaves[r] == leaves[r - 1]:
            path_of[r] = path
            continue
        path += 1
        path_of[r], begins[path] = path, r
        low, high, m, n = 0, n_leaves, 0, 0
        while high - low > 1:
            middle = (low + high + 1) // 2
            right = leaves[r] >= middle
            n = middle - 1
            nodes[path, m], bias[path, m] = n, b_T[n]
            turns[path, m] = _ONE if right else _ZERO
            V_rows[path, m] = V + np.uintp(n * row_bytes)
            if m < top_depth:
                grad_rows[path, m] = top + np.uintp(m * row_bytes)
            else:
                grad_rows[path, m] = grad + np.uintp(n * row_bytes)
            low, high = (middle, high) if right else (low, middle)
            m += 1
        longest = max(longest, m)
        for beyond in range(m, nodes.shape[1]):
            nodes[path, beyond], bias[path, beyond], turns[path, beyond] = -1 - n, _CERTAIN, _ONE
            V_rows[path, beyond] = zeros
            grad_rows[path, beyond] = spare
    begins[path + 1] = leaves.size
    return path + 1, longest


@kernel
def _dots(h0, h1, h2, h3, v0, v1, v2, width, z, ahead):
    """Write z[m, r] = V[m] · h_r for four tokens and three rows that they share."""
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = c0 = c1 = c2 = c3 = splat(_ZERO)
    for j in range(0, width, LANES):
        prefetch(ahead, j)
        if j + LANES <= width:
            va, vb, vc = load(v0, j), load(v1, j), load(v2, j)
            x0, x1, x2, x3 = load(h0, j), load(h1, j), load(h2, j), load(h3, j)
        else:
            n = width - j
            va, vb, vc = load_first(v0, j, n), load_first(v1, j, n), load_first(v2, j, n)
            x0, x1 = load_first(h0, j, n), load_first(h1, j, n)
            x2, x3 = load_first(h2, j, n), load_first(h3, j, n)
        a0, b0, c0 = add_product(a0, x0, va), add_product(b0, x0, vb), add_product(c0, x0, vc)
        a1, b1, c1 = add_product(a1, x1, va), add_product(b1, x1, vb), add_product(c1, x1, vc)
        a2, b2, c2 = add_product(a2, x2, va), add_product(b2, x2, vb), add_product(c2, x2, vc)
        a3, b3, c3 = add_product(a3, x3, va), add_product(b3, x3, vb), add_product(c3, x3, vc)
    store_sums(z, 0, a0, a1, a2, a3)
    store_sums(z, TILE, b0, b1, b2, b3)
    store_sums(z, 2 * TILE, c0, c1, c2, c3)


@kernel
def _own_dots(h0, h1, h2, h3, v0, v1, v2, v3, width, z, ahead):
    """Write z[r] = V[r] · h_r for four tokens with one row each."""
    a0 = a1 = a2 = a3 = splat(_ZERO)
    for j in range(0, width, LANES):
        prefetch(ahead, j)
        if j + LANES <= width:
            a0 = add_product(a0, load(h0, j), load(v0, j))
            a1 = add_product(a1, load(h1, j), load(v1, j))
            a2 = add_product(a2, load(h2, j), load(v2, j))
            a3 = add_product(a3, load(h3, j), load(v3, j))
        else:
            n = width - j
            a0 = add_product(a0, load_first(h0, j, n), load_first(v0, j, n))
            a1 = add_product(a1, load_first(h1, j, n), load_first(v1, j, n))
            a2 = add_product(a2, load_first(h2, j, n), load_first(v2, j, n))
            a3 = add_product(a3, load_first(h3, j, n), load_first(v3, j, n))
    store_sums(z, 0, a0, a1, a2, a3)


@kernel
def _write_products(n_rows, depth, width, rows, path_of, nodes, V_rows, z_at):
    """Write z[m, r] = V[m] · h_r for the tokens of a tile and the nodes on their paths.

    Meanwhile the hidden units of the next tile, `rows[TILE:]`, are prefetched, one row per product:
    if all were requested at once, the loads that are needed now would wait for them.
    """
    for g in range(0, n_rows, GROUP):
        h0, h1, h2, h3 = rows[g], rows[g + 1], rows[g + 2], rows[g + 3]
        p0, p1, p2, p3 = path_of[g], path_of[g + 1], path_of[g + 2], path_of[g + 3]
        m, coming = 0, TILE + g
        while m < depth:
            ahead = rows[min(coming, TILE + g + GROUP - 1)]
            coming += 1
            at = z_at + np.uintp(4 * (m * TILE + g))
            if m + LEVELS <= depth and nodes[p0, m + LEVELS - 1] == nodes[p3, m + LEVELS - 1]:
                v0, v1, v2 = V_rows[p0, m], V_rows[p0, m + 1], V_rows[p0, m + 2]
                _dots(h0, h1, h2, h3, v0, v1, v2, width, at, ahead)
                m += LEVELS
            else:
                v0, v1, v2, v3 = V_rows[p0, m], V_rows[p1, m], V_rows[p2, m], V_rows[p3, m]
                _own_dots(h0, h1, h2, h3, v0, v1, v2, v3, width, at, ahead)
                m += 1


@kernel
def _add_bias(n_paths, depth, begins, bias, turns, z_at, target_at):
    """Add b to the products, which gives the logits, and write the turns taken."""
    for p in range(n_paths):
        for m in range(depth):
            b, turn = splat(bias[p, m]), splat(turns[p, m])
            level = np.uintp(4 * m * TILE)
            for r in range(begins[p], begins[p + 1], LANES):
                n = min(begins[p + 1] - r, LANES)
                logits = add_product(b, splat(_ONE), load_first(z_at + level, r, n))
                store_first(z_at + level, r, n, logits)
                store_first(target_at + level, r, n, turn)


@kernel
def _decide(z, target, cost, count):
    """Write the costs -log p(π), and replace the logits by the derivatives σ(z) - π.

    With e = exp(-|z|), -log p is max(0, ∓z) + log(1 + e) and σ(z) is 1/(1 + e) or e/(1 + e):
    nothing overflows. log(1 + e) is 2 artanh(e / (2 + e)), whose argument is at most 1/3.
    """
    for k in range(count):
        x = -abs(z[k])
        x = np.float32(-60.0) if x < np.float32(-60.0) else x
        n = np.floor(x * np.float32(1.44269504) + _HALF)
        # exp(x) is 2^n times the exponential series of r; log 2 in two parts keeps r precise. This
        # repeats `prefix_sums`, because Numba's cache ignores changes in imported functions.
        r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
        p = np.float32(1 / 5040)
        p = p * r + np.float32(1 / 720)
        p = p * r + np.float32(1 / 120)
        p = p * r + np.float32(1 / 24)
        p = p * r + np.float32(1 / 6)
        p = p * r + _HALF
        p = p * r * r + r + _ONE
        e = p * np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)

        s = e / (_TWO + e)
        q = s * s
        t = np.float32(1 / 15)
        t = t * q + np.float32(1 / 13)
        t = t * q + np.float32(1 / 11)
        t = t * q + np.float32(1 / 9)
        t = t * q + np.float32(1 / 7)
        t = t * q + np.float32(1 / 5)
        t = t * q + np.float32(1 / 3)
        log_1p_e = _TWO * s * (t * q + _ONE)

        wrong = z[k] * (_ONE - _TWO * target[k])
        # Written so that NaN stays NaN: a diverging model must show in the loss.
        cost[k] = (_ZERO if wrong <= _ZERO else wrong) + log_1p_e
        z[k] = (_ONE if z[k] >= _ZERO else e) / (_ONE + e) - target[k]


@kernel
def _add_three(g0, g1, g2, rows, first, last, delta, width):
    """Add Σ_r δ[m, r] h_r over the tokens `first:last` to three rows of the gradient of V."""
    full = width - width % (4 * LANES)
    for j in range(0, full, 4 * LANES):
        j1, j2, j3 = j + LANES, j + 2 * LANES, j + 3 * LANES
        a0, a1, a2, a3 = load(g0, j), load(g0, j1), load(g0, j2), load(g0, j3)
        b0, b1, b2, b3 = load(g1, j), load(g1, j1), load(g1, j2), load(g1, j3)
        c0, c1, c2, c3 = load(g2, j), load(g2, j1), load(g2, j2), load(g2, j3)
        for r in range(first, last):
            h = load_address(rows, r)
            x0, x1, x2, x3 = load(h, j), load(h, j1), load(h, j2), load(h, j3)
            d = splat(load_one(delta, r))
            a0, a1 = add_product(a0, x0, d), add_product(a1, x1, d)
            a2, a3 = add_product(a2, x2, d), add_product(a3, x3, d)
            d = splat(load_one(delta, TILE + r))
            b0, b1 = add_product(b0, x0, d), add_product(b1, x1, d)
            b2, b3 = add_product(b2, x2, d), add_product(b3, x3, d)
            d = splat(load_one(delta, 2 * TILE + r))
            c0, c1 = add_product(c0, x0, d), add_product(c1, x1, d)
            c2, c3 = add_product(c2, x2, d), add_product(c3, x3, d)
        _store_four(g0, j, a0, a1, a2, a3)
        _store_four(g1, j, b0, b1, b2, b3)
        _store_four(g2, j, c0, c1, c2, c3)
    for j in range(full, width, LANES):
        n = min(width - j, LANES)
        a, b, c = load_first(g0, j, n), load_first(g1, j, n), load_first(g2, j, n)
        for r in range(first, last):
            x = load_first(load_address(rows, r), j, n)
            a = add_product(a, x, splat(load_one(delta, r)))
            b = add_product(b, x, splat(load_one(delta, TILE + r)))
            c = add_product(c, x, splat(load_one(delta, 2 * TILE + r)))
        store_first(g0, j, n, a)
        store_first(g1, j, n, b)
        store_first(g2, j, n, c)


@kernel
def _add_one(g, rows, first, last, delta, width):
    """Add Σ_r δ[r] h_r over the tokens `first:last` to one row of the gradient of V."""
    full = width - width % (4 * LANES)
    for j in range(0, full, 4 * LANES):
        j1, j2, j3 = j + LANES, j + 2 * LANES, j + 3 * LANES
        a0, a1, a2, a3 = load(g, j), load(g, j1), load(g, j2), load(g, j3)
        for r in range(first, last):
            h, d = load_address(rows, r), splat(load_one(delta, r))
            a0, a1 = add_product(a0, load(h, j), d), add_product(a1, load(h, j1), d)
            a2, a3 = add_product(a2, load(h, j2), d), add_product(a3, load(h, j3), d)
        _store_four(g, j, a0, a1, a2, a3)
    for j in range(full, width, LANES):
        n = min(width - j, LANES)
        a = load_first(g, j, n)
        for r in range(first, last):
            x = load_first(load_address(rows, r), j, n)
            a = add_product(a, x, splat(load_one(delta, r)))
        store_first(g, j, n, a)


@kernel
def _store_four(row, j, a, b, c, d):
    store(row, j, a)
    store(row, j + LANES, b)
    store(row, j + 2 * LANES, c)
    store(row, j + 3 * LANES, d)


@kernel
def _sum_three(first, last, delta, sums):
    """Write sums[m] = Σ_r δ[m, r] over the tokens `first:last`, for three levels.

    The compiler's order of these sums would depend on what else it compiles, so a process that
    compiles would get other bits than one that loads the kernel from Numba's cache.
    """
    one = splat(_ONE)
    a = b = c = splat(_ZERO)
    for r in range(first, last, LANES):
        n = min(last - r, LANES)
        a = add_product(a, one, load_first(delta, r, n))
        b = add_product(b, one, load_first(delta, TILE + r, n))
        c = add_product(c, one, load_first(delta, 2 * TILE + r, n))
    store_sums(sums, 0, a, b, c, splat(_ZERO))


@kernel
def _add_gradients(
    n_paths, depth, width, top_depth, rows_at, begins, nodes, grad_rows, z_at, grad_b_T, top_b
):
    """Add δ_r h_r to the gradients of V and δ_r to those of b, at every node on the paths.

    Paths that share the deepest of three nodes share all three.
    """
    sums = np.empty(4, np.float32)
    sums_at = np.uintp(sums.ctypes.data)
    m = 0
    while m < depth:
        n_levels = LEVELS if m + LEVELS <= depth else 1
        delta, deepest, p = z_at + np.uintp(4 * m * TILE), m + n_levels - 1, 0
        while p < n_paths:
            other = p + 1
            while other < n_paths and nodes[other, deepest] == nodes[p, deepest]:
                other += 1
            r, end = begins[p], begins[other]
            if n_levels == LEVELS:
                g0, g1, g2 = grad_rows[p, m], grad_rows[p, m + 1], grad_rows[p, m + 2]
                _add_three(g0, g1, g2, rows_at, r, end, delta, width)
            else:
                _add_one(grad_rows[p, m], rows_at, r, end, delta, width)
            _sum_three(r, end, delta, sums_at)
            for level in range(m, m + n_levels):
                n = nodes[p, level]
                if n >= 0 and level < top_depth:
                    top_b[level] += sums[level - m]
                elif n >= 0:
                    grad_b_T[n] += sums[level - m]
            p = other
        m += n_levels


@kernel
def _through(activation, grad, h):
    """Return grad ∘ g'(a), with g' written in terms of h = g(a)."""
    if activation == RELU:
        return where_positive(h, grad)
    if activation == TANH:
        return multiply(grad, add_product(splat(_ONE), multiply(h, splat(-_ONE)), h))
    return multiply(grad, multiply(h, add_product(splat(_ONE), splat(-_ONE), h)))


@kernel
def _replace_three(h, j, a, b, c, activation):
    j1, j2 = j + LANES, j + 2 * LANES
    store(h, j, _through(activation, a, load(h, j)))
    store(h, j1, _through(activation, b, load(h, j1)))
    store(h, j2, _through(activation, c, load(h, j2)))


@kernel
def _replace_hidden(
    h0, h1, h2, h3, path0, path1, path2, path3, delta, n_shared, depth, width, activation
):
    """Replace h_r by (Σ_m δ[m, r] V[m]) ∘ g'(a_r) for four tokens.

    A path is given by the address of its row addresses; the first `n_shared` rows are the same.
    """
    full = width - width % (3 * LANES)
    for j in range(0, full, 3 * LANES):
        j1, j2 = j + LANES, j + 2 * LANES
        a0 = a1 = a2 = b0 = b1 = b2 = c0 = c1 = c2 = d0 = d1 = d2 = splat(_ZERO)
        for m in range(n_shared):
            v, at = load_address(path0, m), m * TILE
            v0, v1, v2 = load(v, j), load(v, j1), load(v, j2)
            x = splat(load_one(delta, at))
            a0, a1, a2 = add_product(a0, v0, x), add_product(a1, v1, x), add_product(a2, v2, x)
            x = splat(load_one(delta, at + 1))
            b0, b1, b2 = add_product(b0, v0, x), add_product(b1, v1, x), add_product(b2, v2, x)
            x = splat(load_one(delta, at + 2))
            c0, c1, c2 = add_product(c0, v0, x), add_product(c1, v1, x), add_product(c2, v2, x)
            x = splat(load_one(delta, at + 3))
            d0, d1, d2 = add_product(d0, v0, x), add_product(d1, v1, x), add_product(d2, v2, x)
        for m in range(n_shared, depth):
            at = m * TILE
            v, x = load_address(path0, m), splat(load_one(delta, at))
            a0, a1 = add_product(a0, load(v, j), x), add_product(a1, load(v, j1), x)
            a2 = add_product(a2, load(v, j2), x)
            v, x = load_address(path1, m), splat(load_one(delta, at + 1))
            b0, b1 = add_product(b0, load(v, j), x), add_product(b1, load(v, j1), x)
            b2 = add_product(b2, load(v, j2), x)
            v, x = load_address(path2, m), splat(load_one(delta, at + 2))
            c0, c1 = add_product(c0, load(v, j), x), add_product(c1, load(v, j1), x)
            c2 = add_product(c2, load(v, j2), x)
            v, x = load_address(path3, m), splat(load_one(delta, at + 3))
            d0, d1 = add_product(d0, load(v, j), x), add_product(d1, load(v, j1), x)
            d2 = add_product(d2, load(v, j2), x)
        _replace_three(h0, j, a0, a1, a2, activation)
        _replace_three(h1, j, b0, b1, b2, activation)
        _replace_three(h2, j, c0, c1, c2, activation)
        _replace_three(h3, j, d0, d1, d2, activation)
    for j in range(full, width, LANES):
        n = min(width - j, LANES)
        a = b = c = d = splat(_ZERO)
        for m in range(depth):
            at = m * TILE
            v0, v1 = load_address(path0, m), load_address(path1, m)
            v2, v3 = load_address(path2, m), load_address(path3, m)
            a = add_product(a, load_first(v0, j, n), splat(load_one(delta, at)))
            b = add_product(b, load_first(v1, j, n), splat(load_one(delta, at + 1)))
            c = add_product(c, load_first(v2, j, n), splat(load_one(delta, at + 2)))
            d = add_product(d, load_first(v3, j, n), splat(load_one(delta, at + 3)))
        store_first(h0, j, n, _through(activation, a, load_first(h0, j, n)))
        store_first(h1, j, n, _through(activation, b, load_first(h1, j, n)))
        store_first(h2, j, n, _through(activation, c, load_first(h2, j, n)))
        store_first(h3, j, n, _through(activation, d, load_first(h3, j, n)))


@kernel
def _replace_all_hidden(
    n_rows, depth, width, activation, rows, path_of, nodes, path_bytes, paths_at, z_at
):
    """Replace the hidden units of a tile by the gradients of their activations."""
    for g in range(0, n_rows, GROUP):
        p0, p1, p2, p3 = path_of[g], path_of[g + 1], path_of[g + 2], path_of[g + 3]
        n_shared = 0
        while n_shared < depth and nodes[p0, n_shared] == nodes[p3, n_shared]:
            n_shared += 1
        _replace_hidden(
            rows[g], rows[g + 1], rows[g + 2], rows[g + 3],
            paths_at + np.uintp(p0 * path_bytes), paths_at + np.uintp(p1 * path_bytes),
            paths_at + np.uintp(p2 * path_bytes), paths_at + np.uintp(p3 * path_bytes),
            z_at + np.uintp(4 * g), n_shared, depth, width, activation,
        )  # fmt: skip


@kernel
def _walk_subtree(
    first, last, top_depth, order, leaves, n_leaves, loss_weight_N, activation, hidden_NH,
    V_TH, b_T, grad_V, grad_b_T, top_V, top_b, nll_N,
):  # fmt: skip
    """Walk over the sorted tokens `first:last`, all of them below one node of depth `top_depth`.

    `order` holds their positions in the block and `leaves` their leaves. Gradients of the nodes
    above the subtree are added to `top_V` and `top_b`, one row per level, those of its own nodes to
    their rows. If `grad_V` is empty, no gradients are computed.
    """
    width, levels = hidden_NH.shape[1], 1
    while n_leaves > 1 << levels:
        levels += 1
    row_bytes = 4 * width
    hidden, V = np.uintp(hidden_NH.ctypes.data), np.uintp(V_TH.ctypes.data)
    grad, top = np.uintp(grad_V.ctypes.data), np.uintp(top_V.ctypes.data)
    # Rows in place of a row of V, of a token that pads a group, and of the gradient of a node.
    spare = np.zeros((3, width), np.float32)
    zeros = np.uintp(spare.ctypes.data)
    no_token, no_node = zeros + np.uintp(row_bytes), zeros + np.uintp(2 * row_bytes)

    # By token. After the tokens of the last tile, values of an earlier tile remain.
    rows, path_of = np.empty(2 * TILE, np.uintp), np.empty(TILE, np.int64)
    weight, total = np.zeros(TILE, np.float32), np.empty(TILE, np.float32)
    # By path; by path and level; by level and token.
    begins = np.empty(TILE + 1, np.int64)
    nodes = np.empty((TILE, levels), np.int64)
    V_rows, grad_rows = np.empty((TILE, levels), np.uintp), np.empty((TILE, levels), np.uintp)
    bias, turns = np.empty((TILE, levels), np.float32), np.empty((TILE, levels), np.float32)
    target, cost = np.zeros((levels, TILE), np.float32), np.empty((levels, TILE), np.float32)
    # Two spare levels, because sums are always read for three levels at a time.
    z = np.zeros((levels + LEVELS - 1, TILE), np.float32)
    rows_at, paths_at = np.uintp(rows.ctypes.data), np.uintp(V_rows.ctypes.data)
    z_at, target_at = np.uintp(z.ctypes.data), np.uintp(target.ctypes.data)

    for r in range(TILE):
        known = first + r < last
        rows[TILE + r] = hidden + np.uintp(order[first + r] * row_bytes) if known else no_token
    for start in range(first, last, TILE):
        n_tokens = min(TILE, last - start)
        n_rows = n_tokens + -n_tokens % GROUP
        n_paths, depth = _find_paths(
            leaves[start : start + n_tokens], n_leaves, top_depth, row_bytes, V, zeros, grad,
            top, no_node, b_T, path_of, begins, nodes, V_rows, grad_rows, bias, turns,
        )  # fmt: skip
        for r in range(TILE):
            coming = start + TILE + r
            rows[r] = rows[TILE + r]
            known = coming < last
            rows[TILE + r] = hidden + np.uintp(order[coming] * row_bytes) if known else no_token
        for r in range(n_tokens):
            weight[r] = loss_weight_N[order[start + r]]
        for r in range(n_tokens, n_rows):
            path_of[r] = path_of[n_tokens - 1]

        _write_products(n_rows, depth, width, rows, path_of, nodes, V_rows, z_at)
        _add_bias(n_paths, depth, begins, bias, turns, z_at, target_at)
        _decide(z.reshape(-1), target.reshape(-1), cost.reshape(-1), depth * TILE)
        total[:] = _ZERO
        for m in range(depth):
            for r in range(TILE):
                total[r] += cost[m, r]
                z[m, r] *= weight[r]
        for r in range(n_tokens):
            nll_N[order[start + r]] = weight[r] * total[r]

        if grad_V.shape[0] > 0:
            _add_gradients(
                n_paths, depth, width, top_depth, rows_at, begins, nodes, grad_rows, z_at,
                grad_b_T, top_b,
            )  # fmt: skip
            _replace_all_hidden(
                n_rows, depth, width, activation, rows, path_of, nodes, V_rows.strides[0],
                paths_at, z_at,
            )  # fmt: skip
    spare[0, 0] = _ZERO  # Keeps the array alive, which is otherwise used only by its address.


@kernel
def walk(
    next_subtree, edges, depths, order, leaves, n_leaves, loss_weight_N, activation, hidden_NH,
    V_TH, b_T, grad_V, grad_b_T, top_V, top_b, nll_N,
):  # fmt: skip
    """Walk over the next subtrees until none is left; subtree p has `edges[p]:edges[p + 1]`.

    One call processes several subtrees, because a thread that returns to Python may have to wait
    for the interpreter lock.
    """
    while True:
        p = take_next(np.uintp(next_subtree.ctypes.data))
        if p >= depths.size:
            break
        _walk_subtree(
            edges[p], edges[p + 1], depths[p], order, leaves, n_leaves, loss_weight_N, activation,
            hidden_NH, V_TH, b_T, grad_V, grad_b_T, top_V[p], top_b[p], nll_N,
        )  # fmt: skip


@kernel
def add_shared_gradients(above, depths, top_V, top_b, grad_V, grad_b_T):
    """Add the gradients that the subtrees collected for the nodes above them, in order."""
    for p in range(depths.size):
        for m in range(depths[p]):
            node = above[p, m]
            grad_b_T[node] += top_b[p, m]
            for j in range(grad_V.shape[1]):
                grad_V[node, j] += top_V[p, m, j]


@kernel
def sort_by_leaf(ids_N, leaf_of_word_K, order, leaves):
    """Write the positions of the tokens in the order of their leaves, and the sorted leaves.

    This is a counting sort: tokens of one leaf keep their order.
    """
    next_place = np.zeros(leaf_of_word_K.size + 1, np.int64)
    for i in range(ids_N.size):
        next_place[leaf_of_word_K[ids_N[i]] + 1] += 1
    for leaf in range(leaf_of_word_K.size):
        next_place[leaf + 1] += next_place[leaf]
    for i in range(ids_N.size):
        leaf = leaf_of_word_K[ids_N[i]]
        order[next_place[leaf]] = i
        leaves[next_place[leaf]] = leaf
        next_place[leaf] += 1
