"""Threads that run compiled kernels.

Sums are split into parts that depend on the data and not on the number of threads, and threads take
whole parts, so the bits of a result do not depend on the number of threads. Kernels release the
interpreter lock, and each thread makes one call per phase: short calls would queue for the lock.
Numba's own parallel loops are not used, because they abort the process under concurrent Python
threads or after a fork (docs/decisions/0003-equal-bits.md).
"""

import bisect
import functools
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

Part = TypeVar("Part")

SMALL_WORK = 100_000
"""Number of values to compute below which waking another thread costs more than it saves."""

_local = threading.local()
_blas_lock = threading.Lock()
_blas_limit: Any = None
_n_blas_callers = 0


@functools.cache
def _helper_pool(count: int) -> ThreadPoolExecutor:
    """Return a pool of `count` threads, which start when they are needed."""
    return ThreadPoolExecutor(count, thread_name_prefix="supdocnade")


def _drop_pools() -> None:
    """Drop the pools in a forked child, where their threads do not exist."""
    global _blas_lock, _n_blas_callers
    _helper_pool.cache_clear()
    _blas_lock, _n_blas_callers = threading.Lock(), 0


os.register_at_fork(after_in_child=_drop_pools)


def n_threads() -> int:
    """Return how many threads may share the work: the limit set here, or torch's setting."""
    limit: int = getattr(_local, "limit", 0)
    if limit:
        return limit
    torch = _imported_torch()
    return _default_threads() if torch is None else int(torch.get_num_threads())


def _imported_torch() -> Any:
    """Return torch if this process has imported it: prediction does without it."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "set_num_threads") else None  # Not while it is being imported.


def _default_threads() -> int:
    """Return OMP_NUM_THREADS, as torch does, or the number of cores."""
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if given.isdigit() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def even_ranges(edges: NDArray[np.integer], n_ranges: int) -> list[tuple[int, int]]:
    """Split consecutive items into ranges of about equal work.

    Parameters
    ----------
    edges : (items + 1,) cumulative work before each item, and after the last one.

    >>> even_ranges(np.array([0, 5, 6, 7, 12]), 2)
    [(0, 2), (2, 4)]
    """
    first, last = int(edges[0]), int(edges[-1])
    targets = [first + number * (last - first) / n_ranges for number in range(1, n_ranges)]
    bounds = {0, *(bisect.bisect_left(edges, target) for target in targets), len(edges) - 1}
    return list(itertools.pairwise(sorted(bounds)))


@contextmanager
def limit_threads(n_jobs: int | None = None) -> Iterator[None]:
    """Limit kernels to a number of threads, as joblib counts them, and torch's operations to one.

    By default, kernels may still use as many threads as before. The way torch splits a matrix
    product or a long sum over its threads determines the last bits of the result, so torch gets
    one. Its other threads, which stay awake for a while after their work, then do not take time
    from the kernels either. The setting belongs to the calling thread, and to threads that use
    torch for the first time meanwhile.

    In a forked child torch's other threads do not exist, and an operation that waited for them
    would wait for ever: whatever estimators do with torch runs within this context.
    """
    limit = n_threads() if n_jobs is None else effective_n_jobs(n_jobs)
    before, torch = getattr(_local, "limit", 0), _imported_torch()
    torch_before = 1 if torch is None else torch.get_num_threads()
    _local.limit = limit
    if torch_before != 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        _local.limit = before
        if torch_before != 1:
            torch.set_num_threads(torch_before)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run the matrix products of numpy and scipy on one thread.

    The way BLAS splits a product over its threads may determine the last bits of the result. The
    setting belongs to the process: the first caller changes it, and the last one restores it.
    """
    global _blas_limit, _n_blas_callers
    with _blas_lock:
        if _n_blas_callers == 0:
            with _control_of_blas():
                libraries = _blas_libraries(len(sys.modules))
                _blas_limit = libraries.limit(limits=1, user_api="blas")
        _n_blas_callers += 1
    try:
        yield
    finally:
        with _blas_lock:
            _n_blas_callers -= 1
            if _n_blas_callers == 0:
                with _control_of_blas():
                    _blas_limit.restore_original_limits()


@contextmanager
def _control_of_blas() -> Iterator[None]:
    """Let the calling thread change the number of BLAS threads.

    threadpoolctl 3.8 silently ignores all threads but the first one that changed it, until that one
    gives up control.
    """
    from threadpoolctl import OpenBLASController

    give_up = getattr(OpenBLASController, "clear_controlling_thread", lambda force: None)
    give_up(force=True)
    try:
        yield
    finally:
        give_up(force=True)


@functools.lru_cache(maxsize=1)
def _blas_libraries(n_modules: int) -> Any:
    """Return the BLAS libraries; a module imported since the last call may have brought its own."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def run_parts(kernel: Callable[[Part], object], parts: Iterable[Part], *, small: bool) -> None:
    """Call `kernel` on every part, in the calling thread and in helper threads.

    Within a part torch's own operations use one thread.

    Parameters
    ----------
    small : if True, only the calling thread works (see `SMALL_WORK`).
    """
    parts = list(parts)
    count = n_threads()
    n_helpers = 0 if small else min(count, len(parts)) - 1
    remaining = iter(parts)  # `next` on a list's iterator is atomic: threads may share it.
    futures: list[Future[None]] = [
        _helper_pool(count).submit(_drain, kernel, remaining) for _ in range(n_helpers)
    ]
    try:
        with limit_threads(1):
            for part in remaining:
                kernel(part)
    finally:
        # After an error too, no helper may continue to write. One that has not started is cancelled
        # instead of waiting for other callers.
        for future in futures:
            if not future.cancel():
                future.result()


def _drain(kernel: Callable[[Part], object], parts: Iterator[Part]) -> None:
    with limit_threads(1):
        for part in parts:
            kernel(part)
