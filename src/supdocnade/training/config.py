"""Settings of a training run, and its history."""

import math
from dataclasses import dataclass, field

from supdocnade.checks import check_seed, check_settings, setting

TREES = ("random", "clustered")
OPTIMIZERS = ("adam", "sgd")
SCHEDULES = ("cosine", "constant")
MIN_UPDATES, MIN_BATCH, MAX_BATCH = 12, 4, 64
"""Smallest number of updates per epoch by default, within these batch sizes."""
METRICS = {
    "loss": -1,
    "perplexity": -1,
    "accuracy": 1,
    "f_measure": 1,
}
"""Metrics for early stopping: 1 where higher is better, -1 where lower is better."""


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """Settings of a training run; with the corpus, they determine its result bit for bit."""

    generative_weight: float = setting(
        1.0,
        "λ. It multiplies the **sum over the words** of a document, as in the paper: a document of "
        "961 words weighs 961 times as much as one word.",
        least=0,
    )
    annotation_weight: float = setting(
        1.0,
        "Weight of an annotation relative to a word in the objective; 1 in the paper. With "
        '`annotation_output="sigmoid"` the factor of Σ_a -log p(t_a | v), the sum over all '
        "annotations a document has or lacks: at 1 they count as the class does.",
        least=0,
    )
    global_dropout: float = setting(
        0.5,
        "Probability that an update ignores a global feature of a document. It has an effect only "
        "if `fit` is given global features.",
        least=0,
        below=1,
    )
    tree: str = setting(
        "random",
        "Leaves of the words in the tree: at random, as in the paper, or so that words of the same "
        "documents share subtrees, which lowers the perplexity of texts. Other outputs ignore it.",
        choices=TREES,
    )
    optimizer: str = setting("adam", "Adam, or plain SGD as in the paper.", choices=OPTIMIZERS)
    learning_rate: float = setting(3e-4, "Learning rate of the optimizer.", above=0)
    schedule: str = setting(
        "cosine", "The learning rate falls to zero at `max_epochs`, or stays.", choices=SCHEDULES
    )
    batch_size: int | None = setting(
        64,
        "Documents per update. If None, a twelfth of the documents, but at least 4 and at most 64.",
        least=1,
    )
    max_epochs: int = setting(60, "Maximum number of passes over the documents.", least=0)
    clip_norm: float | None = setting(
        None, "Gradients with a larger norm are scaled down to this one.", above=0
    )
    early_stopping: bool = setting(
        False,
        "Hold a part of the documents out, stop when `metric` on it stops improving, and keep the "
        "best epoch.",
    )
    validation_fraction: float = setting(
        0.1, "Share of the documents of every class that is held out.", above=0, most=1
    )
    n_epochs_no_change: int = setting(
        10, "Epochs without improvement before early stopping.", least=1
    )
    metric: str = setting(
        "loss",
        "Metric of early stopping. The F-measure needs annotations.",
        choices=tuple(METRICS),
    )
    seed: int = 0

    def __post_init__(self) -> None:
        checked = {**check_settings(self), "seed": check_seed("seed", self.seed)}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def batch_of(self, n_documents: int) -> int:
        """Return the number of documents per update, given the number in all.

        >>> [TrainerConfig(batch_size=None).batch_of(n) for n in (20, 240, 5000)]
        [4, 20, 64]
        """
        if self.batch_size is not None:
            return self.batch_size
        return min(max(n_documents // MIN_UPDATES, MIN_BATCH), MAX_BATCH)

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
