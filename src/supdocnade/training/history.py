"""Records of a training run: results per epoch, and their history."""

from dataclasses import dataclass, field

from supdocnade.errors import InvalidArgument


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """Results of one epoch."""

    epoch: int
    """Counted from 1."""
    learning_rate: float
    """Learning rate of the last update of the epoch."""
    loss: float
    """Mean objective over the documents, each measured just before its update."""
    validation: dict[str, float] = field(default_factory=dict)
    """Metrics on the validation set."""

    @property
    def metrics(self) -> dict[str, float]:
        """All results by name; those on the validation set begin with `validation_`."""
        validation = {f"validation_{name}": value for name, value in self.validation.items()}
        return {"loss": self.loss, "learning_rate": self.learning_rate, **validation}


@dataclass(kw_only=True)
class History:
    """All epochs of a run."""

    epochs: list[EpochRecord] = field(default_factory=list)
    best_epoch: int | None = None
    """Epoch whose parameters were kept; None is the last one."""
    stopped_early: bool = False
    seconds: list[float] = field(default_factory=list)
    """Duration of every epoch, apart from the records because a seed does not reproduce it."""

    def __post_init__(self) -> None:
        if self.best_epoch is not None and not 1 <= self.best_epoch <= len(self.epochs):
            raise InvalidArgument(
                f"best_epoch must be among {len(self.epochs)} epochs, got {self.best_epoch}"
            )
