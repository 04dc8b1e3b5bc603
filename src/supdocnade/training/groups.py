"""Groups of documents whose gradients are summed in one fixed order.

A batch is cut into `batch_groups` groups. Their gradients are the leaves of a binary tree, and
every other node is the sum of its two children. A node has the same bits in whichever process it is
computed, so one process and several give the same result (docs/decisions/0030-groups.md).
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from supdocnade.corpus.counts import Rows
from supdocnade.likelihood.contract import has_sparse_gradients, sparse_gradient
from supdocnade.model.network import DocNADENetwork

Node = tuple[int, int]
"""A node of the tree: the first of its groups, and the one after its last."""
Value = TypeVar("Value")


class TableRows(NamedTuple):
    """Gradient of the touched rows of a table."""

    rows_R: Tensor
    """Row numbers in increasing order."""
    values_RH: Tensor

    def add(self, other: "TableRows") -> "TableRows":
        """Return the sum of two gradients."""
        rows_R = torch.unique(torch.cat([self.rows_R, other.rows_R]))
        values_RH = self.values_RH.new_zeros(len(rows_R), self.values_RH.shape[1])
        # A row occurs at most once in each, so the order of additions within a call is irrelevant.
        for rows, values in (self, other):
            values_RH.index_add_(0, torch.searchsorted(rows_R, rows), values)
        return TableRows(rows_R, values_RH)

    def between(self, first: int, last: int) -> "TableRows":
        """Return the part of the rows from `first` to before `last`."""
        bounds = torch.tensor([first, last], device=self.rows_R.device)
        start, end = torch.searchsorted(self.rows_R, bounds).tolist()
        return TableRows(self.rows_R[start:end], self.values_RH[start:end])


class GroupSum(NamedTuple):
    """Objective and gradients, summed over some groups."""

    vector_P: Tensor
    """The objective, the number of groups in which each parameter had a gradient, and the gradients
    of all parameters but the tables."""
    tables: tuple[TableRows, ...] = ()

    def add(self, other: "GroupSum") -> "GroupSum":
        """Return the sum of two sums of groups; `self` is overwritten."""
        tables = (own.add(its) for own, its in zip(self.tables, other.tables, strict=True))
        return GroupSum(self.vector_P.add_(other.vector_P), tuple(tables))


class GradientLayout:
    """Reads and writes the gradients of a network as a `GroupSum`."""

    def __init__(self, network: DocNADENetwork):
        self.parameters = list(network.parameters())
        self.tables: list[nn.Parameter] = []
        if has_sparse_gradients(network.config.n_words):
            self.tables = [network.word_embedding, network.node_weight]
        is_table = [any(p is table for table in self.tables) for p in self.parameters]
        self._dense = [p for p, table in zip(self.parameters, is_table, strict=True) if not table]
        self.length = 1 + len(self.parameters) + sum(p.numel() for p in self._dense)

    def read(self, loss: Tensor) -> GroupSum:
        """Return the objective of a group with its gradients, and clear them."""
        present = [p.grad is not None for p in self.parameters]
        dense = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._dense]
        head = [loss.detach()[None], loss.new_tensor(present)]
        vector_P = torch.cat([*head, *(gradient.flatten() for gradient in dense)])
        tables = tuple(_table_rows(table) for table in self.tables)
        for parameter in self.parameters:
            parameter.grad = None
        return GroupSum(vector_P, tables)

    def write(self, total: GroupSum) -> float:
        """Set the gradients of all parameters, and return the objective."""
        n_heads = 1 + len(self.parameters)
        value, *present = total.vector_P[:n_heads].tolist()
        sizes = [p.numel() for p in self._dense]
        parts = torch.split(total.vector_P[n_heads:], sizes)
        for parameter, part in zip(self._dense, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        for table, (rows_R, values_RH) in zip(self.tables, total.tables, strict=True):
            table.grad = sparse_gradient(rows_R, values_RH, len(table))
        for parameter, count in zip(self.parameters, present, strict=True):
            if count == 0:
                parameter.grad = None
        return float(value)


def _table_rows(table: nn.Parameter) -> TableRows:
    gradient = table.grad
    if gradient is None:
        rows_R = torch.zeros(0, dtype=torch.int64, device=table.device)
        return TableRows(rows_R, table.detach()[:0])
    if not gradient.is_sparse:
        return TableRows(torch.arange(len(table), device=table.device), gradient)
    return TableRows(gradient._indices()[0], gradient._values())


def split_groups(rows_B: Rows, n_groups: int) -> list[Rows]:
    """Cut a batch into groups of about as many documents; a small batch has fewer groups.

    >>> [group.tolist() for group in split_groups(np.arange(7), 3)]
    [[0, 1, 2], [3, 4], [5, 6]]
    """
    return np.array_split(rows_B, min(n_groups, len(rows_B)))


def process_groups(n_groups: int, rank: int, n_processes: int) -> Node:
    """Return the groups of a process: the first, and the one after the last.

    >>> [process_groups(8, rank, 3) for rank in range(3)]
    [(0, 2), (2, 5), (5, 8)]
    """
    return rank * n_groups // n_processes, (rank + 1) * n_groups // n_processes


def covering_nodes(node: Node, groups: Node) -> list[Node]:
    """Return the largest nodes of a tree that hold only the given groups.

    Parameters
    ----------
    node : the root of the tree.
    groups : the first group, and the one after the last.

    >>> covering_nodes((0, 8), (2, 5))
    [(2, 4), (4, 5)]
    """
    first, last = node
    if groups[0] <= first and last <= groups[1]:
        return [node] if first < last else []
    if last <= groups[0] or groups[1] <= first:
        return []
    middle = (first + last) // 2
    return [*covering_nodes((first, middle), groups), *covering_nodes((middle, last), groups)]


def sum_tree(
    node: Node, value_of: Callable[[Node], Value | None], add: Callable[[Value, Value], Value]
) -> Value:
    """Return the value of a node of the tree of sums.

    Parameters
    ----------
    value_of : returns the value of a node if it is known or a single group, otherwise None.
    add : adds the values of two children.

    >>> sum_tree((0, 3), lambda node: str(node[0]) if node[1] - node[0] == 1 else None,
    ...          lambda first, second: f"({first} + {second})")
    '(0 + (1 + 2))'
    """
    value = value_of(node)
    if value is not None:
        return value
    first, last = node
    middle = (first + last) // 2
    return add(sum_tree((first, middle), value_of, add), sum_tree((middle, last), value_of, add))


def sum_groups(node: Node, compute: Callable[[int], GroupSum]) -> GroupSum:
    """Return the sum of a node whose groups are all computed here.

    Parameters
    ----------
    compute : returns the objective and gradients of a group by its number.
    """
    return sum_tree(
        node, lambda each: compute(each[0]) if each[1] - each[0] == 1 else None, GroupSum.add
    )
