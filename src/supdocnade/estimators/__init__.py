"""Images to counts of words, and the models of counts, as scikit-learn estimators."""

from supdocnade.estimators.classifier import SupDocNADE
from supdocnade.estimators.counts import DampCounts
from supdocnade.estimators.features import BagOfVisualWords, ImagesLeftOut
from supdocnade.estimators.scoring import make_annotation_scorer
from supdocnade.estimators.together import fit_together
from supdocnade.estimators.topics import DocNADE

__all__ = [
    "BagOfVisualWords",
    "DampCounts",
    "DocNADE",
    "ImagesLeftOut",
    "SupDocNADE",
    "fit_together",
    "make_annotation_scorer",
]
