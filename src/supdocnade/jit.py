"""Compilation of kernels with Numba."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numba

# Sums may be reordered and multiplications fused, so that loops use the vector units. NaN and
# infinity keep their meaning, so that a diverging model is noticed.
_FAST_MATH = {"reassoc", "contract", "nsz", "arcp"}


@functools.cache
def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that releases the interpreter lock, cached on disk where possible."""
    return _compile(function, fastmath=_FAST_MATH)


def exact_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function as `kernel` does, with all sums in the order in which they are written.

    It is for functions that other kernels call: their bits do not depend on the caller.
    """
    return _compile(function, fastmath=False)


def _repair_cache(compiled: Any) -> None:
    """Let Numba compile a kernel again if its file in the cache is damaged."""
    cache, load = compiled._cache, compiled._cache.load_overload

    def load_or_empty(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except Exception:  # Unpickling raises errors of any type.
            cache.flush()
            return None

    cache.load_overload = load_or_empty


def _compile(function: Callable[..., Any], fastmath: Any) -> Callable[..., Any]:
    options: dict[str, Any] = {"nogil": True, "fastmath": fastmath, "error_model": "numpy"}
    try:
        compiled: Callable[..., Any] = numba.njit(cache=True, **options)(function)
        _repair_cache(compiled)
    except RuntimeError:  # Numba found no folder for its cache.
        warnings.warn(
            "supdocnade's kernels are compiled again in every process, because no cache folder can "
            "be written; set NUMBA_CACHE_DIR to a writable folder to compile them once.",
            RuntimeWarning,
            stacklevel=4,
        )
        compiled = numba.njit(cache=False, **options)(function)
    return compiled
