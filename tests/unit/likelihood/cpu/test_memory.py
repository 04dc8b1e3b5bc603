import numpy as np
import pytest

from supdocnade.likelihood.cpu import memory
from supdocnade.likelihood.cpu.memory import CACHE_LINE


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch):
    monkeypatch.setattr(memory, "_cached", [])


def address(array):
    return array.ctypes.data


@pytest.mark.parametrize("size", [1, 17, 1000, 300_000])
def test_arrays_start_at_a_cache_line(size):
    for _ in range(5):
        values = memory.empty(size)
        assert values.shape == (size,)
        assert values.dtype == np.float32
        assert address(values) % CACHE_LINE == 0


def test_a_buffer_is_reused_by_calls_that_fit():
    with memory.scratch(10, 20) as first:
        first[:] = 3
        where = address(first)
    with memory.scratch(5, 20) as again:
        assert again.shape == (5, 20)
        assert address(again) == where
    with memory.scratch(11, 20) as larger:
        assert address(larger) % CACHE_LINE == 0
        assert larger.shape == (11, 20)


def test_the_largest_buffers_below_the_limit_are_cached(monkeypatch):
    monkeypatch.setattr(memory, "MAX_CACHED_BYTES", 4000)
    with memory.scratch(100, 10), memory.scratch(3, 10), memory.scratch(50, 10):
        pass
    assert [len(each) for each in memory._cached] == [500, 1000]
    with memory.scratch(101, 10):
        pass
    assert [len(each) for each in memory._cached] == [500, 1000]
