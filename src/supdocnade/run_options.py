"""Options of a run that are no part of the model."""

from dataclasses import dataclass
from pathlib import Path

from supdocnade.checks import check_choice
from supdocnade.errors import InvalidArgument
from supdocnade.progress import EpochCallback, ProgressCallback, no_progress

DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Workers, device, error handling and progress of a run.

    The result does not depend on them, except that a GPU may change its last bits.
    """

    n_jobs: int | None = None
    """Number of workers as joblib counts them; None: one."""
    device: str = "auto"
    """"auto", "cpu" or "cuda"."""
    on_error: str = "raise"
    """"raise" the error of an image that cannot be read, or "skip" the image."""
    cache: Path | None = None
    """Folder that stores the visual words of images by content."""
    checkpoint: Path | None = None
    """Folder from which training resumes."""
    cluster: str | None = None
    """Ray cluster that does the work: "local", "auto" or an address; None: this process."""
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
