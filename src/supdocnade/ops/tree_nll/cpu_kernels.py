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

_CERTAIN = np.float32(100)
"""The logit of a step past the end of a path: turning right then costs and teaches nothing."""


@kernel
def _find_paths(leaves, n_leaves, nodes, target):
    """Write the nodes and turns of every leaf; return the length of the longest path.

    A path is padded with node -1 and turns to the right, which `_logits` makes certain.
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
        target[r, m:] = _ONE
    return longest


@kernel
def _logits(hidden_NH, places, nodes, depth, V_TH, b_T, z):
    """z[r, m] = b + V[node] · h_r; rows that share a node are taken eight or four at a time."""
    width, n_rows = V_TH.shape[1], places.size
    z[:n_rows, depth:] = _CERTAIN
    for m in range(depth):
        r = 0
        while r < n_rows:
            node = nodes[r, m]
            if node < 0:
                z[r, m] = _CERTAIN
                r += 1
                continue
            v, b = V_TH[node], b_T[node]
            if r + 7 < n_rows and nodes[r + 7, m] == node:
                h0, h1 = hidden_NH[places[r]], hidden_NH[places[r + 1]]
                h2, h3 = hidden_NH[places[r + 2]], hidden_NH[places[r + 3]]
                h4, h5 = hidden_NH[places[r + 4]], hidden_NH[places[r + 5]]
                h6, h7 = hidden_NH[places[r + 6]], hidden_NH[places[r + 7]]
                a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = _ZERO
                for j in range(width):
                    a0 += h0[j] * v[j]
                    a1 += h1[j] * v[j]
                    a2 += h2[j] * v[j]
                    a3 += h3[j] * v[j]
                    a4 += h4[j] * v[j]
                    a5 += h5[j] * v[j]
                    a6 += h6[j] * v[j]
                    a7 += h7[j] * v[j]
                z[r, m], z[r + 1, m], z[r + 2, m], z[r + 3, m] = a0 + b, a1 + b, a2 + b, a3 + b
                z[r + 4, m], z[r + 5, m], z[r + 6, m], z[r + 7, m] = a4 + b, a5 + b, a6 + b, a7 + b
                r += 8
            elif r + 3 < n_rows and nodes[r + 3, m] == node:
                h0, h1 = hidden_NH[places[r]], hidden_NH[places[r + 1]]
                h2, h3 = hidden_NH[places[r + 2]], hidden_NH[places[r + 3]]
                a0 = a1 = a2 = a3 = _ZERO
                for j in range(width):
                    a0 += h0[j] * v[j]
                    a1 += h1[j] * v[j]
                    a2 += h2[j] * v[j]
                    a3 += h3[j] * v[j]
                z[r, m], z[r + 1, m], z[r + 2, m], z[r + 3, m] = a0 + b, a1 + b, a2 + b, a3 + b
                r += 4
            else:
                h0, a0 = hidden_NH[places[r]], _ZERO
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
        # exp(x) is 2^n times the exponential series of r; log 2 in two parts keeps r precise. It is
        # written out here too: Numba's cache would not notice a change in a function elsewhere.
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
    hidden_NH, places, nodes, delta, depth, top_depth, slots_T, grad_V, grad_b_T, top_V, top_b
):
    """dV[node] += Σ_r δ_r h_r; rows that share a node are taken eight or four at a time."""
    width, n_rows = hidden_NH.shape[1], places.size
    for m in range(depth):
        r = 0
        while r < n_rows:
            node = nodes[r, m]
            if node < 0:
                r += 1
                continue
            g = top_V[m] if m < top_depth else grad_V[slots_T[node]]
            h0, x0 = hidden_NH[places[r]], delta[r, m]
            if r + 7 < n_rows and nodes[r + 7, m] == node:
                h1, h2 = hidden_NH[places[r + 1]], hidden_NH[places[r + 2]]
                h3, h4 = hidden_NH[places[r + 3]], hidden_NH[places[r + 4]]
                h5, h6 = hidden_NH[places[r + 5]], hidden_NH[places[r + 6]]
                h7 = hidden_NH[places[r + 7]]
                x1, x2, x3 = delta[r + 1, m], delta[r + 2, m], delta[r + 3, m]
                x4, x5, x6, x7 = delta[r + 4, m], delta[r + 5, m], delta[r + 6, m], delta[r + 7, m]
                for j in range(width):
                    low = x0 * h0[j] + x1 * h1[j] + x2 * h2[j] + x3 * h3[j]
                    g[j] += low + x4 * h4[j] + x5 * h5[j] + x6 * h6[j] + x7 * h7[j]
                x0 += (x1 + x2 + x3) + (x4 + x5 + x6 + x7)
                r += 8
            elif r + 3 < n_rows and nodes[r + 3, m] == node:
                h1, h2 = hidden_NH[places[r + 1]], hidden_NH[places[r + 2]]
                h3 = hidden_NH[places[r + 3]]
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
    """dh = Σ_m δ_m V[node_m], eight nodes at a time, then four.

    Steps past the end of the path have δ = 0 and node -1, some row that does not matter.
    """
    width = grad_h.size
    v0, v1, v2, v3 = V_TH[nodes[0]], V_TH[nodes[1]], V_TH[nodes[2]], V_TH[nodes[3]]
    v4, v5, v6, v7 = V_TH[nodes[4]], V_TH[nodes[5]], V_TH[nodes[6]], V_TH[nodes[7]]
    x0, x1, x2, x3 = delta[0], delta[1], delta[2], delta[3]
    x4, x5, x6, x7 = delta[4], delta[5], delta[6], delta[7]
    for j in range(width):
        low = x0 * v0[j] + x1 * v1[j] + x2 * v2[j] + x3 * v3[j]
        grad_h[j] = low + x4 * v4[j] + x5 * v5[j] + x6 * v6[j] + x7 * v7[j]
    for m in range(8, depth, 4):
        v0, v1, v2, v3 = V_TH[nodes[m]], V_TH[nodes[m + 1]], V_TH[nodes[m + 2]], V_TH[nodes[m + 3]]
        x0, x1, x2, x3 = delta[m], delta[m + 1], delta[m + 2], delta[m + 3]
        for j in range(width):
            grad_h[j] += x0 * v0[j] + x1 * v1[j] + x2 * v2[j] + x3 * v3[j]


@kernel
def _through_activation(activation, grad_h, row):
    """Replace h by da = dh ∘ g'(a), with g' written in terms of h = g(a)."""
    if activation == RELU:
        for j in range(row.size):
            row[j] = grad_h[j] if row[j] > _ZERO else _ZERO
    elif activation == TANH:
        for j in range(row.size):
            row[j] = grad_h[j] * (_ONE - row[j] * row[j])
    else:
        for j in range(row.size):
            row[j] = grad_h[j] * row[j] * (_ONE - row[j])


@kernel
def _walk_subtree(
    first, last, top_depth, order, leaves, n_leaves, loss_weight_N, activation, hidden_NH,
    V_TH, b_T, slots_T, grad_V, grad_b_T, top_V, top_b, nll_N,
):  # fmt: skip
    """Walk over the sorted tokens `first:last`, all of them below one node of depth `top_depth`.

    `order` has their places in the block and `leaves` their leaves. Gradients of the nodes above go
    to `top_V` and `top_b`, one row a level; those below to their own rows. An empty `slots_T` says
    that no gradients are wanted.
    """
    grad_h = np.empty(hidden_NH.shape[1], np.float32)
    levels = 8
    while n_leaves > 1 << levels:
        levels += 4
    nodes = np.empty((TILE, levels), np.int32)
    z, target = np.zeros((TILE, levels), np.float32), np.zeros((TILE, levels), np.float32)
    cost = np.zeros((TILE, levels), np.float32)
    for start in range(first, last, TILE):
        places = order[start : min(start + TILE, last)]
        n_rows = places.size
        depth = _find_paths(leaves[start : start + n_rows], n_leaves, nodes, target)
        _logits(hidden_NH, places, nodes, depth, V_TH, b_T, z)
        _decide(z.reshape(-1), target.reshape(-1), cost.reshape(-1), n_rows * levels)
        for r in range(n_rows):
            total, weight = _ZERO, loss_weight_N[places[r]]
            for m in range(levels):
                total += cost[r, m]
                z[r, m] *= weight
            nll_N[places[r]] = weight * total
        if slots_T.size > 0:
            _add_node_gradients(
                hidden_NH,
                places,
                nodes,
                z,
                depth,
                top_depth,
                slots_T,
                grad_V,
                grad_b_T,
                top_V,
                top_b,
            )
            for r in range(n_rows):
                _hidden_gradient(nodes[r], z[r], depth, V_TH, grad_h)
                _through_activation(activation, grad_h, hidden_NH[places[r]])


@kernel
def walk(
    first, last, edges, depths, order, leaves, n_leaves, loss_weight_N, activation, hidden_NH,
    V_TH, b_T, slots_T, grad_V, grad_b_T, top_V, top_b, nll_N,
):  # fmt: skip
    """Walk over the subtrees `first:last`; subtree p has the sorted tokens `edges[p]:edges[p + 1]`.

    One call does many of them, because a thread that returns to Python waits for its turn there.
    """
    for p in range(first, last):
        _walk_subtree(
            edges[p], edges[p + 1], depths[p], order, leaves, n_leaves, loss_weight_N, activation,
            hidden_NH, V_TH, b_T, slots_T, grad_V, grad_b_T, top_V[p], top_b[p], nll_N,
        )  # fmt: skip


@kernel
def add_tops(edges, above, depths, top_V, top_b, slots_T, grad_V, grad_b_T):
    """Add what the subtrees found for the nodes above them, in order.

    A subtree without tokens found nothing, and nodes that nobody touched have no row to add to.
    """
    for p in range(depths.size):
        if edges[p] == edges[p + 1]:
            continue
        for m in range(depths[p]):
            node = above[p, m]
            grad_b_T[node] += top_b[p, m]
            target, source = grad_V[slots_T[node]], top_V[p, m]
            for j in range(target.size):
                target[j] += source[j]


@kernel
def sort_by_leaf(ids_N, leaf_of_word_K, order, leaves):
    """Write the places of the tokens in the order of their leaves, and those leaves, sorted.

    A counting sort: tokens of one leaf keep their order.
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
