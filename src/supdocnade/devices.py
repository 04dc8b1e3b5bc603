"""Which device computes, and how exactly it multiplies."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from supdocnade.checks import check_choice
from supdocnade.errors import BackendUnavailable

DEVICES = ("auto", "cpu", "cuda")

# Torch 2.9 brought a setting for products on GPUs alone, which then is the one that counts.
_OF_GPUS = hasattr(torch.backends.cuda.matmul, "fp32_precision")
_EXACT = "ieee" if _OF_GPUS else "highest"
_ROUNDED = ("tf32", "high", "medium")

_one_thread = threading.RLock()


def choose_device(request: str) -> torch.device:
    """Return the device that serves a request; "auto" is a GPU where there is one.

    Parameters
    ----------
    request : "auto", "cpu", or "cuda", which raises `BackendUnavailable` where there is no GPU.
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
    """Keep all bits of float32 in products on a GPU, whatever the program has allowed.

    TF32 would round the factors to eleven bits. The setting is the whole process's: it is touched
    only where somebody has allowed TF32, by one thread at a time, and put back.
    """
    if device.type == "cpu":
        yield
        return
    with _one_thread:
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
    products = torch.backends.cuda.matmul
    return str(products.fp32_precision) if _OF_GPUS else torch.get_float32_matmul_precision()


def _set_precision(precision: str) -> None:
    if _OF_GPUS:
        torch.backends.cuda.matmul.fp32_precision = precision
    else:
        torch.set_float32_matmul_precision(precision)
