"""From a corpus and a network to a trained network."""

from supdocnade.training.config import TrainerConfig
from supdocnade.training.history import EpochRecord, History, Progress
from supdocnade.training.trainer import Trainer

__all__ = ["EpochRecord", "History", "Progress", "Trainer", "TrainerConfig"]
