"""Tokens sorted by key on a GPU, sums over tokens that share a key, and rows that tokens touch."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from supdocnade.cuda import rows_kernels as kernels
from supdocnade.cuda.prefix import block_columns, search_steps
from supdocnade.likelihood.contract import sparse_gradient

SHIFT = 4
SLOTS = 1 << SHIFT
"""Keys are processed sixteen at a time: the last four bits are the slot, the others the prefix."""

TILE, COLUMNS = 128, 128
"""Tokens and columns per program of `sum_rows`."""

FEW_PREFIXES = 16
"""A band of at most this many prefixes has one program per slot, which adds many tiles."""

BLOCK = 128
"""Slots or rows per program of the kernels that find touched rows."""


class SortedTokens:
    """Tokens in the order of the keys of their words; tokens of a word keep their order.

    Parameters
    ----------
    n_tokens : (1,) number of tokens, on the GPU; the tables may be longer.
    n_prefixes : number of possible prefixes of the keys.

    Attributes
    ----------
    keys_N, order_N : sorted keys, and the positions of the tokens in the batch.
    first_row_P1 : first row of every prefix, and the number of tokens at the end.
    """

    def __init__(self, ids_N: Tensor, key_of_word_K: Tensor, n_tokens: Tensor, n_prefixes: int):
        N = len(ids_N)
        # Keys of two bytes are sorted in half the time.
        small = n_prefixes * SLOTS <= 2**15 - 1
        keys_N = torch.empty(N, dtype=torch.int16 if small else torch.int32, device=ids_N.device)
        max_key = 2**15 - 1 if small else 2**31 - 1
        kernels.write_keys[(triton.cdiv(N, 1024),)](
            ids_N, key_of_word_K, n_tokens, keys_N, N, max_key, BLOCK=1024
        )
        self.n_tokens, self.n_prefixes = n_tokens, n_prefixes
        self.keys_N, self.order_N = torch.sort(keys_N, stable=True)
        self.first_row_P1 = torch.empty(n_prefixes + 1, dtype=torch.int32, device=ids_N.device)
        kernels.find_prefixes[(triton.cdiv(n_prefixes + 1, 128),)](
            self.keys_N, n_tokens, self.first_row_P1, n_prefixes, search_steps(N),
            SHIFT=SHIFT, BLOCK=128,
        )  # fmt: skip


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
    add_parts(tokens, parts, row_of_slot, row_of_slot, (0, tokens.n_prefixes),
              tokens.first_row_P1, out, out, H=H, width=width, tile=TILE, biased=False)  # fmt: skip


def add_parts(
    tokens: SortedTokens,
    parts: Tensor,
    row_of_slot: Tensor,
    node_of_slot: Tensor,
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
            parts, tokens.first_row_P1, row_of_slot, node_of_slot, first_prefix,
            tokens.n_prefixes, out, out_bias,
            H=H, WIDTH=width, TILE=tile, N_BANDS=n_bands, SLOTS=SLOTS, BIASED=biased,
            FIRST=first, **options,
        )  # fmt: skip


def add_tiles(
    parts: Tensor,
    tokens: SortedTokens,
    tile_prefix: Tensor,
    row_of_slot: Tensor,
    node_of_slot: Tensor,
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
            parts, tokens.first_row_P1, tile_prefix, row_of_slot, node_of_slot, first_prefix,
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


class SparseRows(NamedTuple):
    """The rows of a table that have a gradient."""

    rows_R: Tensor
    row_of_slot: Tensor
    """Index into `rows_R` for every slot; -1 for none."""
    padded: bool
    """True if `rows_R` may be longer than the number of touched rows. Padding repeats the last
    touched row, or is -1 if there is none, and has a gradient of zero."""

    def empty(self, n_columns: int) -> Tensor:
        """Return memory for the gradients of these rows."""
        make = torch.zeros if self.padded else torch.empty
        return make(len(self.rows_R), n_columns, dtype=torch.float32, device=self.rows_R.device)

    def to_tensor(self, values_RH: Tensor, n_rows: int) -> Tensor:
        """Return the gradient of the whole table as a sparse tensor."""
        return sparse_gradient(self.rows_R, values_RH, n_rows)


class TouchedRows:
    """Marks of the rows of V and W that tokens touch; the host does not know their number yet.

    Parameters
    ----------
    nodes : `OutputLayer.nodes`; if None, all rows of V have a gradient, and only the rows of W are
        marked.

    Attributes
    ----------
    touched_TK : 1 or 0 for the rows of V, then for those of W.
    running_TK : running sum of `touched_TK`.
    """

    def __init__(
        self,
        tokens: SortedTokens,
        nodes: tuple[Tensor, Tensor, int] | None,
        word_of_key: Tensor,
        n_nodes: int,
        n_words: int,
    ):
        self.node_of_slot = None if nodes is None else nodes[0]
        self.n_bands = 0 if nodes is None else nodes[2]
        self.word_of_key, self.n_nodes = word_of_key, 0 if nodes is None else n_nodes
        self.touched_TK = word_of_key.new_empty(self.n_nodes + n_words)
        if nodes is not None:
            _mark_rows(tokens, *nodes, self.touched_TK)
        _mark_rows(tokens, word_of_key, word_of_key, 0, self.touched_TK[self.n_nodes :])
        self.running_TK = self.touched_TK.cumsum(0, dtype=torch.int32)

    @property
    def counts(self) -> Tensor:
        """Number of touched rows of V, if these are marked, and of both tables, on the GPU."""
        if self.node_of_slot is None:
            return self.running_TK[-1:]
        return self.running_TK[self.n_nodes - 1 :: len(self.running_TK) - self.n_nodes]

    def number(self, counts: list[int]) -> tuple[SparseRows | None, SparseRows]:
        """Return the touched rows of V and of W, given the values of `counts`."""
        n_nodes = 0 if self.node_of_slot is None else counts[0]
        return self._both_tables(n_nodes, counts[-1] - n_nodes, padded=False)

    def pad(self, n_tokens: int) -> tuple[SparseRows | None, SparseRows]:
        """Return the touched rows, padded to the largest number that these tokens can touch."""
        max_nodes = min(self.n_nodes, n_tokens * 4 * self.n_bands)
        n_words = len(self.touched_TK) - self.n_nodes
        return self._both_tables(max_nodes, min(n_words, n_tokens), padded=True)

    def _both_tables(
        self, n_nodes: int, n_words: int, *, padded: bool
    ) -> tuple[SparseRows | None, SparseRows]:
        node_rows = None
        if self.node_of_slot is not None:
            node_rows = self._number_rows(self.node_of_slot, 0, self.n_nodes, n_nodes, padded)
        end = len(self.touched_TK)
        word_rows = self._number_rows(self.word_of_key, self.n_nodes, end, n_words, padded)
        return node_rows, word_rows

    def _number_rows(
        self, row_of_slot: Tensor, first: int, last: int, n_rows: int, padded: bool
    ) -> SparseRows:
        """Give numbers to the touched rows of the table whose marks are `first:last`."""
        rows_R = torch.empty(n_rows, dtype=torch.int64, device=row_of_slot.device)
        place = torch.empty_like(row_of_slot)
        kernels.number_rows[(triton.cdiv(len(place), BLOCK),)](
            row_of_slot, self.touched_TK, self.running_TK, first, rows_R, place, len(place),
            BLOCK=BLOCK,
        )  # fmt: skip
        if padded:
            kernels.pad_rows[(triton.cdiv(n_rows, BLOCK),)](
                rows_R, self.running_TK, first, last, n_rows, BLOCK=BLOCK
            )
        return SparseRows(rows_R, place, padded)


def _mark_rows(
    tokens: SortedTokens, row_of_slot: Tensor, first_prefix: Tensor, n_bands: int, touched_T: Tensor
) -> None:
    n_slots = len(row_of_slot)
    kernels.mark_rows[(triton.cdiv(n_slots, BLOCK),)](
        tokens.keys_N, tokens.n_tokens, row_of_slot, first_prefix, touched_T, n_slots,
        search_steps(len(tokens.keys_N)), N_BANDS=n_bands, BLOCK=BLOCK,
    )  # fmt: skip
