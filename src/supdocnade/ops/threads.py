"""Running kernels over a fixed list of parts, on as many threads as there are.

The parts never depend on the number of threads, and no two of them write to the same place, so the
result has the same bits however many threads share the work. Kernels release the interpreter lock;
Numba's own parallel loops are not used, because they abort the process under concurrent Python
threads or after a fork (docs/decisions/0003-threads.md).
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Part = TypeVar("Part")

_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_lock = threading.Lock()


def _forget_pool() -> None:
    """Drop the pool in a forked child, where its threads do not exist."""
    global _pool, _pool_size, _lock
    _pool, _pool_size, _lock = None, 0, threading.Lock()


os.register_at_fork(after_in_child=_forget_pool)


def _helpers(count: int) -> ThreadPoolExecutor:
    """Return a pool of at least `count` threads."""
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size < count:
            # A smaller pool finishes what it was given and ends with its last reference.
            _pool = ThreadPoolExecutor(count, thread_name_prefix="supdocnade")
            _pool_size = count
        return _pool


def n_threads() -> int:
    """Return how many threads may share the work: torch's own setting."""
    return torch.get_num_threads()


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Keep torch's own operations in this thread.

    How torch cuts a matrix product or a long sum over its threads decides the last bits of the
    result; on one thread they do not depend on how many there are. The setting belongs to the
    calling thread alone.
    """
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run_parts(kernel: Callable[[Part], None], parts: Iterable[Part], *, small: bool) -> None:
    """Call `kernel` on every part; the calling thread works along with its helpers.

    Within a part torch's own operations use one thread.

    Parameters
    ----------
    small : there is too little work to be worth waking another thread.
    """
    parts = list(parts)
    n_helpers = 0 if small else min(n_threads(), len(parts)) - 1
    remaining = iter(parts)  # `next` on a list's iterator is atomic: threads may share it.
    if n_helpers <= 0:
        _drain(kernel, remaining)
        return
    helpers = _helpers(n_helpers)
    futures: list[Future[None]] = [
        helpers.submit(_drain, kernel, remaining) for _ in range(n_helpers)
    ]
    _drain(kernel, remaining)
    for future in futures:
        # A helper that never got a turn has nothing left to do; don't wait behind other callers.
        if not future.cancel():
            future.result()


def _drain(kernel: Callable[[Part], None], parts: Iterator[Part]) -> None:
    with one_torch_thread():
        for part in parts:
            kernel(part)
