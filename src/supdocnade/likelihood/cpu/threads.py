"""Running kernels on as many threads as there are.

Nothing that is added up is ever cut by the number of threads: sums are cut into parts fixed by the
data, and threads share out whole parts, so the bits of a result do not depend on how many there
are. Kernels release the interpreter lock, and each thread makes one call a phase: short calls would
queue for the lock in between. Numba's own parallel loops are not used, because they abort the
process under concurrent Python threads or after a fork (docs/decisions/0003-threads.md).
"""

import bisect
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

Part = TypeVar("Part")

SMALL_WORK = 100_000
"""Below this many numbers to compute, waking another thread costs more than it saves."""

# The vector math library inside torch chooses its code at the first call of each function. When two
# threads made that first call together, one of them was seen to get another variant, with other
# last bits (docs/decisions/0003-threads.md). An import happens in one thread: the choice is made
# here.
for _function in (torch.exp, torch.log, torch.tanh, torch.sigmoid):
    _function(torch.zeros(1))

_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_lock = threading.Lock()
_local = threading.local()


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
    """Return how many threads may share the work: torch's setting, but within a part one."""
    share: int = getattr(_local, "share", 0)
    return share or torch.get_num_threads()


def even_ranges(edges: NDArray[np.integer], n_ranges: int) -> list[tuple[int, int]]:
    """Share out consecutive items so that every range has about as much work.

    Parameters
    ----------
    edges : (items + 1,) the work before each item, from the first to all of them.

    >>> even_ranges(np.array([0, 5, 6, 7, 12]), 2)
    [(0, 2), (2, 4)]
    """
    first, last = int(edges[0]), int(edges[-1])
    targets = [first + number * (last - first) / n_ranges for number in range(1, n_ranges)]
    bounds = {0, *(bisect.bisect_left(edges, target) for target in targets), len(edges) - 1}
    return list(itertools.pairwise(sorted(bounds)))


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Keep torch's own operations in this thread; ours may still use as many as before.

    How torch cuts a matrix product or a long sum over its threads decides the last bits of the
    result; on one thread they do not depend on how many there are. Nor do torch's threads, which
    stay awake for a while after their work, then take time from ours. The setting is the calling
    thread's; a thread that meets torch for the first time meanwhile starts with it, too.
    """
    with limit_threads(None):
        yield


@contextmanager
def limit_threads(threads: int | None) -> Iterator[None]:
    """Let the work within use this many threads; None leaves the choice to torch's setting."""
    with _share(n_threads() if threads is None else threads):
        yield


@contextmanager
def _share(threads: int) -> Iterator[None]:
    """Give this thread a share of the threads, and torch within it one."""
    before, torch_before = getattr(_local, "share", 0), torch.get_num_threads()
    _local.share = threads
    if torch_before != 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        _local.share = before
        if torch_before != 1:
            torch.set_num_threads(torch_before)


def run_parts(kernel: Callable[[Part], object], parts: Iterable[Part], *, small: bool) -> None:
    """Call `kernel` on every part; the calling thread works along with its helpers.

    Within a part torch's own operations use one thread.

    Parameters
    ----------
    small : there is too little work to be worth waking another thread.
    """
    parts = list(parts)
    n_workers = 1 if small else min(n_threads(), len(parts))
    remaining = iter(parts)  # `next` on a list's iterator is atomic: threads may share it.
    if n_workers <= 1:
        _drain(kernel, remaining)
        return
    helpers = _helpers(n_workers - 1)
    futures: list[Future[None]] = [
        helpers.submit(_drain, kernel, remaining) for _ in range(n_workers - 1)
    ]
    try:
        _drain(kernel, remaining)
    finally:
        # Whatever happened here, nobody may go on writing. A helper that never got a turn has
        # nothing left to do: it is not waited for behind other callers.
        for future in futures:
            if not future.cancel():
                future.result()


def _drain(kernel: Callable[[Part], object], parts: Iterator[Part]) -> None:
    with _share(1):
        for part in parts:
            kernel(part)
