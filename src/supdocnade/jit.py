"""Compiling kernels with Numba, wherever the package is installed."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numba

# Sums may be reordered and multiplications fused, so that loops use the vector units; NaN and
# infinity keep their meaning, so that a diverging model is noticed.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


@functools.cache
def _warn_uncached() -> None:
    warnings.warn(
        "supdocnade's kernels are compiled anew in every process, because no cache folder can be "
        "written; set NUMBA_CACHE_DIR to a writable folder to compile them once.",
        RuntimeWarning,
        stacklevel=4,
    )


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that runs without the interpreter lock, on disk cached where possible."""
    options: dict[str, Any] = {"nogil": True, "fastmath": _FAST, "error_model": "numpy"}
    try:
        compiled: Callable[..., Any] = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # Numba's word for: no folder to keep the cache in.
        _warn_uncached()
        compiled = numba.njit(cache=False, **options)(function)
    return compiled
