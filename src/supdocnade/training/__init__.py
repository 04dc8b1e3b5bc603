"""From a corpus and a network to a trained network."""

from supdocnade.training.config import EpochRecord, History, Progress, TrainerConfig
from supdocnade.training.trainer import Trainer

__all__ = ["EpochRecord", "History", "Progress", "Trainer", "TrainerConfig"]
