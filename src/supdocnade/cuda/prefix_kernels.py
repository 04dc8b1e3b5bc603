"""Kernels of prefix and suffix sums over documents, in Triton.

Documents are split into chunks of `CHUNK` tokens, so that a long document occupies as many
multiprocessors as many short ones. Three passes give a running sum: the sum of every chunk, the
running sum of these within each document, and the running sum within every chunk.

A program of one warp processes some columns of a chunk. Each thread then owns whole columns, and
sums along a column need no exchange between threads.
"""

import triton
import triton.language as tl


@triton.jit
def first_piece(bounds, ranges, LENGTH: tl.constexpr):
    """Return the first piece of ranges.

    The pieces of range b start at `bounds[b] // LENGTH + b`. Up to the first piece of the next
    range there are as many as it can need, or one more, which stays unused. So the pieces of a
    range do not depend on the lengths of the ranges before it.
    """
    return (tl.load(bounds + ranges) // LENGTH).to(tl.int32) + ranges


@triton.jit
def piece_range(bounds, number, LENGTH: tl.constexpr):
    """Return the first piece of a range and the end of its pieces."""
    n_rows = tl.load(bounds + number + 1) - tl.load(bounds + number)
    begin = first_piece(bounds, number, LENGTH)
    return begin, begin + ((n_rows + LENGTH - 1) // LENGTH).to(tl.int32)


@triton.jit
def search_places(low, step, n_steps):
    """Return the next sixteen places of each search, and their distance.

    `low` is the number of places known to lie below the target. It increases by the number of
    returned places that lie below the target, times their distance. After n steps a search has
    distinguished 16^n possibilities.
    """
    apart = 1 << (4 * (n_steps - 1 - step))
    return low[:, None] + (tl.arange(0, 16) + 1)[None, :] * apart - 1, apart


@triton.jit
def find_pieces(
    bounds, owner, start, n_ranges, n_pieces, n_steps, LENGTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Write the range of every piece, -1 if it is unused, and its first row."""
    pieces = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mine = tl.zeros([BLOCK], tl.int32)
    for step in range(n_steps):
        before, apart = search_places(mine, step, n_steps)
        known = before + 1 < n_ranges
        first = tl.load(bounds + before + 1, mask=known, other=0) // LENGTH + before + 1
        mine += tl.sum((known & (first <= pieces[:, None])).to(tl.int32), axis=1) * apart
    there = mine < n_ranges
    begin = tl.load(bounds + mine)
    end = tl.load(bounds + mine + 1, mask=there, other=0)
    row = begin + (pieces - (begin // LENGTH + mine)) * LENGTH
    within = pieces < n_pieces
    tl.store(owner + pieces, tl.where(there & (row < end), mine, -1), mask=within)
    tl.store(start + pieces, row.to(tl.int64), mask=within)


@triton.jit
def _words_of_chunk(
    ids, input_weight, embedding, start, end, columns,
    H: tl.constexpr, CHUNK: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """Return the tokens of a chunk, a mask of the existing ones, their words and x_k W[v_k]."""
    tokens = start + tl.arange(0, CHUNK)
    used = tokens < end
    words = tl.load(ids + tokens, mask=used, other=0)
    places = words.to(tl.int64)[:, None] * H + columns[None, :]
    rows = tl.load(embedding + places, mask=used[:, None] & (columns < H)[None, :], other=0.0)
    if WEIGHTED:
        rows *= tl.load(input_weight + tokens, mask=used, other=0.0)[:, None]
    return tokens, used, words, rows


@triton.jit
def sum_embeddings(
    ids, input_weight, offsets, chunk_document, chunk_start, embedding, sums, limited, limit,
    H: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
    WEIGHTED: tl.constexpr, LIMITED: tl.constexpr,
):  # fmt: skip
    """Write Σ x_k W[v_k] over every chunk, to `limited` only over the words below `limit`."""
    chunk = tl.program_id(0)
    document = tl.load(chunk_document + chunk)
    if document >= 0:
        columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        start, end = tl.load(chunk_start + chunk), tl.load(offsets + document + 1)
        _, _, words, rows = _words_of_chunk(
            ids, input_weight, embedding, start, end, columns, H, CHUNK, WEIGHTED
        )
        out = chunk.to(tl.int64) * H + columns
        tl.store(sums + out, tl.sum(rows, axis=0), mask=columns < H)
        if LIMITED:
            below = tl.where((words < limit)[:, None], rows, 0.0)
            tl.store(limited + out, tl.sum(below, axis=0), mask=columns < H)


@triton.jit
def scan_chunks(
    offsets, sums, bias, totals,
    H: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    BIAS_STRIDE: tl.constexpr, REVERSE: tl.constexpr, BIASED: tl.constexpr,
):  # fmt: skip
    """Replace the sum of every chunk by that of the chunks before it (`REVERSE`: after it).

    The sum of every document is written to `totals`. Both include the bias if there is one.
    `BIAS_STRIDE` is 0 if all documents share a bias, and H if each has its own.
    """
    document = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    begin, end = piece_range(offsets, document, CHUNK)
    carry = tl.zeros([BLOCK], tl.float32)
    if BIASED:
        here = document.to(tl.int64) * BIAS_STRIDE + columns
        carry = tl.load(bias + here, mask=columns < H, other=0.0)
    n_blocks = (end - begin + ROWS - 1) // ROWS
    for number in range(n_blocks):
        if REVERSE:
            chunks = end - (number + 1) * ROWS + tl.arange(0, ROWS)
        else:
            chunks = begin + number * ROWS + tl.arange(0, ROWS)
        used = ((chunks >= begin) & (chunks < end))[:, None] & (columns < H)[None, :]
        places = chunks.to(tl.int64)[:, None] * H + columns[None, :]
        rows = tl.load(sums + places, mask=used, other=0.0)
        total, running = tl.sum(rows, axis=0), tl.cumsum(rows, axis=0)
        # Triton would flip the rows twice for a cumulative sum from the back.
        others = total[None, :] - running if REVERSE else running - rows
        tl.store(sums + places, carry[None, :] + others, mask=used)
        carry += total
    tl.store(totals + document.to(tl.int64) * H + columns, carry, mask=columns < H)


@triton.jit
def activate(values, ACTIVATION: tl.constexpr):
    """Return g(a)."""
    if ACTIVATION == "relu":
        # As in torch, NaN stays NaN.
        return tl.where(values < 0, 0.0, values)
    elif ACTIVATION == "tanh":
        shrunk = tl.exp(-2 * tl.abs(values))
        size = (1 - shrunk) / (1 + shrunk)
        return tl.where(values < 0, -size, size)
    else:
        return tl.sigmoid(values)


@triton.jit
def slope(hidden, ACTIVATION: tl.constexpr):
    """Return g'(a) in terms of h = g(a)."""
    if ACTIVATION == "relu":
        return (hidden > 0).to(tl.float32)
    elif ACTIVATION == "tanh":
        return 1 - hidden * hidden
    else:
        return hidden * (1 - hidden)


@triton.jit
def write_hidden(
    ids, input_weight, offsets, chunk_document, chunk_start, embedding, before, hidden,
    H: tl.constexpr, STRIDE: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
    WEIGHTED: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    """Write h_i = g(c + Σ_{k<i} x_k W[v_k]) for the tokens of a chunk."""
    chunk = tl.program_id(0)
    document = tl.load(chunk_document + chunk)
    if document >= 0:
        columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        start, end = tl.load(chunk_start + chunk), tl.load(offsets + document + 1)
        tokens, used, _, rows = _words_of_chunk(
            ids, input_weight, embedding, start, end, columns, H, CHUNK, WEIGHTED
        )
        there = chunk.to(tl.int64) * H + columns
        carry = tl.load(before + there, mask=columns < H, other=0.0)
        sums = carry[None, :] + (tl.cumsum(rows, axis=0) - rows)
        places = tokens.to(tl.int64)[:, None] * STRIDE + columns[None, :]
        values = activate(sums, ACTIVATION).to(hidden.dtype.element_ty)
        tl.store(hidden + places, values, mask=used[:, None] & (columns < H)[None, :])


@triton.jit
def _gradients_of_chunk(
    gradient, start, end, columns, H: tl.constexpr, STRIDE: tl.constexpr, CHUNK: tl.constexpr
):
    tokens = start + tl.arange(0, CHUNK)
    mask = (tokens < end)[:, None] & (columns < H)[None, :]
    places = tokens.to(tl.int64)[:, None] * STRIDE + columns[None, :]
    return tokens, mask, places, tl.load(gradient + places, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def sum_gradients(
    gradient, offsets, chunk_document, chunk_start, sums,
    H: tl.constexpr, STRIDE: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the sum of the gradients of the activations over every chunk."""
    chunk = tl.program_id(0)
    document = tl.load(chunk_document + chunk)
    if document >= 0:
        columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        start, end = tl.load(chunk_start + chunk), tl.load(offsets + document + 1)
        _, _, _, rows = _gradients_of_chunk(gradient, start, end, columns, H, STRIDE, CHUNK)
        out = chunk.to(tl.int64) * H + columns
        tl.store(sums + out, tl.sum(rows, axis=0), mask=columns < H)


@triton.jit
def write_suffixes(
    ids, input_weight, gradient, scale, offsets, chunk_document, chunk_start, after,
    grad_summary, limit,
    H: tl.constexpr, STRIDE: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
    WEIGHTED: tl.constexpr, SUMMARIZED: tl.constexpr,
):  # fmt: skip
    """Replace the gradient of every activation a_k by x_k (s Σ_{i>k} dL/da_i + dL/dsummary).

    That is the contribution of the token to the gradient of W[v_k]: all later activations depend on
    it, and so does the summary if the word is below `limit`. s is a common factor of all losses.
    """
    chunk = tl.program_id(0)
    document = tl.load(chunk_document + chunk)
    if document >= 0:
        columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        start, end = tl.load(chunk_start + chunk), tl.load(offsets + document + 1)
        tokens, mask, places, rows = _gradients_of_chunk(
            gradient, start, end, columns, H, STRIDE, CHUNK
        )
        used = tokens < end
        there = chunk.to(tl.int64) * H + columns
        carry = tl.load(after + there, mask=columns < H, other=0.0)
        # Computed from the front, as in `scan_chunks`.
        sums = carry[None, :] + (tl.sum(rows, axis=0)[None, :] - tl.cumsum(rows, axis=0))
        sums *= tl.load(scale)
        if SUMMARIZED:
            here = document.to(tl.int64) * H + columns
            extra = tl.load(grad_summary + here, mask=columns < H, other=0.0)
            words = tl.load(ids + tokens, mask=used, other=0)
            sums += tl.where((words < limit)[:, None], extra[None, :], 0.0)
        if WEIGHTED:
            sums *= tl.load(input_weight + tokens, mask=used, other=0.0)[:, None]
        tl.store(gradient + places, sums.to(gradient.dtype.element_ty), mask=mask)


@triton.jit
def sum_documents(values, offsets, totals, BLOCK: tl.constexpr):
    """Write the sum over the tokens of every document."""
    document = tl.program_id(0)
    begin, end = tl.load(offsets + document), tl.load(offsets + document + 1)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(begin, end, BLOCK):
        tokens = start + tl.arange(0, BLOCK)
        total += tl.load(values + tokens, mask=tokens < end, other=0.0)
    tl.store(totals + document, tl.sum(total, axis=0))
