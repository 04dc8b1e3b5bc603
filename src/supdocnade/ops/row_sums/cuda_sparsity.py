"""The rows of W and V that have a gradient, found on a GPU."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
from torch import Tensor

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

    def tensor(self, values_RH: Tensor, n_rows: int) -> Tensor:
        """Return the gradient of the whole table as autograd takes it."""
        return torch.sparse_coo_tensor(
            self.rows_R[None], values_RH, (n_rows, values_RH.shape[1]),
            is_coalesced=True, check_invariants=False,
        )  # fmt: skip


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
        of_nodes = None
        if self.nodes is not None:
            of_nodes = self._number(self.nodes.node_of_slot, slice(self.n_nodes), 0, n_before)
        of_words = self._number(
            self.word_of_key, slice(self.n_nodes, None), n_before, counts[-1] - n_before
        )
        return of_nodes, of_words

    def _number(self, row_of_slot: Tensor, part: slice, n_before: int, n_rows: int) -> Sparsity:
        rows_R = torch.empty(n_rows, dtype=torch.int64, device=row_of_slot.device)
        place = torch.empty_like(row_of_slot)
        kernels.number_rows[(triton.cdiv(len(place), BLOCK),)](
            row_of_slot, self.touched_TK[part], self.running_TK[part], n_before, rows_R, place,
            len(place), BLOCK=BLOCK,
        )  # fmt: skip
        return Sparsity(rows_R, place)


def _mark(
    tokens: SortedTokens, row_of_slot: Tensor, first_prefix: Tensor, n_bands: int, touched_T: Tensor
) -> None:
    n_slots = len(row_of_slot)
    kernels.mark_rows[(triton.cdiv(n_slots, BLOCK),)](
        tokens.keys_N, tokens.n_tokens, row_of_slot, first_prefix, touched_T, n_slots,
        search_steps(len(tokens.keys_N)), N_BANDS=n_bands, BLOCK=BLOCK,
    )  # fmt: skip
