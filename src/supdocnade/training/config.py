"""How a network is trained, checked once where it is decided."""

from dataclasses import dataclass

from supdocnade.seeding import check_seed
from supdocnade.shapes import check_choice, check_count, check_range

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
