"""Memory for kernels: it begins where a cache line does, and the largest buffers are kept.

They are kept from call to call, so that their pages are not cleared and mapped anew.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

MAX_KEPT_BYTES = 64 * 2**20
"""Of one buffer."""

N_KEPT = 2
"""Buffers: a call may borrow one for hidden units and one for gradients."""

CACHE_LINE = 64
"""Bytes. A vector that lies on two of them takes twice as long to load: rows of a multiple of eight
floats have none of those where the first begins with a line."""

_kept: list[NDArray[np.float32]] = []  # By size.
_lock = threading.Lock()


def _renew_lock() -> None:
    """Replace the lock in a forked child: a thread that held it does not exist there."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def empty(size: int) -> NDArray[np.float32]:
    """Return floats with undefined contents, the first at the beginning of a cache line."""
    # numpy asks the system for large pages, torch does not; that halves the cost of clearing.
    buffer = np.empty(size + CACHE_LINE // 4, np.float32)
    skipped = -buffer.ctypes.data % CACHE_LINE // 4
    return buffer[skipped : skipped + size]


@contextmanager
def scratch(n_rows: int, n_columns: int) -> Iterator[NDArray[np.float32]]:
    """Lend an (n_rows, n_columns) float32 array with undefined contents.

    Whoever borrows at the same time gets another. The largest that were lent are kept, `N_KEPT` of
    them, unless they have more than `MAX_KEPT_BYTES`.
    """
    size = n_rows * n_columns
    with _lock:
        fitting = [each for each in range(len(_kept)) if _kept[each].size >= size]
        buffer = _kept.pop(fitting[0]) if fitting else None
    if buffer is None:
        buffer = empty(size)
    try:
        yield buffer[:size].reshape(n_rows, n_columns)
    finally:
        if buffer.nbytes <= MAX_KEPT_BYTES:
            with _lock:
                _kept.append(buffer)
                _kept.sort(key=len)
                del _kept[:-N_KEPT]


_ones = np.ones(0, np.float32)


def ones(size: int) -> NDArray[np.float32]:
    """Return an array of ones that nobody may write to."""
    global _ones
    kept = _ones
    if kept.size < size:
        kept = np.ones(size, np.float32)
        if kept.nbytes <= MAX_KEPT_BYTES:
            _ones = kept
    return kept[:size]
