"""How the learning rate and the average of the parameters change from update to update."""

import math
from dataclasses import dataclass

from supdocnade.training.config import TrainerConfig


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
