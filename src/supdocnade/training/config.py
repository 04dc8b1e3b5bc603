"""Settings of a training run, and its history."""

import math
from dataclasses import dataclass, field

from supdocnade.checks import check_seed, check_settings, setting
from supdocnade.errors import InvalidArgument

TREES = ("random", "clustered")
OPTIMIZERS = ("adam", "sgd")
SCHEDULES = ("cosine", "constant")
METRICS = {
    "loss": -1,
    "perplexity": -1,
    "accuracy": 1,
    "mean_average_precision": 1,
    "f_measure": 1,
}
"""Metrics for early stopping: 1 where higher is better, -1 where lower is better."""


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """Settings of a training run; with the corpus, they determine its result bit for bit."""

    generative_weight: float = setting(1.0, least=0)
    """λ: multiplies the sum over all words of a document of -log p(v_i | v_<i)."""
    annotation_weight: float = setting(1.0, least=0)
    """Weight of an annotation word relative to a visual word in that sum; 1 in the paper. If
    annotations are no words, the factor of their term in the objective."""
    global_dropout: float = setting(0.5, least=0, below=1)
    """Probability with which an update ignores a global feature of a document."""
    tree: str = setting("random", choices=TREES)
    """How the words are assigned to the leaves of the tree: at random (the paper's), or so that
    words of the same documents share subtrees."""
    optimizer: str = setting("adam", choices=OPTIMIZERS)
    """"adam", or "sgd" as in the paper."""
    learning_rate: float = setting(3e-4, above=0)
    schedule: str = setting("cosine", choices=SCHEDULES)
    """"cosine", down to zero at `max_epochs`, or "constant"."""
    batch_size: int = setting(64, least=1)
    """Documents per update."""
    max_epochs: int = setting(60, least=0)
    stop_after: int | None = setting(None, least=1)
    """End the run after this many epochs of the schedule; None runs all of them."""
    clip_norm: float | None = setting(None, above=0)
    """Gradients with a larger norm are scaled down to this one."""
    early_stopping: bool = False
    """Stop when `metric` on the validation set stops improving, and keep the best epoch."""
    validation_fraction: float = setting(0.1, above=0, most=1)
    """Share of the documents of every class in the validation set."""
    n_epochs_no_change: int = setting(10, least=1)
    """Epochs without improvement before early stopping."""
    metric: str = setting("loss", choices=tuple(METRICS))
    """Metric for early stopping, one of `METRICS`."""
    seed: int = 0

    def __post_init__(self) -> None:
        checked = {**check_settings(self), "seed": check_seed("seed", self.seed)}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def last_epoch(self) -> int:
        """Epochs after which training ends, unless it stops earlier."""
        return min(self.stop_after or self.max_epochs, self.max_epochs)

    def rate_at(self, epoch: int, update: int, n_updates: int) -> float:
        """Return the learning rate of an update.

        Parameters
        ----------
        epoch, update : counted from 0.
        n_updates : updates per epoch.

        >>> config = TrainerConfig(learning_rate=1.0, max_epochs=2)
        >>> [round(config.rate_at(epoch, update, 2), 3) for epoch in (0, 1) for update in (0, 1)]
        [1.0, 0.854, 0.5, 0.146]
        """
        if self.schedule == "constant":
            return self.learning_rate
        step, n_steps = epoch * n_updates + update, n_updates * self.max_epochs
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * step / max(n_steps, 1)))


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
