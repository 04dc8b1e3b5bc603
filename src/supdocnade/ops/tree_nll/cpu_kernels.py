"""The walk over the tree, compiled for the CPU (`cpu.py` says how it works).

Rows are taken out of arrays by index: unpacking (`a, b = array`) gives views whose memory layout
Numba no longer knows, and loops over them are three times slower.
"""

import numpy as np

from supdocnade.ops.jit import kernel
from supdocnade.ops.prefix_sum.cpu_kernels import RELU, TANH

TILE = 32
"""Tokens taken together: neighbours in the order of leaves, they share most of their nodes."""

_ZERO, _HALF, _ONE, _TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)


@kernel
def _find_paths(leaves, n_leaves, nodes, target):
    """Write the nodes and turns of every leaf; return the length of the longest path.

    A path that ends early is padded with node -1 and the target ½, at which the derivative of a
    logit of zero vanishes.
    """
    longest = 0
    for r in range(leaves.size):
        if r > 0 and leaves[r] == leaves[r - 1]:
            nodes[r] = nodes[r - 1]
            target[r] = target[r - 1]
            continue
        low, high, m = 0, n_leaves, 0
        while high - low > 1:
            middle = (low + high + 1) // 2
            nodes[r, m] = middle - 1
            right = leaves[r] >= middle
            target[r, m] = _ONE if right else _ZERO
            low, high = (middle, high) if right else (low, middle)
            m += 1
        longest = max(longest, m)
        nodes[r, m:] = -1
        target[r, m:] = _HALF
    return longest


@kernel
def _logits(tile, n_rows, nodes, depth, V_TH, b_T, z):
    """z[r, m] = b + V[node] · h_r; rows that share a node are taken four at a time."""
    width = V_TH.shape[1]
    for m in range(depth):
        r = 0
        while r < n_rows:
            node = nodes[r, m]
            if node < 0:
                z[r, m] = _ZERO
                r += 1
                continue
            v, b = V_TH[node], b_T[node]
            if r + 3 < n_rows and nodes[r + 3, m] == node:
                h0, h1, h2, h3 = tile[r], tile[r + 1], tile[r + 2], tile[r + 3]
                a0 = a1 = a2 = a3 = _ZERO
                for j in range(width):
                    a0 += h0[j] * v[j]
                    a1 += h1[j] * v[j]
                    a2 += h2[j] * v[j]
                    a3 += h3[j] * v[j]
                z[r, m], z[r + 1, m], z[r + 2, m], z[r + 3, m] = a0 + b, a1 + b, a2 + b, a3 + b
                r += 4
            else:
                h0, a0 = tile[r], _ZERO
                for j in range(width):
                    a0 += h0[j] * v[j]
                z[r, m] = a0 + b
                r += 1


@kernel
def _decide(z, target, cost, count):
    """Turn logits into costs -log p(π) and, in place, their derivatives σ(z) - π.

    With e = exp(-|z|), -log p is max(0, ∓z) + log(1 + e) and σ(z) is 1/(1 + e) or e/(1 + e):
    nothing overflows. log(1 + e) is 2 artanh(e / (2 + e)), whose argument is at most 1/3.
    """
    for k in range(count):
        x = -abs(z[k])
        x = np.float32(-60.0) if x < np.float32(-60.0) else x
        n = np.floor(x * np.float32(1.44269504) + _HALF)
        # exp(x) is 2^n times the exponential series of r; log 2 in two parts keeps r precise.
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
def _add_node_gradients(
    tile, n_rows, nodes, delta, depth, top_depth, slots_T, grad_V, grad_b_T, top_V, top_b
):
    """dV[node] += Σ_r δ_r h_r; rows that share a node are taken four at a time."""
    width = tile.shape[1]
    for m in range(depth):
        r = 0
        while r < n_rows:
            node = nodes[r, m]
            if node < 0:
                r += 1
                continue
            g = top_V[m] if m < top_depth else grad_V[slots_T[node]]
            h0, x0 = tile[r], delta[r, m]
            if r + 3 < n_rows and nodes[r + 3, m] == node:
                h1, h2, h3 = tile[r + 1], tile[r + 2], tile[r + 3]
                x1, x2, x3 = delta[r + 1, m], delta[r + 2, m], delta[r + 3, m]
                for j in range(width):
                    g[j] += x0 * h0[j] + x1 * h1[j] + x2 * h2[j] + x3 * h3[j]
                x0 += x1 + x2 + x3
                r += 4
            else:
                for j in range(width):
                    g[j] += x0 * h0[j]
                r += 1
            if m < top_depth:
                top_b[m] += x0
            else:
                grad_b_T[node] += x0


@kernel
def _hidden_gradient(nodes, delta, depth, V_TH, grad_h):
    """dh = Σ_m δ_m V[node_m], four nodes at a time."""
    width = grad_h.size
    grad_h[:] = _ZERO
    m = 0
    while m + 4 <= depth and nodes[m + 3] >= 0:
        v0, v1, v2, v3 = V_TH[nodes[m]], V_TH[nodes[m + 1]], V_TH[nodes[m + 2]], V_TH[nodes[m + 3]]
        x0, x1, x2, x3 = delta[m], delta[m + 1], delta[m + 2], delta[m + 3]
        for j in range(width):
            grad_h[j] += x0 * v0[j] + x1 * v1[j] + x2 * v2[j] + x3 * v3[j]
        m += 4
    while m < depth and nodes[m] >= 0:
        v0, x0 = V_TH[nodes[m]], delta[m]
        for j in range(width):
            grad_h[j] += x0 * v0[j]
        m += 1


@kernel
def _through_activation(activation, grad_h, h, grad_a):
    """da = dh ∘ g'(a), with g' written in terms of h = g(a)."""
    if activation == RELU:
        for j in range(grad_a.size):
            grad_a[j] = grad_h[j] if h[j] > _ZERO else _ZERO
    elif activation == TANH:
        for j in range(grad_a.size):
            grad_a[j] = grad_h[j] * (_ONE - h[j] * h[j])
    else:
        for j in range(grad_a.size):
            grad_a[j] = grad_h[j] * h[j] * (_ONE - h[j])


@kernel
def walk(
    first, last, top_depth, order, leaves, n_leaves, loss_weight_N, activation, hidden_NH,
    V_TH, b_T, slots_T, grad_V, grad_b_T, top_V, top_b, nll_N,
):  # fmt: skip
    """Walk over the sorted tokens `first:last`, all of them below one node of depth `top_depth`.

    `order` has their places in the block and `leaves` their leaves. Gradients of the nodes above go
    to `top_V` and `top_b`, one row a level; those below to their own rows. An empty `slots_T` says
    that no gradients are wanted.
    """
    n_topics = hidden_NH.shape[1]
    tile, grad_h = np.empty((TILE, n_topics), np.float32), np.empty(n_topics, np.float32)
    levels = 1
    while n_leaves > 1 << levels:
        levels += 1
    nodes = np.empty((TILE, levels), np.int32)
    z, target = np.zeros((TILE, levels), np.float32), np.zeros((TILE, levels), np.float32)
    cost = np.zeros((TILE, levels), np.float32)
    for start in range(first, last, TILE):
        places = order[start : min(start + TILE, last)]
        n_rows = places.size
        for r in range(n_rows):
            source, row = hidden_NH[places[r]], tile[r]
            for j in range(n_topics):
                row[j] = source[j]
        depth = _find_paths(leaves[start : start + n_rows], n_leaves, nodes, target)
        _logits(tile, n_rows, nodes, depth, V_TH, b_T, z)
        _decide(z.reshape(-1), target.reshape(-1), cost.reshape(-1), n_rows * levels)
        for r in range(n_rows):
            total, weight = _ZERO, loss_weight_N[places[r]]
            for m in range(depth):
                total += cost[r, m] if nodes[r, m] >= 0 else _ZERO
                z[r, m] *= weight
            nll_N[places[r]] = weight * total
        if slots_T.size > 0:
            _add_node_gradients(
                tile, n_rows, nodes, z, depth, top_depth, slots_T, grad_V, grad_b_T, top_V, top_b
            )
            for r in range(n_rows):
                _hidden_gradient(nodes[r], z[r], depth, V_TH, grad_h)
                _through_activation(activation, grad_h, tile[r], hidden_NH[places[r]])


@kernel
def touched_nodes(leaves, n_leaves, nodes):
    """Write every node above the ascending `leaves` once; return how many there are."""
    count, previous = 0, -1
    for leaf in leaves:
        low, high = 0, n_leaves
        while high - low > 1:
            middle = (low + high + 1) // 2
            if not low <= previous < high:
                nodes[count] = middle - 1
                count += 1
            low, high = (low, middle) if leaf < middle else (middle, high)
        previous = leaf
    return count
