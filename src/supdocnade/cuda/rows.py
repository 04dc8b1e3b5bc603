"""Tokens sorted by key on a GPU, and sums over tokens that share a key."""

from collections.abc import Iterator

import torch
import triton
from torch import Tensor

from supdocnade.cuda import rows_kernels as kernels
from supdocnade.cuda.prefix import block_columns
from supdocnade.likelihood.contract import Batch

SHIFT = 4
SLOTS = 1 << SHIFT
"""Keys are processed sixteen at a time: the last four bits are the slot, the others the prefix."""

TILE, COLUMNS = 128, 128
"""Tokens and columns per program of `sum_rows`."""

FEW_PREFIXES = 16
"""A band of at most this many prefixes has one program per slot, which adds many tiles."""


class SortedTokens:
    """Tokens in the order of the keys of their words; tokens of a word keep their order.

    Parameters
    ----------
    n_prefixes : number of possible prefixes of the keys.

    Attributes
    ----------
    n_tokens : (1,) number of tokens, on the GPU; the tables may be longer.
    keys_N, order_N : sorted keys, and the positions of the tokens in the batch.
    first_row_P1 : first row of every prefix, and the number of tokens at the end.
    """

    def __init__(self, batch: Batch, key_of_word_K: Tensor, n_prefixes: int):
        ids_N, n_tokens = batch.word_ids_N, batch.offsets_B1[-1:]
        N = len(ids_N)
        # Keys of two bytes are sorted in half the time.
        small = n_prefixes * SLOTS <= 2**15 - 1
        keys_N = torch.empty(N, dtype=torch.int16 if small else torch.int32, device=ids_N.device)
        max_key = 2**15 - 1 if small else 2**31 - 1
        kernels.write_keys[(triton.cdiv(N, 1024),)](
            ids_N, key_of_word_K, n_tokens, keys_N, N, max_key, BLOCK=1024
        )
        self.batch, self.n_tokens, self.n_prefixes = batch, n_tokens, n_prefixes
        self.keys_N, self.order_N = torch.sort(keys_N, stable=True)
        # Keys after the last token are above all others.
        first_P1 = torch.arange(n_prefixes + 1, device=ids_N.device) << SHIFT
        self.first_row_P1 = torch.searchsorted(
            self.keys_N, first_P1.to(keys_N.dtype), out_int32=True
        )


def sum_rows(
    tokens: SortedTokens,
    rows_NS: Tensor,
    n_columns: int,
    row_of_slot: Tensor,
    out: Tensor,
    precision: str,
) -> None:
    """Write the sums of the rows of tokens that share a key.

    Parameters
    ----------
    row_of_slot : (prefixes · 16,) the row of `out` for every key, -1 for none.
    out : (rows, columns); every row must belong to a key, and is zero if no token has it.
    """
    N, H = len(rows_NS), n_columns
    block = block_columns(H, COLUMNS)
    n_tiles, width = triton.cdiv(N, TILE), -(-H // 4) * 4
    parts = out.new_empty(n_tiles * 2 * SLOTS * width)
    kernels.sum_rows[(n_tiles, triton.cdiv(H, block))](
        rows_NS, tokens.order_N, tokens.keys_N, tokens.n_tokens, row_of_slot, out, parts,
        H=H, STRIDE=rows_NS.shape[1], WIDTH=width, TILE=TILE, BLOCK=block, SHIFT=SHIFT,
        PRECISION=precision,
    )  # fmt: skip
    # The only band starts at prefix 0, so `first_row_P1`, whose first entry is 0, serves as the
    # table of the bands' first prefixes.
    add_parts(
        tokens, parts, row_of_slot, (0, tokens.n_prefixes), tokens.first_row_P1, out, out,
        H=H, width=width, tile=TILE, biased=False,
    )  # fmt: skip


def add_parts(
    tokens: SortedTokens,
    parts: Tensor,
    row_of_slot: Tensor,
    bounds: tuple[int, ...],
    first_prefix: Tensor,
    out: Tensor,
    out_bias: Tensor,
    *,
    H: int,
    width: int,
    tile: int,
    biased: bool,
) -> None:
    """Write the rows of all prefixes that have parts in several tiles, or no tokens.

    Parameters
    ----------
    bounds : first prefix of every band, and the end of the last band.
    first_prefix : the same on the GPU.
    biased : whether parts have a column H for `out_bias`.
    """
    n_bands = len(bounds) - 1
    for first, last, options in _launches(bounds, H + biased):
        grid = (last - first, SLOTS // options["GROUP"], triton.cdiv(H + biased, options["BLOCK"]))
        kernels.add_parts[grid](
            parts, tokens.first_row_P1, row_of_slot, first_prefix, tokens.n_prefixes, out,
            out_bias,
            H=H, WIDTH=width, TILE=tile, N_BANDS=n_bands, SLOTS=SLOTS, BIASED=biased,
            FIRST=first, **options,
        )  # fmt: skip


def add_tiles(
    parts: Tensor,
    tokens: SortedTokens,
    tile_prefix: Tensor,
    row_of_slot: Tensor,
    bounds: tuple[int, ...],
    first_prefix: Tensor,
    scale: Tensor,
    out: Tensor,
    out_bias: Tensor,
    *,
    width: int,
    tile: int,
) -> None:
    """Write the rows of all prefixes, where every tile has one prefix.

    Parameters
    ----------
    tile_prefix : prefix of the lowest band for every tile, -1 for an unused one.
    bounds, first_prefix : as for `add_parts`.
    scale : (1,) factor of all rows, on the GPU.
    """
    H = out.shape[1]
    for first, last, options in _launches(bounds, H + 1):
        grid = (last - first, SLOTS // options["GROUP"], triton.cdiv(H + 1, options["BLOCK"]))
        kernels.add_tiles[grid](
            parts, tokens.first_row_P1, tile_prefix, row_of_slot, first_prefix,
            tokens.n_prefixes, scale, out, out_bias,
            H=H, WIDTH=width, TILE=tile, N_BANDS=len(bounds) - 1, SLOTS=SLOTS, FIRST=first,
            **options,
        )  # fmt: skip


def _launches(bounds: tuple[int, ...], n_columns: int) -> Iterator[tuple[int, int, dict[str, int]]]:
    """Yield ranges of prefixes, and the block sizes of their programs.

    In a band of few prefixes each has many tiles, so every slot has its own program. In a band of
    many prefixes every prefix has one program.
    """
    n_few = sum(bound <= FEW_PREFIXES for bound in bounds[1:])
    if n_few:
        block = block_columns(n_columns, 32)
        yield 0, bounds[n_few], {"GROUP": 1, "TILES": 128, "BLOCK": block}
    if n_few < len(bounds) - 1:
        block = block_columns(n_columns, 64)
        yield bounds[n_few], bounds[-1], {"GROUP": SLOTS, "TILES": 4, "BLOCK": block}
