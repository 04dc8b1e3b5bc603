"""Which implementation serves a call: chosen per call, never by rebinding names.

A backend that is asked for by name either serves the call or raises; `"auto"` takes the fastest one
that fits the device and type of the parameters, and reports its choice once through `logging`.
"""

import importlib
import importlib.util
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from supdocnade.errors import BackendUnavailable, InvalidArgument

logger = logging.getLogger("supdocnade")


@dataclass(frozen=True)
class Backend:
    """One implementation of an operation: where it lives and what it serves."""

    name: str
    module: str
    devices: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]
    requires: str | None = None
    capability: tuple[int, int] | None = None
    """Of a GPU, at least."""

    def objection(self, device: str, dtype: torch.dtype) -> str | None:
        """Return why this backend cannot serve such parameters, or None if it can."""
        if device not in self.devices:
            return f"it runs on {' or '.join(self.devices)}, the parameters are on {device}"
        if dtype not in self.dtypes:
            listed = " or ".join(str(each).removeprefix("torch.") for each in self.dtypes)
            return f"it takes {listed} parameters, these are {str(dtype).removeprefix('torch.')}"
        if self.requires is not None and importlib.util.find_spec(self.requires) is None:
            return f"it needs the package {self.requires}, which is not installed"
        if self.capability is not None and torch.cuda.get_device_capability() < self.capability:
            least = ".".join(map(str, self.capability))
            return f"it needs a GPU of compute capability {least} or above"
        return None


FLOATS = (torch.float32, torch.float64)

TENSOR_CORES = (8, 0)
"""Compute capability of GPUs that multiply tf32 and bf16: the kernels are compiled for these."""


class Operation:
    """An operation with several backends; `automatic` names those tried unasked, fastest first."""

    def __init__(self, name: str, backends: tuple[Backend, ...], automatic: tuple[str, ...]):
        self.name = name
        self.backends = {backend.name: backend for backend in backends}
        self.automatic = automatic
        self._reported: set[tuple[str, str, torch.dtype]] = set()

    def choose(self, request: str, device: torch.device, dtype: torch.dtype) -> str:
        """Return the name of the backend that serves `request`."""
        if request == "auto":
            return self._choose_automatically(device.type, dtype)
        if request not in self.backends:
            known = ", ".join(repr(name) for name in ("auto", *self.backends))
            raise InvalidArgument(f"backend must be one of {known}, got {request!r}.")
        objection = self.backends[request].objection(device.type, dtype)
        if objection is not None:
            raise BackendUnavailable(f"backend {request!r} cannot serve {self.name}: {objection}.")
        return request

    def load(self, name: str) -> Callable[..., Any]:
        """Return the function of a backend, importing its module on first use."""
        function: Callable[..., Any] = getattr(
            importlib.import_module(self.backends[name].module), self.name
        )
        return function

    def _choose_automatically(self, device: str, dtype: torch.dtype) -> str:
        objections = {name: self.backends[name].objection(device, dtype) for name in self.automatic}
        for name, objection in objections.items():
            if objection is None:
                report = (name, device, dtype)
                if report not in self._reported:
                    self._reported.add(report)
                    logger.info("%s: backend %r on %s with %s", self.name, *report)
                return name
        reasons = "; ".join(f"{name!r}: {objection}" for name, objection in objections.items())
        raise BackendUnavailable(f"no backend can serve {self.name} ({reasons}).")
