"""Tokens sorted by a key on a GPU, and sums over those that share it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from supdocnade.likelihood.contract import gradient_of_rows
from supdocnade.likelihood.cuda import rows_kernels as kernels
from supdocnade.likelihood.cuda.prefix import Pieces, columns_of, search_steps

SHIFT = 4
SLOTS = 1 << SHIFT
"""Keys are taken sixteen at a time: the last four bits are a slot, the others a prefix."""

TILE, COLUMNS = 128, 128
"""Tokens and columns that a program of `sum_rows` takes."""

FEW_PREFIXES = 16
"""With so few prefixes one slot a program gives enough of them, and sums over many tiles."""


@dataclass(frozen=True, eq=False)
class SortedTokens:
    """The tokens of a batch in the order of their keys."""

    keys_N: Tensor
    """The keys, sorted."""
    order_N: Tensor
    """Where the tokens stand in the batch."""
    n_tokens: Tensor
    """How many there are, on the GPU; the tables may be longer."""
    first_row_P1: Tensor
    """The first row of every prefix of the keys, and the number of tokens after them."""

    @property
    def n_prefixes(self) -> int:
        """How many prefixes the keys can have."""
        return len(self.first_row_P1) - 1


def sort_tokens(
    ids_N: Tensor, key_of_word_K: Tensor, n_tokens: Tensor, n_prefixes: int
) -> SortedTokens:
    """Sort tokens by the keys of their words; those of one word keep their sequence."""
    N = len(ids_N)
    # Keys of two bytes are sorted in half the time.
    small = n_prefixes * SLOTS <= 2**15 - 1
    keys_N = torch.empty(N, dtype=torch.int16 if small else torch.int32, device=ids_N.device)
    most = 2**15 - 1 if small else 2**31 - 1
    kernels.write_keys[(triton.cdiv(N, 1024),)](
        ids_N, key_of_word_K, n_tokens, keys_N, N, most, BLOCK=1024
    )
    keys_N, order_N = torch.sort(keys_N, stable=True)
    first_row_P1 = torch.empty(n_prefixes + 1, dtype=torch.int32, device=ids_N.device)
    kernels.find_prefixes[(triton.cdiv(n_prefixes + 1, 128),)](
        keys_N, n_tokens, first_row_P1, n_prefixes, search_steps(N), SHIFT=SHIFT, BLOCK=128
    )
    return SortedTokens(keys_N, order_N, n_tokens, first_row_P1)


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
    out : (rows, columns), all of which some slot has; zero comes where no token does.
    """
    N, H = len(rows_NS), n_columns
    block = columns_of(H, COLUMNS)
    n_tiles, width = triton.cdiv(N, TILE), -(-H // 4) * 4
    parts = out.new_empty(n_tiles * 2 * SLOTS * width)
    kernels.sum_rows[(n_tiles, triton.cdiv(H, block))](
        rows_NS, tokens.order_N, tokens.keys_N, tokens.n_tokens, row_of_slot, out, parts,
        H=H, STRIDE=rows_NS.shape[1], WIDTH=width, TILE=TILE, BLOCK=block, SHIFT=SHIFT,
        PRECISION=precision,
    )  # fmt: skip
    # One band, which begins at prefix 0: `first_row` does as well as a table of that zero.
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
    """Write the rows of all prefixes that left parts in several tiles, or have no tokens.

    Parameters
    ----------
    bounds : where every band of prefixes begins, and where the last one ends.
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
    tiles: Pieces,
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
    """Write the rows of all prefixes, where tiles have one prefix each.

    Parameters
    ----------
    tiles : those of the prefixes of the lowest band.
    bounds, first_prefix : as for `add_parts`.
    scale : one number on the GPU that multiplies all.
    """
    H = out.shape[1]
    for first, last, options in _launches(bounds, H + 1):
        grid = (last - first, SLOTS // options["GROUP"], triton.cdiv(H + 1, options["BLOCK"]))
        kernels.add_tiles[grid](
            parts, tokens.first_row_P1, tiles.owner_P, row_of_slot, node_of_slot, first_prefix,
            tokens.n_prefixes, scale, out, out_bias,
            H=H, WIDTH=width, TILE=tile, N_BANDS=len(bounds) - 1, SLOTS=SLOTS, FIRST=first,
            **options,
        )  # fmt: skip


def _launches(bounds: tuple[int, ...], n_columns: int) -> Iterator[tuple[int, int, dict[str, int]]]:
    """Yield ranges of prefixes, and how much of them a program takes.

    A prefix of a band of few has many tiles: a slot of it is a program of its own. A prefix of a
    band of many is one program.
    """
    n_few = sum(bound <= FEW_PREFIXES for bound in bounds[1:])
    if n_few:
        block = columns_of(n_columns, 32)
        yield 0, bounds[n_few], {"GROUP": 1, "TILES": 128, "BLOCK": block}
    if n_few < len(bounds) - 1:
        block = columns_of(n_columns, 64)
        yield bounds[n_few], bounds[-1], {"GROUP": SLOTS, "TILES": 4, "BLOCK": block}


# The rows of W and V that have a gradient, found on a GPU.

BLOCK = 128


class NodeSlots(NamedTuple):
    """The nodes of a tree that is cut into bands (`cuda/tree.py`)."""

    node_of_slot: Tensor
    first_prefix: Tensor
    n_bands: int


class Sparsity(NamedTuple):
    """Which rows of a table have a gradient."""

    rows_R: Tensor
    row_of_slot: Tensor
    """For every slot where its row is among `rows_R`; -1 for none."""
    filled_up: bool
    """Whether there is room for more rows than are touched: the last one is then repeated, or -1
    where there is none, and such a place has a gradient of zero."""

    def room(self, n_columns: int) -> Tensor:
        """Return where the gradients of these rows may be written."""
        make = torch.zeros if self.filled_up else torch.empty
        return make(len(self.rows_R), n_columns, dtype=torch.float32, device=self.rows_R.device)

    def tensor(self, values_RH: Tensor, n_rows: int) -> Tensor:
        """Return the gradient of the whole table as autograd takes it."""
        return gradient_of_rows(self.rows_R, values_RH, n_rows)


@dataclass(frozen=True, eq=False)
class TouchedRows:
    """The rows of V and of W that tokens touch, as yet without their number."""

    nodes: NodeSlots | None
    """None: all rows of V have a gradient, and none is counted here."""
    word_of_key: Tensor
    n_nodes: int
    touched_TK: Tensor
    """Of the rows of V and then those of W: 1 or 0."""
    running_TK: Tensor
    """Its running sum."""

    @classmethod
    def by(
        cls,
        tokens: SortedTokens,
        nodes: NodeSlots | None,
        word_of_key: Tensor,
        n_nodes: int,
        n_words: int,
    ) -> "TouchedRows":
        """Find them."""
        n_nodes = 0 if nodes is None else n_nodes
        touched_TK = word_of_key.new_empty(n_nodes + n_words)
        if nodes is not None:
            _mark(tokens, *nodes, touched_TK)
        _mark(tokens, word_of_key, word_of_key, 0, touched_TK[n_nodes:])
        running_TK = touched_TK.cumsum(0, dtype=torch.int32)
        return cls(nodes, word_of_key, n_nodes, touched_TK, running_TK)

    @property
    def made(self) -> tuple[Tensor, ...]:
        """What was computed."""
        return self.touched_TK, self.running_TK

    @property
    def counts(self) -> Tensor:
        """How many rows of V are touched, if these are counted, and how many of both."""
        if self.nodes is None:
            return self.running_TK[-1:]
        return self.running_TK[self.n_nodes - 1 :: len(self.running_TK) - self.n_nodes]

    def numbered(self, counts: list[int]) -> tuple[Sparsity | None, Sparsity]:
        """Return those of V and those of W, given `counts`."""
        n_before = 0 if self.nodes is None else counts[0]
        return self._of_both(n_before, counts[-1] - n_before, filled_up=False)

    def bounded(self, n_tokens: int) -> tuple[Sparsity | None, Sparsity]:
        """Return them with room for as many as so many tokens can touch at most."""
        n_levels = 0 if self.nodes is None else 4 * self.nodes.n_bands
        n_words = len(self.touched_TK) - self.n_nodes
        most_nodes = min(self.n_nodes, n_tokens * n_levels)
        return self._of_both(most_nodes, min(n_words, n_tokens), filled_up=True)

    def _of_both(
        self, n_nodes: int, n_words: int, *, filled_up: bool
    ) -> tuple[Sparsity | None, Sparsity]:
        of_nodes = None
        if self.nodes is not None:
            of_nodes = self._number(
                self.nodes.node_of_slot, 0, self.n_nodes, n_nodes, filled_up=filled_up
            )
        n_all = len(self.touched_TK)
        of_words = self._number(self.word_of_key, self.n_nodes, n_all, n_words, filled_up=filled_up)
        return of_nodes, of_words

    def _number(
        self, row_of_slot: Tensor, first: int, last: int, n_rows: int, *, filled_up: bool
    ) -> Sparsity:
        """Number the rows of the table that has the counts from `first` to `last`."""
        rows_R = torch.empty(n_rows, dtype=torch.int64, device=row_of_slot.device)
        place = torch.empty_like(row_of_slot)
        kernels.number_rows[(triton.cdiv(len(place), BLOCK),)](
            row_of_slot, self.touched_TK, self.running_TK, first, rows_R, place, len(place),
            BLOCK=BLOCK,
        )  # fmt: skip
        if filled_up:
            kernels.fill_rows[(triton.cdiv(n_rows, BLOCK),)](
                rows_R, self.running_TK, first, last, n_rows, BLOCK=BLOCK
            )
        return Sparsity(rows_R, place, filled_up)


def _mark(
    tokens: SortedTokens, row_of_slot: Tensor, first_prefix: Tensor, n_bands: int, touched_T: Tensor
) -> None:
    n_slots = len(row_of_slot)
    kernels.mark_rows[(triton.cdiv(n_slots, BLOCK),)](
        tokens.keys_N, tokens.n_tokens, row_of_slot, first_prefix, touched_T, n_slots,
        search_steps(len(tokens.keys_N)), N_BANDS=n_bands, BLOCK=BLOCK,
    )  # fmt: skip
