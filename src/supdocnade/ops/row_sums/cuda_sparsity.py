"""The rows of W and V that have a gradient, found on a GPU."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from supdocnade.ops.contract import gradient_of_rows
from supdocnade.ops.prefix_sum.cuda import search_steps
from supdocnade.ops.row_sums import cuda_sparsity_kernels as kernels
from supdocnade.ops.row_sums.cuda import SortedTokens

BLOCK = 128


class NodeSlots(NamedTuple):
    """The nodes of a tree that is cut into bands (`supdocnade.ops.tree_nll.bands`)."""

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
