"""Choice of the device."""

import torch

from supdocnade.checks import check_choice
from supdocnade.errors import BackendUnavailable
from supdocnade.runs import DEVICES


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
