"""The walk over the tree, compiled for the CPU (`cpu.py` says how it works).

Two habits keep the kernels fast. Elements are addressed as `array[row, j]`, never through a view of
the row, and no function is called for a single token: a view or a call counts references to its
arrays, and for rows of 200 floats that costs more than the arithmetic on them.
"""

import numpy as np

from supdocnade.jit import kernel
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
    longest, levels = 0, nodes.shape[1]
    for r in range(leaves.size):
        low, high, m = 0, n_leaves, 0
        while high - low > 1:
            middle = (low + high + 1) // 2
            right = leaves[r] >= middle
            nodes[r, m] = middle - 1
            target[r, m] = _ONE if right else _ZERO
            low, high = (middle, high) if right else (low, middle)
            m += 1
        longest = max(longest, m)
        for rest in range(m, levels):
            nodes[r, rest] = -1
            target[r, rest] = _ONE
    return longest


@kernel
def _logits(hidden_NH, places, nodes, depth, V_TH, b_T, z):
    """z[r, m] = b + V[node] · h_r; rows that share a node are taken eight or four at a time."""
    width, n_rows = V_TH.shape[1], places.size
    for r in range(n_rows):
        for m in range(depth, nodes.shape[1]):
            z[r, m] = _CERTAIN
    for m in range(depth):
        r = 0
        while r < n_rows:
            n = nodes[r, m]
            if n < 0:
                z[r, m] = _CERTAIN
                r += 1
                continue
            p0, a0 = places[r], _ZERO
            if r + 7 < n_rows and nodes[r + 7, m] == n:
                p1, p2, p3, p4 = places[r + 1], places[r + 2], places[r + 3], places[r + 4]
                p5, p6, p7 = places[r + 5], places[r + 6], places[r + 7]
                a1 = a2 = a3 = a4 = a5 = a6 = a7 = _ZERO
                for j in range(width):
                    a0 += hidden_NH[p0, j] * V_TH[n, j]
                    a1 += hidden_NH[p1, j] * V_TH[n, j]
                    a2 += hidden_NH[p2, j] * V_TH[n, j]
                    a3 += hidden_NH[p3, j] * V_TH[n, j]
                    a4 += hidden_NH[p4, j] * V_TH[n, j]
                    a5 += hidden_NH[p5, j] * V_TH[n, j]
                    a6 += hidden_NH[p6, j] * V_TH[n, j]
                    a7 += hidden_NH[p7, j] * V_TH[n, j]
                z[r + 1, m], z[r + 2, m], z[r + 3, m] = a1 + b_T[n], a2 + b_T[n], a3 + b_T[n]
                z[r + 4, m], z[r + 5, m] = a4 + b_T[n], a5 + b_T[n]
                z[r + 6, m], z[r + 7, m] = a6 + b_T[n], a7 + b_T[n]
                count = 8
            elif r + 3 < n_rows and nodes[r + 3, m] == n:
                p1, p2, p3 = places[r + 1], places[r + 2], places[r + 3]
                a1 = a2 = a3 = _ZERO
                for j in range(width):
                    a0 += hidden_NH[p0, j] * V_TH[n, j]
                    a1 += hidden_NH[p1, j] * V_TH[n, j]
                    a2 += hidden_NH[p2, j] * V_TH[n, j]
                    a3 += hidden_NH[p3, j] * V_TH[n, j]
                z[r + 1, m], z[r + 2, m], z[r + 3, m] = a1 + b_T[n], a2 + b_T[n], a3 + b_T[n]
                count = 4
            else:
                for j in range(width):
                    a0 += hidden_NH[p0, j] * V_TH[n, j]
                count = 1
            z[r, m] = a0 + b_T[n]
            r += count


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
def _add_level(hidden_NH, places, nodes, delta, m, is_top, slots_T, grad, grad_bias):
    """dV[node] += Σ_r δ_r h_r at level m; rows that share a node are taken eight or four at a time.

    The gradients of a shared level stand in its own row, those of other nodes in theirs.
    """
    width, n_rows, r = hidden_NH.shape[1], places.size, 0
    while r < n_rows:
        n = nodes[r, m]
        if n < 0:
            r += 1
            continue
        row = m if is_top else slots_T[n]
        p0, x0 = places[r], delta[r, m]
        if r + 3 < n_rows and nodes[r + 3, m] == n:
            p1, p2, p3 = places[r + 1], places[r + 2], places[r + 3]
            x1, x2, x3 = delta[r + 1, m], delta[r + 2, m], delta[r + 3, m]
            if r + 7 < n_rows and nodes[r + 7, m] == n:
                p4, p5, p6, p7 = places[r + 4], places[r + 5], places[r + 6], places[r + 7]
                x4, x5, x6, x7 = delta[r + 4, m], delta[r + 5, m], delta[r + 6, m], delta[r + 7, m]
                for j in range(width):
                    low = x0 * hidden_NH[p0, j] + x1 * hidden_NH[p1, j]
                    low += x2 * hidden_NH[p2, j] + x3 * hidden_NH[p3, j]
                    high = x4 * hidden_NH[p4, j] + x5 * hidden_NH[p5, j]
                    high += x6 * hidden_NH[p6, j] + x7 * hidden_NH[p7, j]
                    grad[row, j] += low + high
                x0 += x4 + x5 + x6 + x7
                r += 8
            else:
                for j in range(width):
                    low = x0 * hidden_NH[p0, j] + x1 * hidden_NH[p1, j]
                    grad[row, j] += low + x2 * hidden_NH[p2, j] + x3 * hidden_NH[p3, j]
                r += 4
            x0 += x1 + x2 + x3
        else:
            for j in range(width):
                grad[row, j] += x0 * hidden_NH[p0, j]
            r += 1
        grad_bias[m if is_top else n] += x0


@kernel
def _hidden_gradients(places, nodes, delta, depth, V_TH, activation, grad_h, hidden_NH):
    """Replace h by da = (Σ_m δ_m V[node_m]) ∘ g'(a), with g' written in terms of h = g(a).

    Eight nodes at a time, then four; steps past the end of a path have δ = 0 and node -1, some row
    that does not matter.
    """
    width = grad_h.size
    for r in range(places.size):
        n0, n1, n2, n3 = nodes[r, 0], nodes[r, 1], nodes[r, 2], nodes[r, 3]
        n4, n5, n6, n7 = nodes[r, 4], nodes[r, 5], nodes[r, 6], nodes[r, 7]
        x0, x1, x2, x3 = delta[r, 0], delta[r, 1], delta[r, 2], delta[r, 3]
        x4, x5, x6, x7 = delta[r, 4], delta[r, 5], delta[r, 6], delta[r, 7]
        for j in range(width):
            low = x0 * V_TH[n0, j] + x1 * V_TH[n1, j] + x2 * V_TH[n2, j] + x3 * V_TH[n3, j]
            high = x4 * V_TH[n4, j] + x5 * V_TH[n5, j] + x6 * V_TH[n6, j] + x7 * V_TH[n7, j]
            grad_h[j] = low + high
        for m in range(8, depth, 4):
            n0, n1, n2, n3 = nodes[r, m], nodes[r, m + 1], nodes[r, m + 2], nodes[r, m + 3]
            x0, x1, x2, x3 = delta[r, m], delta[r, m + 1], delta[r, m + 2], delta[r, m + 3]
            for j in range(width):
                low = x0 * V_TH[n0, j] + x1 * V_TH[n1, j]
                grad_h[j] += low + x2 * V_TH[n2, j] + x3 * V_TH[n3, j]
        p = places[r]
        if activation == RELU:
            for j in range(width):
                hidden_NH[p, j] = grad_h[j] if hidden_NH[p, j] > _ZERO else _ZERO
        elif activation == TANH:
            for j in range(width):
                hidden_NH[p, j] = grad_h[j] * (_ONE - hidden_NH[p, j] * hidden_NH[p, j])
        else:
            for j in range(width):
                hidden_NH[p, j] = grad_h[j] * hidden_NH[p, j] * (_ONE - hidden_NH[p, j])


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
            for m in range(depth):
                if m < top_depth:
                    _add_level(hidden_NH, places, nodes, z, m, True, slots_T, top_V, top_b)
                else:
                    _add_level(hidden_NH, places, nodes, z, m, False, slots_T, grad_V, grad_b_T)
            _hidden_gradients(places, nodes, z, depth, V_TH, activation, grad_h, hidden_NH)


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
            for j in range(grad_V.shape[1]):
                grad_V[slots_T[node], j] += top_V[p, m, j]


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
