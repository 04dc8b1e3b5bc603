"""Adam (Kingma and Ba 2015) in Triton."""

import triton
import triton.language as tl


@triton.jit
def corrected(beta: tl.constexpr, step):
    """1 - β^t, in float64: near 1 a float32 would lose it."""
    return 1 - tl.exp2(step * tl.log2(tl.full([], beta, tl.float64)))


@triton.jit
def update(
    values, gradients, means, squares, steps, rate,
    LENGTHS: tl.constexpr, FIRSTS: tl.constexpr, BETA1: tl.constexpr, BETA2: tl.constexpr,
    EPSILON: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Move several parameters by a step; the blocks of each begin at one of `FIRSTS`."""
    block = tl.program_id(0)
    learning_rate = tl.load(rate).to(tl.float64)
    for each in tl.static_range(len(LENGTHS)):
        if (block >= FIRSTS[each]) & (block < FIRSTS[each + 1]):
            places = (block - FIRSTS[each]) * BLOCK + tl.arange(0, BLOCK)
            used = places < LENGTHS[each]
            step = tl.load(steps[each]).to(tl.float64)
            size = (learning_rate / corrected(BETA1, step)).to(tl.float32)
            spread = tl.sqrt(corrected(BETA2, step)).to(tl.float32)
            gradient = tl.load(gradients[each] + places, mask=used, other=0.0)
            mean = tl.load(means[each] + places, mask=used, other=0.0)
            square = tl.load(squares[each] + places, mask=used, other=0.0)
            value = tl.load(values[each] + places, mask=used, other=0.0)
            mean = BETA1 * mean + (1 - BETA1) * gradient
            square = BETA2 * square + (1 - BETA2) * gradient * gradient
            value -= size * mean / (tl.sqrt(square) / spread + EPSILON)
            tl.store(means[each] + places, mean, mask=used)
            tl.store(squares[each] + places, square, mask=used)
            tl.store(values[each] + places, value, mask=used)


# Adam on some rows, in Triton: one pass over each row and its moments.


@triton.jit
def update_rows(
    table, mean, square, rows, gradient, n_rows, learning_rate, step,
    H: tl.constexpr, BETA1: tl.constexpr, BETA2: tl.constexpr, EPSILON: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Update rows; a row that repeats the one before it, or is -1, only fills up the list."""
    places = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(rows + places, mask=places < n_rows, other=-1)
    before = tl.load(rows + places - 1, mask=(places > 0) & (places < n_rows), other=-1)
    used = (row >= 0) & (row != before)
    if tl.max(used.to(tl.int32), axis=0) > 0:
        t = tl.load(step).to(tl.float64)
        size = (tl.load(learning_rate).to(tl.float64) / corrected(BETA1, t)).to(tl.float32)
        spread = tl.sqrt(corrected(BETA2, t)).to(tl.float32)
        mask = used[:, None] & (columns < H)[None, :]
        there = row[:, None] * H + columns[None, :]
        g = tl.load(gradient + places.to(tl.int64)[:, None] * H + columns[None, :], mask=mask)
        m = BETA1 * tl.load(mean + there, mask=mask) + (1 - BETA1) * g
        s = BETA2 * tl.load(square + there, mask=mask) + (1 - BETA2) * g * g
        value = tl.load(table + there, mask=mask)
        value -= size * m / (tl.sqrt(s) / spread + EPSILON)
        tl.store(mean + there, m, mask=mask)
        tl.store(square + there, s, mask=mask)
        tl.store(table + there, value, mask=mask)
