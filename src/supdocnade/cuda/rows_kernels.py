"""Kernels that sum over tokens sorted by key, in Triton.

Sorted tokens are processed in tiles of fixed length. Within a tile the tokens of one prefix are
neighbours, and their contributions to the sixteen slots below it are one small product. A prefix
whose tokens all lie in one tile is written at once. A prefix that spans several tiles leaves a part
in each: part 1 in the tile where it begins, part 0 in the others. `add_parts` adds the parts in
order. No sum depends on the order of the programs, so the same tokens give the same bits.
"""

import triton
import triton.language as tl

from supdocnade.cuda.prefix_kernels import first_piece

MAX_KEY = tl.constexpr(2**31 - 1)
"""Above every key."""


@triton.jit
def _rounded(values):
    """Round float32 to the nearest tf32 number, of eleven bits.

    Tensor cores would truncate, which makes sums of positive numbers systematically too small.
    """
    bits = values.to(tl.float32).to(tl.int32, bitcast=True)
    return ((bits + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@triton.jit
def product(a, b, PRECISION: tl.constexpr):
    """Return a · b in float32, from operands rounded to "tf32" or "bf16".

    "tf32x3" splits each operand into the sum of two tf32, with an error of 2^-22 of a product.
    """
    if PRECISION == "bf16":
        return tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
    elif PRECISION == "tf32":
        return tl.dot(_rounded(a), _rounded(b), input_precision="tf32")
    else:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="tf32x3")


@triton.jit
def write_keys(ids, key_of_word, n_tokens, keys, n_slots, max_key, BLOCK: tl.constexpr):
    """Write the key of every token, and `max_key` after the last token."""
    tokens = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    used = tokens < tl.load(n_tokens)
    words = tl.load(ids + tokens, mask=used, other=0)
    key = tl.load(key_of_word + words, mask=used, other=0)
    key = tl.where(used, key, max_key).to(keys.dtype.element_ty)
    tl.store(keys + tokens, key, mask=tokens < n_slots)


@triton.jit
def place_of_part(
    tile, band, continued, slots, N_BANDS: tl.constexpr, SLOTS: tl.constexpr, WIDTH: tl.constexpr
):
    """Return the offsets of the rows of a part; parts are stored by (tile, band, part, slot)."""
    number = (tile.to(tl.int64) * N_BANDS + band) * 2 + tl.where(continued, 0, 1)
    return (number * SLOTS + slots) * WIDTH


@triton.jit
def sum_rows(
    rows, order, keys, n_tokens, row_of_slot, out, parts,
    H: tl.constexpr, STRIDE: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr,
    BLOCK: tl.constexpr, SHIFT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sum the rows of all tokens with the same key, by a product with zeros and ones."""
    SLOTS: tl.constexpr = 1 << SHIFT
    tile = tl.program_id(0)
    n = tl.load(n_tokens).to(tl.int32)
    first = tile * TILE
    if first < n:
        columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        slots = tl.arange(0, SLOTS)
        tokens = first + tl.arange(0, TILE)
        used = tokens < n
        key = tl.load(keys + tokens, mask=used, other=-1).to(tl.int32)
        position = tl.load(order + tokens, mask=used, other=0).to(tl.int64)
        mask = used[:, None] & (columns < H)[None, :]
        values = tl.load(rows + position[:, None] * STRIDE + columns[None, :], mask=mask, other=0.0)
        key_before = tl.load(keys + first - 1, mask=first > 0, other=-1).to(tl.int32)
        key_after = tl.load(keys + first + TILE, mask=first + TILE < n, other=-1).to(tl.int32)
        prefix = key >> SHIFT
        slot = key & (SLOTS - 1)
        current = tl.load(keys + first).to(tl.int32) >> SHIFT
        while current < MAX_KEY:
            mine = (slots[:, None] == slot[None, :]) & (prefix == current)[None, :]
            sums = product(mine.to(tl.float32), values, PRECISION)
            continued = (key_before >> SHIFT) == current
            if continued | ((key_after >> SHIFT) == current):
                there = place_of_part(tile, 0, continued, slots, 1, SLOTS, WIDTH)
                there = there[:, None] + columns[None, :]
                tl.store(parts + there, sums, mask=(columns < H)[None, :])
            else:
                target = tl.load(row_of_slot + current * SLOTS + slots)
                there = target.to(tl.int64)[:, None] * H + columns[None, :]
                tl.store(out + there, sums, mask=(target >= 0)[:, None] & (columns < H)[None, :])
            current = tl.min(tl.where(prefix > current, prefix, MAX_KEY), axis=0)


@triton.jit
def add_parts(
    parts, first_row, row_of_slot, first_prefix, n_lowest, out, out_bias,
    H: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr, N_BANDS: tl.constexpr,
    SLOTS: tl.constexpr, GROUP: tl.constexpr, TILES: tl.constexpr, BLOCK: tl.constexpr,
    BIASED: tl.constexpr, FIRST: tl.constexpr,
):  # fmt: skip
    """Add the parts that a prefix left in several tiles, for some of its slots.

    The rows of a prefix without tokens become zero; a prefix with all tokens in one tile is
    skipped. Prefixes are numbered through all bands, here starting with `FIRST`. Column H, if there
    is one, is the gradient of a bias.
    """
    number = FIRST + tl.program_id(0)
    band = 0
    for each in tl.static_range(1, N_BANDS):
        band += (number >= tl.load(first_prefix + each)).to(tl.int32)
    prefix = number - tl.load(first_prefix + band)
    # For every band further up, a prefix contains 16 times as many of the lowest prefixes.
    down = 4 * (N_BANDS - 1 - band)
    begin = tl.load(first_row + (prefix << down))
    end = tl.load(first_row + tl.minimum((prefix + 1) << down, n_lowest))
    first_tile, last_tile = begin // TILE, (end - 1) // TILE
    if (first_tile < last_tile) | (begin == end):
        columns = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
        group = tl.program_id(1) * GROUP + tl.arange(0, GROUP)
        wide = columns < H + (1 if BIASED else 0)
        part = (first_tile.to(tl.int64) * N_BANDS + band) * 2 + 1
        there = (part * SLOTS + group)[:, None] * WIDTH + columns[None, :]
        row = tl.load(row_of_slot + number * SLOTS + group)
        known = (row >= 0)[:, None] & wide[None, :]
        filled = (begin + group * 0 < end)[:, None]
        total = tl.load(parts + there, mask=known & filled, other=0.0)
        for start in range(first_tile + 1, last_tile + 1, TILES):
            tiles = start + tl.arange(0, TILES)
            later = (tiles.to(tl.int64) * N_BANDS + band) * 2
            places = (later[:, None, None] * SLOTS + group[None, :, None]) * WIDTH
            mask = (tiles <= last_tile)[:, None, None] & known[None, :, :]
            values = tl.load(parts + places + columns[None, None, :], mask=mask, other=0.0)
            total += tl.sum(values, axis=0)
        there = row.to(tl.int64)[:, None] * H + columns[None, :]
        tl.store(out + there, total, mask=(row >= 0)[:, None] & (columns < H)[None, :])
        if BIASED:
            there = row[:, None] + tl.zeros([GROUP, BLOCK], tl.int32)
            tl.store(out_bias + there, total, mask=known & (columns == H)[None, :])


@triton.jit
def add_tiles(
    parts, first_row, tile_prefix, row_of_slot, first_prefix, n_lowest, scale, out, out_bias,
    H: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr, N_BANDS: tl.constexpr,
    SLOTS: tl.constexpr, GROUP: tl.constexpr, TILES: tl.constexpr, BLOCK: tl.constexpr,
    FIRST: tl.constexpr,
):  # fmt: skip
    """Add the parts of the tiles below a prefix, for some of its slots, times a factor.

    Every tile has one prefix. Parts are stored by (tile, band, slot). Column H is the gradient of a
    bias.
    """
    number = FIRST + tl.program_id(0)
    band = 0
    for each in tl.static_range(1, N_BANDS):
        band += (number >= tl.load(first_prefix + each)).to(tl.int32)
    prefix = number - tl.load(first_prefix + band)
    down = 4 * (N_BANDS - 1 - band)
    begin = first_piece(first_row, prefix << down, TILE)
    end = first_piece(first_row, tl.minimum((prefix + 1) << down, n_lowest), TILE)
    columns = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    group = tl.program_id(1) * GROUP + tl.arange(0, GROUP)
    row = tl.load(row_of_slot + number * SLOTS + group)
    known = (row >= 0)[:, None] & (columns <= H)[None, :]
    total = tl.zeros([GROUP, BLOCK], tl.float32)
    for start in range(begin, end, TILES):
        tiles = start + tl.arange(0, TILES)
        there = tl.load(tile_prefix + tiles, mask=tiles < end, other=-1) >= 0
        places = (tiles.to(tl.int64) * N_BANDS + band)[:, None, None] * SLOTS
        places = (places + group[None, :, None]) * WIDTH + columns[None, None, :]
        mask = there[:, None, None] & known[None, :, :]
        total += tl.sum(tl.load(parts + places, mask=mask, other=0.0), axis=0)
    total *= tl.load(scale)
    there = row.to(tl.int64)[:, None] * H + columns[None, :]
    tl.store(out + there, total, mask=(row >= 0)[:, None] & (columns < H)[None, :])
    there = row[:, None] + tl.zeros([GROUP, BLOCK], tl.int32)
    tl.store(out_bias + there, total, mask=known & (columns == H)[None, :])
