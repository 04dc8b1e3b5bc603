"""Memory for kernels, aligned to cache lines.

The largest buffers are reused from call to call, so that the system does not clear and map their
pages again.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

MAX_CACHED_BYTES = 64 * 2**20
"""Largest buffer that is cached, in bytes."""

MAX_CACHED = 2
"""Buffers that are cached: a call borrows one for hidden units and one for gradients."""

CACHE_LINE = 64
"""Bytes. A vector of eight floats that crosses a line takes twice as long to load; in aligned
arrays whose rows have a multiple of eight floats, none does."""

_cached: list[NDArray[np.float32]] = []  # In ascending order of size.
_lock = threading.Lock()


def _renew_lock() -> None:
    """Replace the lock in a forked child: a thread that held it does not exist there."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def empty(size: int) -> NDArray[np.float32]:
    """Return an uninitialised float32 array that starts at a cache line."""
    # numpy requests huge pages and torch does not, which halves the cost of clearing.
    buffer = np.empty(size + CACHE_LINE // 4, np.float32)
    start = -buffer.ctypes.data % CACHE_LINE // 4
    return buffer[start : start + size]


@contextmanager
def scratch(n_rows: int, n_columns: int) -> Iterator[NDArray[np.float32]]:
    """Lend an uninitialised (n_rows, n_columns) float32 array.

    The `MAX_CACHED` largest buffers are cached afterwards, except those of more than
    `MAX_CACHED_BYTES`. Concurrent calls get different buffers.
    """
    size = n_rows * n_columns
    with _lock:
        fitting = [each for each in range(len(_cached)) if _cached[each].size >= size]
        buffer = _cached.pop(fitting[0]) if fitting else None
    if buffer is None:
        buffer = empty(size)
    try:
        yield buffer[:size].reshape(n_rows, n_columns)
    finally:
        if buffer.nbytes <= MAX_CACHED_BYTES:
            with _lock:
                _cached.append(buffer)
                _cached.sort(key=len)
                del _cached[:-MAX_CACHED]


_ones = np.ones(0, np.float32)


def ones(size: int) -> NDArray[np.float32]:
    """Return a shared array of ones, which must not be written to."""
    global _ones
    values = _ones
    if values.size < size:
        values = np.ones(size, np.float32)
        if values.nbytes <= MAX_CACHED_BYTES:
            _ones = values
    return values[:size]
