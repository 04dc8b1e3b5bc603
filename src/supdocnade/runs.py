"""How to run, as opposed to what to learn: workers, device, progress, and callbacks.

Everything that takes long reports its progress; a training also reports its epochs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from supdocnade.checks import check_choice
from supdocnade.errors import InvalidArgument

DEVICES = ("auto", "cpu", "cuda")

ProgressCallback = Callable[[str, int, int | None], None]
"""Called with the stage, the number of units done, and their total; None if it is unknown."""

EpochCallback = Callable[[int, Mapping[str, float]], bool | None]
"""Called with the number of an epoch, from 1, and its metrics."""


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Ignore a progress report."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Workers, device, error handling and progress of a run.

    The result does not depend on them, except that a GPU may change its last bits.
    """

    n_jobs: int | None = None
    """Number of workers as joblib counts them. By default, one."""
    device: str = "auto"
    """"auto", "cpu" or "cuda"."""
    on_error: str = "raise"
    """"raise" the error of an image that cannot be read, or "skip" the image."""
    cache: Path | None = None
    """Folder that stores the visual words of images by content."""
    checkpoint: Path | None = None
    """Folder from which training resumes."""
    progress: ProgressCallback = no_progress
    on_epoch: EpochCallback | None = None
    """Called with the metrics of every epoch of topics; their names begin with the stage."""

    def __post_init__(self) -> None:
        check_choice("on_error", self.on_error, ("raise", "skip"))
        if self.n_jobs == 0:
            raise InvalidArgument("n_jobs must be None or a whole number other than 0, got 0.")
        for name in ("cache", "checkpoint"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, Path(getattr(self, name)))
