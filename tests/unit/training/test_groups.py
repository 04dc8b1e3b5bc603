"""The tree of sums covers every group once, and does not depend on who computes its nodes."""

from functools import reduce

import numpy as np
import pytest
import torch
from tests.planted_corpus import network_for, scene_corpus

from supdocnade.training.groups import (
    GradientLayout,
    TableRows,
    covering_nodes,
    process_groups,
    split_groups,
    sum_tree,
)
from supdocnade.training.trainer import Trainer
from supdocnade.training.trainer_config import TrainerConfig


def bracket(node):
    return str(node[0]) if node[1] - node[0] == 1 else None


def add_brackets(first, second):
    return f"({first}+{second})"


@pytest.mark.parametrize("n_groups", range(1, 18))
def test_processes_cover_the_tree(n_groups):
    whole = sum_tree((0, n_groups), bracket, add_brackets)
    for n_processes in range(1, n_groups + 1):
        known = {}
        for rank in range(n_processes):
            groups = process_groups(n_groups, rank, n_processes)
            assert groups[0] < groups[1]
            for node in covering_nodes((0, n_groups), groups):
                known[node] = sum_tree(node, bracket, add_brackets)
        assert sorted(group for node in known for group in range(*node)) == list(range(n_groups))
        assert sum_tree((0, n_groups), known.get, add_brackets) == whole


def test_a_process_may_have_no_group():
    shares = [process_groups(2, rank, 3) for rank in range(3)]
    assert sorted(group for share in shares for group in range(*share)) == [0, 1]
    assert [len(covering_nodes((0, 2), share)) for share in shares] == [
        end - first for first, end in shares
    ]


def test_small_batches_have_no_empty_groups():
    assert [len(group) for group in split_groups(np.arange(3), 8)] == [1, 1, 1]
    assert np.concatenate(split_groups(np.arange(10)[::-1], 4)).tolist() == list(range(10))[::-1]


def test_sums_of_touched_rows_are_those_of_dense_tables():
    rng = np.random.default_rng(0)
    parts, tables = [], []
    for count in (3, 0, 5, 1):
        rows = torch.from_numpy(np.sort(rng.choice(9, count, replace=False)))
        values = torch.from_numpy(rng.normal(size=(count, 2)))
        parts.append(TableRows(rows, values))
        tables.append(torch.zeros(9, 2, dtype=torch.float64).index_put((rows,), values))
    total = reduce(TableRows.add, parts)
    assert total.rows_R.diff().min() > 0
    assert torch.equal(
        torch.zeros(9, 2, dtype=torch.float64).index_put((total.rows_R,), total.values_RH),
        reduce(torch.add, tables),
    )
    inside = total.between(2, 6)
    assert inside.rows_R.tolist() == [row for row in total.rows_R.tolist() if 2 <= row < 6]


def test_gradients_survive_reading_and_writing():
    network = network_for(scene_corpus(5, mean_length=5)[1])
    layout, rng = GradientLayout(network), np.random.default_rng(0)
    gradients = [torch.from_numpy(rng.normal(size=p.shape)).float() for p in layout.parameters]
    gradients[2] = None  # A parameter that the objective does not use.
    for parameter, gradient in zip(layout.parameters, gradients, strict=True):
        parameter.grad = gradient
    summed = layout.read(torch.tensor(0.25))
    assert all(parameter.grad is None for parameter in layout.parameters)
    assert layout.write(summed) == 0.25
    for parameter, gradient in zip(layout.parameters, gradients, strict=True):
        same = parameter.grad is None if gradient is None else torch.equal(parameter.grad, gradient)
        assert same


def test_groups_change_the_last_bits_only():
    _, corpus = scene_corpus(50, mean_length=20)
    losses = []
    for batch_groups in (1, 4, 64):
        config = TrainerConfig(max_epochs=2, batch_size=16, batch_groups=batch_groups)
        history = Trainer(network_for(corpus), config).fit(corpus)
        losses.append([record.loss for record in history.epochs])
    np.testing.assert_allclose(losses[1:], [losses[0]] * 2, rtol=1e-5)
