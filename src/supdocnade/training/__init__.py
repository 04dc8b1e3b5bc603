"""Training of a network on a corpus."""

from supdocnade.training.history import EpochRecord, History, Progress
from supdocnade.training.trainer import Trainer
from supdocnade.training.trainer_config import TrainerConfig

__all__ = ["EpochRecord", "History", "Progress", "Trainer", "TrainerConfig"]
