"""Which rows of a table some tokens touch, in Triton.

Tokens are sorted by their paths. Those that pass a node are then neighbours: their paths lie from
that of the leftmost to that of the rightmost leaf below it. So one search a row tells whether there
is any, and nobody looks at all nodes of all tokens.
"""

import triton
import triton.language as tl

from supdocnade.ops.prefix_sum.cuda_kernels import places_to_look_at


@triton.jit
def mark_rows(
    keys, n_tokens, row_of_slot, first_prefix, touched, n_slots, n_steps,
    N_BANDS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write 1 for the rows that tokens touch, else 0.

    Slots are those of the nodes of all bands, or, with no bands, the keys themselves.
    """
    numbers = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(row_of_slot + numbers, mask=numbers < n_slots, other=-1)
    if N_BANDS == 0:
        least, most = numbers, numbers
    else:
        slot, prefix = numbers % 16, numbers // 16
        band = prefix * 0
        for each in tl.static_range(1, N_BANDS):
            band += (prefix >= tl.load(first_prefix + each)).to(tl.int32)
        prefix -= tl.load(first_prefix + band)
        level = (slot > 1).to(tl.int32) + (slot > 3).to(tl.int32) + (slot > 7).to(tl.int32)
        # The turns down to this node, and how many are left below it.
        turns = (prefix << level) + slot - (1 << level)
        left = 4 * (N_BANDS - band) - level
        least = turns << left
        most = ((turns + 1) << left) - 1
    n = tl.load(n_tokens).to(tl.int32)
    before = tl.zeros([BLOCK], tl.int32)
    for step in range(n_steps):
        tokens, apart = places_to_look_at(before, step, n_steps)
        key = tl.load(keys + tokens, mask=tokens < n, other=0).to(tl.int32)
        below = (tokens < n) & (key < least[:, None])
        before += tl.sum(below.to(tl.int32), axis=1) * apart
    key = tl.load(keys + before, mask=before < n, other=0).to(tl.int32)
    some = (before < n) & (key <= most)
    tl.store(touched + row, some.to(tl.int32), mask=row >= 0)


@triton.jit(do_not_specialize=["first"])
def number_rows(row_of_slot, touched, running, first, rows, place, n_slots, BLOCK: tl.constexpr):
    """Write the touched rows of a table one after the other, and the place of every slot's row.

    `running` counts the touched rows up to and with each; those before `first` are of another
    table.
    """
    numbers = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(row_of_slot + numbers, mask=numbers < n_slots, other=-1)
    known = row >= 0
    some = tl.load(touched + first + row, mask=known, other=0) > 0
    n_before = tl.load(running + first - 1, mask=first > 0, other=0)
    here = tl.load(running + first + row, mask=known, other=0) - 1 - n_before
    tl.store(place + numbers, tl.where(some, here, -1), mask=numbers < n_slots)
    tl.store(rows + here, row.to(tl.int64), mask=some)


@triton.jit(do_not_specialize=["first", "last"])
def fill_rows(rows, running, first, last, n_rows, BLOCK: tl.constexpr):
    """Repeat the last row after it, or write -1 if there is none."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n_before = tl.load(running + first - 1, mask=first > 0, other=0)
    n_touched = tl.load(running + last - 1) - n_before
    row = tl.load(rows + n_touched - 1, mask=n_touched > 0, other=-1)
    tl.store(rows + places, row, mask=(places >= n_touched) & (places < n_rows))
