"""The walk over the tree, compiled for the CPU (`cpu.py` says how it works).

Two habits keep the inner loops on the vector units: rows are taken by index (`a, b = array` gives
views whose memory layout Numba no longer knows, which is three times slower), and the arrays of the
walk are padded to `_VECTOR` floats.
"""

import numpy as np

from supdocnade.ops.jit import kernel
from supdocnade.ops.prefix_sum.cpu_kernels import RELU, TANH

MAX_DEPTH = 24
TILE = 16
"""Tokens of one word taken together."""

_VECTOR = 32
"""Loops over a multiple of this many floats need no scalar remainder (four vectors of eight)."""

_ZERO, _HALF, _ONE, _TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)


@kernel
def _logits(tile, n_rows, path, bias, padded_depth, z):
    """z[r, m] = b_m + V_m · h_r, four rows by two nodes or one row by four nodes at a time."""
    width = tile.shape[1]
    r = 0
    while r + 4 <= n_rows:
        h0, h1, h2, h3 = tile[r], tile[r + 1], tile[r + 2], tile[r + 3]
        for m in range(0, padded_depth, 2):
            v0, v1 = path[m], path[m + 1]
            a00 = a10 = a20 = a30 = bias[m]
            a01 = a11 = a21 = a31 = bias[m + 1]
            for j in range(width):
                x, y = v0[j], v1[j]
                a00 += h0[j] * x
                a01 += h0[j] * y
                a10 += h1[j] * x
                a11 += h1[j] * y
                a20 += h2[j] * x
                a21 += h2[j] * y
                a30 += h3[j] * x
                a31 += h3[j] * y
            k = r * padded_depth + m
            z[k], z[k + 1] = a00, a01
            z[k + padded_depth], z[k + padded_depth + 1] = a10, a11
            z[k + 2 * padded_depth], z[k + 2 * padded_depth + 1] = a20, a21
            z[k + 3 * padded_depth], z[k + 3 * padded_depth + 1] = a30, a31
        r += 4
    while r < n_rows:
        h0 = tile[r]
        for m in range(0, padded_depth, 4):
            v0, v1, v2, v3 = path[m], path[m + 1], path[m + 2], path[m + 3]
            a0, a1, a2, a3 = bias[m], bias[m + 1], bias[m + 2], bias[m + 3]
            for j in range(width):
                a0 += h0[j] * v0[j]
                a1 += h0[j] * v1[j]
                a2 += h0[j] * v2[j]
                a3 += h0[j] * v3[j]
            k = r * padded_depth + m
            z[k], z[k + 1], z[k + 2], z[k + 3] = a0, a1, a2, a3
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
def _add_node_gradients(tile, n_rows, delta, weight, depth, padded_depth, grad, grad_bias):
    """dV_m += Σ_r w_r δ_rm h_r, four rows at a time."""
    width = tile.shape[1]
    r = 0
    while r + 4 <= n_rows:
        h0, h1, h2, h3 = tile[r], tile[r + 1], tile[r + 2], tile[r + 3]
        for m in range(depth):
            k = r * padded_depth + m
            x0 = weight[r] * delta[k]
            x1 = weight[r + 1] * delta[k + padded_depth]
            x2 = weight[r + 2] * delta[k + 2 * padded_depth]
            x3 = weight[r + 3] * delta[k + 3 * padded_depth]
            grad_bias[m] += (x0 + x1) + (x2 + x3)
            g = grad[m]
            for j in range(width):
                g[j] += x0 * h0[j] + x1 * h1[j] + x2 * h2[j] + x3 * h3[j]
        r += 4
    while r < n_rows:
        h0 = tile[r]
        for m in range(depth):
            x0 = weight[r] * delta[r * padded_depth + m]
            grad_bias[m] += x0
            g = grad[m]
            for j in range(width):
                g[j] += x0 * h0[j]
        r += 1


@kernel
def _hidden_gradient(delta, path, padded_depth, grad_h):
    """dh = Σ_m δ_m V_m, four nodes at a time."""
    width = grad_h.size
    grad_h[:] = _ZERO
    for m in range(0, padded_depth, 4):
        v0, v1, v2, v3 = path[m], path[m + 1], path[m + 2], path[m + 3]
        x0, x1, x2, x3 = delta[m], delta[m + 1], delta[m + 2], delta[m + 3]
        for j in range(width):
            grad_h[j] += x0 * v0[j] + x1 * v1[j] + x2 * v2[j] + x3 * v3[j]


@kernel
def _through_activation(activation, weight, grad_h, h, grad_a):
    """da = w dh ∘ g'(a), with g' written in terms of h = g(a)."""
    if activation == RELU:
        for j in range(grad_a.size):
            grad_a[j] = weight * grad_h[j] if h[j] > _ZERO else _ZERO
    elif activation == TANH:
        for j in range(grad_a.size):
            grad_a[j] = weight * grad_h[j] * (_ONE - h[j] * h[j])
    else:
        for j in range(grad_a.size):
            grad_a[j] = weight * grad_h[j] * h[j] * (_ONE - h[j])


@kernel
def _leave(depth, leaf, top_depth, spans, grad, grad_bias, slots_T, grad_V, grad_b_T, top_V, top_b):
    """Leave the nodes that are not above `leaf`: their gradients are complete."""
    lo, mid, hi = spans[0], spans[1], spans[2]
    while depth > 0 and not lo[depth - 1] <= leaf < hi[depth - 1]:
        depth -= 1
        if slots_T.size == 0:  # No gradients are wanted.
            continue
        if depth < top_depth:
            target, source = top_V[depth], grad[depth]
            top_b[depth] += grad_bias[depth]
        else:
            target, source = grad_V[slots_T[mid[depth] - 1]], grad[depth]
            grad_b_T[mid[depth] - 1] += grad_bias[depth]
        for j in range(target.size):
            target[j] += source[j]
    return depth


@kernel
def _enter(depth, leaf, n_leaves, spans, path, bias, grad, grad_bias, V_TH, b_T):
    """Enter the nodes between the last one shared and `leaf`; return the depth of its path.

    The path is padded with rows of zeros to a multiple of four nodes.
    """
    lo, mid, hi = spans[0], spans[1], spans[2]
    low, high = 0, n_leaves
    if depth > 0:
        left = leaf < mid[depth - 1]
        low = lo[depth - 1] if left else mid[depth - 1]
        high = mid[depth - 1] if left else hi[depth - 1]
    while high - low > 1:
        middle = (low + high + 1) // 2
        lo[depth], mid[depth], hi[depth] = low, middle, high
        source, target = V_TH[middle - 1], path[depth]
        for j in range(source.size):
            target[j] = source[j]
        bias[depth] = b_T[middle - 1]
        grad[depth] = _ZERO
        grad_bias[depth] = _ZERO
        depth += 1
        low, high = (low, middle) if leaf < middle else (middle, high)
    for m in range(depth, (depth + 3) // 4 * 4):
        path[m] = _ZERO
        bias[m] = _ZERO
    return depth


@kernel
def _set_targets(leaf, mid, depth, padded_depth, n_rows, target):
    """Write the decisions π of a leaf for every row of a tile."""
    for r in range(n_rows):
        for m in range(padded_depth):
            # A padded node has z = 0 and σ = ½: with this target its derivative vanishes.
            turn = _HALF
            if m < depth:
                turn = _ONE if leaf >= mid[m] else _ZERO
            target[r * padded_depth + m] = turn


@kernel
def _gather(places, hidden_NH, loss_weight_N, tile, weight):
    """Copy hidden units and loss weights of a tile's tokens next to each other."""
    for r in range(places.size):
        source, target = hidden_NH[places[r]], tile[r]
        for j in range(source.size):
            target[j] = source[j]
        weight[r] = loss_weight_N[places[r]]


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
    width = (hidden_NH.shape[1] + _VECTOR - 1) // _VECTOR * _VECTOR
    spans = np.empty((3, MAX_DEPTH), np.int64)
    path, bias = np.zeros((MAX_DEPTH, width), np.float32), np.zeros(MAX_DEPTH, np.float32)
    grad, grad_bias = np.zeros_like(path), np.zeros_like(bias)
    tile, weight = np.zeros((TILE, width), np.float32), np.empty(TILE, np.float32)
    z, target = np.zeros(TILE * MAX_DEPTH, np.float32), np.zeros(TILE * MAX_DEPTH, np.float32)
    cost, grad_h = np.zeros_like(z), np.empty(width, np.float32)
    depth = 0
    s = first
    while s < last:
        leaf = leaves[s]
        depth = _leave(
            depth, leaf, top_depth, spans, grad, grad_bias, slots_T, grad_V, grad_b_T, top_V, top_b
        )
        depth = _enter(depth, leaf, n_leaves, spans, path, bias, grad, grad_bias, V_TH, b_T)
        padded_depth = (depth + 3) // 4 * 4
        stop = s
        while stop < last and leaves[stop] == leaf:
            stop += 1
        _set_targets(leaf, spans[1], depth, padded_depth, min(TILE, stop - s), target)
        while s < stop:
            places = order[s : min(s + TILE, stop)]
            n_rows = places.size
            _gather(places, hidden_NH, loss_weight_N, tile, weight)
            _logits(tile, n_rows, path, bias, padded_depth, z)
            count = (n_rows * padded_depth + _VECTOR - 1) // _VECTOR * _VECTOR
            _decide(z, target, cost, count)
            for r in range(n_rows):
                total = _ZERO
                for m in range(depth):
                    total += cost[r * padded_depth + m]
                nll_N[places[r]] = weight[r] * total
            if slots_T.size > 0:
                _add_node_gradients(tile, n_rows, z, weight, depth, padded_depth, grad, grad_bias)
                for r in range(n_rows):
                    k = r * padded_depth
                    _hidden_gradient(z[k : k + padded_depth], path, padded_depth, grad_h)
                    _through_activation(
                        activation, weight[r], grad_h, tile[r], hidden_NH[places[r]]
                    )
            s += n_rows
    _leave(depth, -1, top_depth, spans, grad, grad_bias, slots_T, grad_V, grad_b_T, top_V, top_b)


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
