"""What a training run reports while it goes and when it is over."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Progress:
    """Where a run stands after an update."""

    epoch: int
    """Of `max_epochs`, from 1."""
    max_epochs: int
    update: int
    """Of `n_updates` in this epoch, from 1."""
    n_updates: int
    loss: float
    """Mean objective over the documents of this epoch so far."""


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """What one epoch gave."""

    epoch: int
    """From 1."""
    learning_rate: float
    """At the epoch's last update."""
    loss: float
    """Mean of the objective over the documents, as they were seen."""
    validation: dict[str, float] = field(default_factory=dict)
    """Metrics on the validation part."""


@dataclass(kw_only=True)
class History:
    """All epochs of a run."""

    epochs: list[EpochRecord] = field(default_factory=list)
    best_epoch: int | None = None
    """The epoch whose parameters were kept; None: the last one's."""
    stopped_early: bool = False
    seconds: list[float] = field(default_factory=list)
    """Time of every epoch. Kept apart from the records, which a seed reproduces."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values, the inverse of `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "History":
        """Return a history from what `to_json` gave."""
        epochs = [EpochRecord(**record) for record in values["epochs"]]
        return cls(**{**values, "epochs": epochs})
