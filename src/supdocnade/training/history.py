"""Records of a training run: progress within an epoch, results per epoch, and their history."""

from dataclasses import asdict, dataclass, field
from typing import Any

from supdocnade.errors import InvalidArgument


@dataclass(frozen=True)
class TrainingProgress:
    """Position and loss of a run after an update."""

    epoch: int
    """Counted from 1, up to `max_epochs`."""
    max_epochs: int
    update: int
    """Counted from 1 within the epoch, up to `n_updates`."""
    n_updates: int
    loss: float
    """Mean objective over the documents of this epoch so far."""


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

    def to_json(self) -> dict[str, Any]:
        """Return plain values, the inverse of `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "History":
        """Build a history from the values of `to_json`; bad ones raise an error of their type."""
        epochs = [EpochRecord(**record) for record in values["epochs"]]
        history = cls(**{**values, "epochs": epochs})
        numbers = list(history.seconds)
        for each in epochs:
            numbers += [each.epoch, each.learning_rate, each.loss, *each.validation.values()]
        best = history.best_epoch
        best_exists = best is None or (type(best) is int and 1 <= best <= len(epochs))
        are_numbers = all(type(number) in (int, float) for number in numbers)
        if not (are_numbers and best_exists and isinstance(history.stopped_early, bool)):
            raise InvalidArgument("its history cannot be read")
        return history
