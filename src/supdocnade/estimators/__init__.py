"""Images to counts of words, and the models of counts, as scikit-learn estimators."""

from supdocnade.estimators.bag_of_visual_words import BagOfVisualWords, SkippedImagesWarning
from supdocnade.estimators.damp_counts import DampCounts
from supdocnade.estimators.docnade import DocNADE
from supdocnade.estimators.fit_many import fit_many
from supdocnade.estimators.scoring import make_annotation_scorer
from supdocnade.estimators.supdocnade import SupDocNADE

__all__ = [
    "BagOfVisualWords",
    "DampCounts",
    "DocNADE",
    "SkippedImagesWarning",
    "SupDocNADE",
    "fit_many",
    "make_annotation_scorer",
]
