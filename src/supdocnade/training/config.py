"""How a network is trained, checked once where it is decided."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from supdocnade.checks import check_choice, check_count, check_range
from supdocnade.seeding import check_seed

OPTIMIZERS = ("adam", "sgd")
SCHEDULES = ("cosine", "constant")
METRICS = ("loss", "perplexity", "accuracy", "f_measure")


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """Settings of a training run; together with the corpus they fix its result bit for bit."""

    generative_weight: float = 1.0
    """λ: multiplies the sum over all words of a document of -log p(v_i | v_<i)."""
    annotation_weight: float = 1.0
    """Weight of an annotation word against a visual word within that sum; 1 is the paper's."""
    optimizer: str = "adam"
    """"adam", or "sgd" as in the paper."""
    learning_rate: float = 3e-4
    schedule: str = "cosine"
    """"cosine", down to zero at `max_epochs`, or "constant"."""
    batch_size: int = 64
    """Documents per update."""
    max_epochs: int = 60
    stop_after: int | None = None
    """End the run after so many epochs of the schedule; None: after all of them."""
    clip_norm: float | None = None
    """Gradients are scaled down to this norm when theirs is larger."""
    averaging: float | None = None
    """Decay of an exponential moving average of the parameters, which then is the result."""
    early_stopping: bool = False
    """Stop when `metric` on the validation part stops improving, and keep the best epoch."""
    n_epochs_no_change: int = 10
    """How many epochs without improvement are waited for."""
    metric: str = "loss"
    """What is watched: "loss", "perplexity", "accuracy" or "f_measure"."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("metric", self.metric, METRICS)
        checked: dict[str, float | int | None] = {
            "generative_weight": check_range("generative_weight", self.generative_weight, least=0),
            "annotation_weight": check_range("annotation_weight", self.annotation_weight, least=0),
            "learning_rate": check_range("learning_rate", self.learning_rate, above=0),
            "batch_size": check_count("batch_size", self.batch_size, least=1),
            "max_epochs": check_count("max_epochs", self.max_epochs),
            "n_epochs_no_change": check_count(
                "n_epochs_no_change", self.n_epochs_no_change, least=1
            ),
            "seed": check_seed("seed", self.seed),
        }
        if self.stop_after is not None:
            checked["stop_after"] = check_count("stop_after", self.stop_after, least=1)
        if self.clip_norm is not None:
            checked["clip_norm"] = check_range("clip_norm", self.clip_norm, above=0)
        if self.averaging is not None:
            checked["averaging"] = check_range("averaging", self.averaging, above=0, most=1)
        for name, value in checked.items():
            object.__setattr__(self, name, value)


# What a training run reports while it goes and when it is over.


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


# How the learning rate and the average of the parameters change from update to update.


def scheduled_rate(schedule: str, learning_rate: float, update: int, n_updates: int) -> float:
    """Return the learning rate of an update, counted from 0.

    >>> [round(scheduled_rate("cosine", 1.0, i, 4), 3) for i in range(4)]
    [1.0, 0.854, 0.5, 0.146]
    """
    if schedule == "constant":
        return learning_rate
    return learning_rate * 0.5 * (1 + math.cos(math.pi * update / max(n_updates, 1)))


@dataclass(frozen=True)
class Schedule:
    """The rates of a run whose epochs have so many updates each."""

    config: TrainerConfig
    n_updates: int

    def rate(self, epoch: int, update: int) -> float:
        """Return the learning rate of an update of an epoch, both counted from 0."""
        config, done = self.config, epoch * self.n_updates + update
        n_all = self.n_updates * config.max_epochs
        return scheduled_rate(config.schedule, config.learning_rate, done, n_all)

    def decay(self, epoch: int, update: int) -> float:
        """Return the decay of the average of the parameters at an update.

        The first updates count less, so that the average forgets where it started.
        """
        done = epoch * self.n_updates + update
        return min(self.config.averaging or 0.0, (1 + done) / (10 + done))
