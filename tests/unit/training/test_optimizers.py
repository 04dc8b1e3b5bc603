import numpy as np
import pytest
import torch
from torch import nn

from supdocnade.likelihood.operations import row_adam, use_backend
from supdocnade.training.optimizers import (
    RowAdam,
    clip_gradients,
    coalesce_gradients,
)


def sparse(rows, values, n_rows):
    size = (n_rows, len(values[0]))
    return torch.sparse_coo_tensor([rows], values, size, dtype=torch.float32, check_invariants=True)


@pytest.mark.parametrize("n_topics", [1, 7, 200])
def test_row_adam_backends_agree_with_dense_adam_on_rows_touched_every_time(n_topics):
    rng = np.random.default_rng(0)
    start = torch.from_numpy(rng.normal(size=(2500, n_topics)).astype(np.float32))
    rows = torch.from_numpy(np.flatnonzero(rng.random(2500) < 0.9))
    dense = nn.Parameter(start.clone())
    adam = torch.optim.Adam([dense], lr=1e-2)
    tables = {name: start.clone() for name in ("cpu", "vectorized")}
    moments = {name: (torch.zeros_like(start), torch.zeros_like(start)) for name in tables}
    for step in range(1, 5):
        gradient = torch.from_numpy(rng.normal(size=(len(rows), n_topics)).astype(np.float32))
        dense.grad = torch.zeros_like(dense).index_copy(0, rows, gradient)
        adam.step()
        for name, table in tables.items():
            with use_backend(name):
                row_adam(table, *moments[name], rows, gradient, 1e-2, step)
    for table in tables.values():
        torch.testing.assert_close(table, dense.detach(), rtol=1e-5, atol=1e-6)


def test_rate_and_step_of_adam_may_be_tensors():
    table = torch.ones(3, 2, dtype=torch.float64)
    tables = [table.clone() for _ in range(2)]
    rows, gradient = torch.tensor([1]), torch.tensor([[0.5, -2.0]], dtype=torch.float64)
    for mine, kind in zip(tables, (lambda x: x, torch.tensor), strict=True):
        moments = torch.zeros_like(mine), torch.zeros_like(mine)
        row_adam(mine, *moments, rows, gradient, kind(0.125), kind(9))
    torch.testing.assert_close(tables[0], tables[1], rtol=1e-14, atol=0)


def test_row_adam_leaves_other_rows_and_their_moments_alone():
    table = nn.Parameter(torch.ones(4, 2))
    optimizer = RowAdam([table], learning_rate=0.1)
    table.grad = sparse([1, 3], [[1.0, 2.0], [3.0, 0.0]], 4)
    optimizer.step()
    table.grad = sparse([1], [[1.0, 2.0]], 4)
    before = table.detach().clone()
    optimizer.step()
    assert torch.equal(table[[0, 2, 3]], before[[0, 2, 3]])
    assert not torch.equal(table[1], before[1])
    moment = optimizer.state[table]["exp_avg"]
    torch.testing.assert_close(moment[3], torch.tensor([0.3, 0.0]))


def test_repeated_rows_are_added_up():
    table = nn.Parameter(torch.zeros(4, 1))
    table.grad = sparse([2, 0, 2], [[1.0], [5.0], [2.0]], 4)
    coalesce_gradients([table])
    assert table.grad._indices().tolist() == [[0, 2]]
    assert table.grad._values().tolist() == [[5.0], [3.0]]


def test_clipping_scales_dense_and_sparse_gradients_together():
    first, second = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(9, 1))
    first.grad = torch.tensor([3.0, 0.0])
    second.grad = sparse([4], [[4.0]], 9)
    assert float(clip_gradients([first, second], 1.0)) == pytest.approx(5.0)
    torch.testing.assert_close(first.grad, torch.tensor([0.6, 0.0]))
    torch.testing.assert_close(second.grad._values(), torch.tensor([[0.8]]))
    assert float(clip_gradients([first, second], 2.0)) == pytest.approx(1.0)
    torch.testing.assert_close(first.grad, torch.tensor([0.6, 0.0]))
