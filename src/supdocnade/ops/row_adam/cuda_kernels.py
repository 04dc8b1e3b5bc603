"""Adam on some rows, in Triton: one pass over each row and its moments."""

import triton
import triton.language as tl

from supdocnade.ops.dense_adam.cuda_kernels import corrected


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
