"""What tags are ranked by: the paper's log p(tag | photograph), and what the classes add to it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from supdocnade.estimators.inference import add_classes, class_tag_shares
from supdocnade.folders.tags import AnnotationVocabulary, normalize_tag
from supdocnade.metrics import f_measure, top_ranked
from supdocnade.scene.dataset import Photographs

Floats = NDArray[np.float64]

CLASS_TAG_WEIGHTS = (0.0, 0.5, 1.0, 2.0)
"""Of what the classes say of tags; the first is the paper's ranking."""

TOP = 5
"""Tags of an image for the F-measure, as in the paper."""


def tag_scores(log_p_BA: Floats, proba_BC: Floats, share_CA: Floats, weight: float) -> Floats:
    """Return log p(tag | photograph) and what its classes add to it, (B, A).

    As p(tag | photograph) does, their exponentials sum to 1 over all tags, so that scores of
    different photographs compare.
    """
    if weight == 0:
        return log_p_BA
    scores_BA: Floats = log_softmax(add_classes(log_p_BA, proba_BC, share_CA, weight), axis=1)
    return scores_BA


def shares_of(
    photographs: Photographs, classes: Sequence[str], vocabulary: AnnotationVocabulary
) -> Floats | None:
    """Return the share of every tag among the tags of a class; None without classes or tags."""
    if not classes or not len(vocabulary):
        return None
    tags = vocabulary.encode(photographs.tags).annotations
    return class_tag_shares(tags, photographs.label_numbers(classes), len(classes))


class RankedTags(NamedTuple):
    """Tags as they are ranked best."""

    weight: float
    """Of what the classes say of them."""
    scores_BA: Floats
    f_measure: float
    """Of the five best; 0 where there is nothing to compare with."""


def rank_tags(
    log_p_BA: Floats,
    proba_BC: Floats | None,
    share_CA: Floats | None,
    present_BA: NDArray[np.bool_],
) -> RankedTags:
    """Choose the weight of the classes with which the five best tags have the best F-measure.

    Of equals it is the least: without need tags are ranked as in the paper.

    Parameters
    ----------
    proba_BC, share_CA : None where there are no classes.
    present_BA : of `present_tags`.
    """
    if not present_BA.any():
        return RankedTags(0.0, log_p_BA, 0.0)

    def ranked(weight: float, scores_BA: Floats) -> RankedTags:
        return RankedTags(
            weight, scores_BA, f_measure(top_ranked(scores_BA, TOP), present_BA).value
        )

    found = [ranked(0.0, log_p_BA)]
    if proba_BC is not None and share_CA is not None:
        found += [
            ranked(weight, tag_scores(log_p_BA, proba_BC, share_CA, weight))
            for weight in CLASS_TAG_WEIGHTS[1:]
        ]
    return max(found, key=lambda each: each.f_measure)


def present_tags(photographs: Photographs, vocabulary: AnnotationVocabulary) -> NDArray[np.bool_]:
    """Return which tags of the vocabulary photographs have, and after them, in further columns,
    those that it does not know: nobody can name them, but they count as missed."""
    known = vocabulary.encode(photographs.tags)
    inside: NDArray[np.bool_] = known.annotations.toarray() > 0
    others = sorted(known.unknown_tags)
    place = {name: number for number, name in enumerate(others)}
    outside = np.zeros((len(photographs), len(others)), np.bool_)
    for row, tags in enumerate(photographs.tags):
        for tag in tags or ():
            number = place.get(normalize_tag(tag))
            if number is not None:
                outside[row, number] = True
    return np.hstack([inside, outside])
