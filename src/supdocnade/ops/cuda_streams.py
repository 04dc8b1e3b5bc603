"""Work that a GPU does on a second stream, while it goes on with the rest."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

_SECOND: dict[torch.cuda.Stream, torch.cuda.Stream] = {}
"""A second stream for every stream that was ever current here."""


@dataclass(frozen=True)
class Beside:
    """What is done beside; where there is no GPU, it simply is done."""

    current: torch.cuda.Stream | None = None
    second: torch.cuda.Stream | None = None

    def join(self, *made: Tensor) -> None:
        """Let the first stream wait for it.

        Memory goes back to the stream that it came from: tensors that were made beside and are used
        by others are named here, or the second stream could be given their memory for something
        else while the first still reads. What it reads must stay until it was waited for.
        """
        if self.current is None or self.second is None:
            return
        self.current.wait_stream(self.second)
        for tensor in made:
            tensor.record_stream(self.current)

    def read(self, numbers: Tensor) -> list[int]:
        """Wait here for numbers that were made beside, and for nothing else."""
        with torch.cuda.stream(self.second):
            found: list[int] = numbers.tolist()
        return found


@contextmanager
def beside(device: torch.device) -> Iterator[Beside]:
    """Let a GPU do something on its second stream; it begins after all that came before."""
    if device.type != "cuda":
        yield Beside()
        return
    current = torch.cuda.current_stream(device)
    second = _SECOND.get(current)
    if second is None:
        second = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        _SECOND[current] = second
    second.wait_stream(current)
    with torch.cuda.stream(second):
        yield Beside(current, second)
