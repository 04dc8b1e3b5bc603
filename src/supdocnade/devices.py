"""Choice of the device, and exact float32 products on a GPU."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from supdocnade.checks import check_choice
from supdocnade.errors import BackendUnavailable
from supdocnade.run_options import DEVICES

# Torch 2.9 introduced a separate setting for products on GPUs, which takes precedence.
_HAS_GPU_SETTING = hasattr(torch.backends.cuda.matmul, "fp32_precision")
_EXACT = "ieee" if _HAS_GPU_SETTING else "highest"
_ROUNDED = ("tf32", "high", "medium")

_precision_lock = threading.RLock()


def choose_device(request: str) -> torch.device:
    """Return the device for a request.

    Parameters
    ----------
    request : "cpu"; "cuda", which raises `BackendUnavailable` if there is no GPU; or "auto", which
        takes the GPU if there is one.
    """
    check_choice("device", request, DEVICES)
    if request != "cpu" and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    if request == "cuda":
        raise BackendUnavailable(
            "device 'cuda' is not available: torch finds no GPU on this machine; "
            "'auto' takes the CPU here."
        )
    return torch.device("cpu")


@contextmanager
def full_float32(device: torch.device) -> Iterator[None]:
    """Compute products on a GPU in full float32, even if the program has allowed TF32.

    TF32 would round the factors to eleven bits. The setting is global to the process: it is changed
    only if TF32 is allowed, by one thread at a time, and restored afterwards.
    """
    if device.type == "cpu":
        yield
        return
    with _precision_lock:
        before = _precision()
        if before not in _ROUNDED:
            yield
            return
        _set_precision(_EXACT)
        try:
            yield
        finally:
            _set_precision(before)


def _precision() -> str:
    if _HAS_GPU_SETTING:
        return str(torch.backends.cuda.matmul.fp32_precision)
    return torch.get_float32_matmul_precision()


def _set_precision(precision: str) -> None:
    if _HAS_GPU_SETTING:
        torch.backends.cuda.matmul.fp32_precision = precision
    else:
        torch.set_float32_matmul_precision(precision)
