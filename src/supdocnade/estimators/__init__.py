"""The models as scikit-learn estimators on matrices of word counts."""

from supdocnade.estimators.classifier import SupDocNADE
from supdocnade.estimators.counts import DampCounts
from supdocnade.estimators.scoring import make_annotation_scorer
from supdocnade.estimators.topics import DocNADE

__all__ = ["DampCounts", "DocNADE", "SupDocNADE", "make_annotation_scorer"]
