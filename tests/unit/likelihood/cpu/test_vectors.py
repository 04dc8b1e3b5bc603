from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from supdocnade.jit import kernel
from supdocnade.likelihood.cpu.vectors import (
    add_product,
    load,
    load_address,
    load_first,
    load_one,
    multiply,
    prefetch,
    splat,
    store,
    store_first,
    store_sums,
    take_next,
    where_positive,
)

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(4, 24)).astype(np.float32)
ROW_BYTES = 4 * ROWS.shape[1]


@kernel
def _address(row):
    return np.uintp(row.ctypes.data)


@kernel
def _sums(rows, first, out):
    at, bytes_of_row = _address(rows), np.uintp(4 * rows.shape[1])
    a = load(at, first)
    b = load(at + bytes_of_row, first)
    c = load(at + np.uintp(2) * bytes_of_row, first)
    d = load(at + np.uintp(3) * bytes_of_row, first)
    store_sums(_address(out), 1, a, b, c, d)


@kernel
def _copy_first(row, first, count, out):
    store_first(_address(out), 2, count, load_first(_address(row), first, count))


@kernel
def _copy_padded(row, first, count, out):
    store(_address(out), 0, load_first(_address(row), first, count))


@kernel
def _arithmetic(total, left, right, factor, out):
    a, b, c = _address(total), _address(left), _address(right)
    prefetch(a, 0)
    at = _address(out)
    sums = add_product(load(a, 0), load(b, 0), load(c, 0))
    store(at, 0, sums)
    store(
        at,
        8,
        multiply(load(b, 0), splat(load_one(factor, 3))),
    )
    store(at, 16, where_positive(load(a, 0), load(b, 0)))


@kernel
def _row_at(addresses, number, out):
    store(_address(out), 0, load(load_address(_address(addresses), number), 0))


@pytest.mark.parametrize("first", [0, 1, 16])
def test_sums_of_four_vectors(first):
    out = np.full(6, 7.0, np.float32)
    _sums(ROWS, first, out)
    expected = ROWS[:, first : first + 8].astype(np.float64).sum(axis=1)
    np.testing.assert_allclose(out[1:5], expected, atol=1e-6)
    assert out[0] == out[5] == 7


@pytest.mark.parametrize("count", range(9))
def test_floats_beyond_the_count_are_neither_read_nor_written(count):
    row = np.concatenate([ROWS[0, :count], np.full(8, np.nan, np.float32)])
    out = np.full(12, 7.0, np.float32)
    _copy_first(row, 0, count, out)
    np.testing.assert_array_equal(out[2 : 2 + count], ROWS[0, :count])
    assert (np.delete(out, slice(2, 2 + count)) == 7).all()
    _copy_padded(row, 0, count, out)
    np.testing.assert_array_equal(out[:8], np.append(ROWS[0, :count], np.zeros(8 - count)))


def test_arithmetic_lane_by_lane():
    total, left, right = (ROWS[r, :8].copy() for r in range(3))
    total[:2] = 0, np.nan
    out = np.empty(24, np.float32)
    factor = np.arange(5, dtype=np.float32)
    _arithmetic(total, left, right, _address(factor), out)
    np.testing.assert_allclose(out[:8], total + left * right, rtol=1e-6)
    np.testing.assert_array_equal(out[8:16], left * 3)
    np.testing.assert_array_equal(out[16:], np.where(total > 0, left, 0))


def test_rows_are_loaded_by_their_addresses():
    start = ROWS.ctypes.data
    addresses = np.array([start + ROW_BYTES * r for r in (2, 0, 3)], np.uintp)
    out = np.empty(8, np.float32)
    for number, row in enumerate((2, 0, 3)):
        _row_at(addresses, number, out)
        np.testing.assert_array_equal(out, ROWS[row, :8])


@kernel
def _take_parts(counter, times_taken, limit):
    taken = 0
    while True:
        number = take_next(_address(counter))
        if number >= times_taken.size or taken == limit:
            return taken
        times_taken[number] += 1
        taken += 1


def test_threads_take_every_part_once():
    counter, times_taken = np.zeros(1, np.int64), np.zeros(100_000, np.int64)
    _take_parts(counter, times_taken, 10)  # Compiled before there is another thread.
    assert times_taken[:10].tolist() == [1] * 10
    counter[0] = 10  # The last number was taken but not used.
    with ThreadPoolExecutor(4) as pool:
        shares = list(pool.map(lambda _: _take_parts(counter, times_taken, 10**9), range(4)))
    assert sum(shares) == 100_000 - 10
    assert (times_taken == 1).all()
