"""One large buffer kept from call to call, so that its pages are not cleared and mapped anew."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

MAX_KEPT_BYTES = 64 * 2**20

_kept: list[NDArray[np.float32]] = []
_lock = threading.Lock()


def _renew_lock() -> None:
    """Replace the lock in a forked child: a thread that held it does not exist there."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def scratch(n_rows: int, n_columns: int) -> Iterator[NDArray[np.float32]]:
    """Lend an (n_rows, n_columns) float32 array with undefined contents.

    Concurrent callers get buffers of their own; the largest of at most `MAX_KEPT_BYTES` is kept.
    """
    size = n_rows * n_columns
    with _lock:
        buffer = _kept.pop() if _kept else np.empty(0, np.float32)
    if buffer.size < size:
        buffer = np.empty(size, np.float32)
    try:
        yield buffer[:size].reshape(n_rows, n_columns)
    finally:
        if buffer.nbytes <= MAX_KEPT_BYTES:
            with _lock:
                if not _kept or _kept[-1].size < buffer.size:
                    _kept[:] = [buffer]


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
