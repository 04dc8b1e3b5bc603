"""The heads that a scene model can have: classifiers, and outputs of tags."""

from supdocnade.model.inference import NetworkArrays
from supdocnade.scene.class_heads import ClassHead, SoftmaxHead
from supdocnade.scene.svm import RBFSVM
from supdocnade.scene.tag_heads import LogisticTags, TagHead, WordTags

CLASS_HEADS: dict[str, type[ClassHead]] = {each.name: each for each in (SoftmaxHead, RBFSVM)}
"""Classifiers by name; if two are equally good, "auto" takes the first."""

TAG_HEADS: dict[str, type[TagHead]] = {each.name: each for each in (WordTags, LogisticTags)}


def allowed_heads(
    classifier: str, n_classes: int, *, can_compare: bool = True
) -> list[type[ClassHead]]:
    """Return the classifiers that a model of so many classes may have; none without classes.

    Parameters
    ----------
    classifier : name of a classifier, or "auto" for all.
    can_compare : False if no labels are held out to compare classifiers by: only the paper's, the
        SVM, is left of several.
    """
    if not n_classes:
        return []
    heads = [CLASS_HEADS[classifier]] if classifier in CLASS_HEADS else [*CLASS_HEADS.values()]
    heads = [head for head in heads if n_classes >= head.min_classes] or [SoftmaxHead]
    return heads if can_compare or len(heads) == 1 else [RBFSVM]


def tag_head(network: NetworkArrays) -> TagHead:
    """Return the outputs of tags of a topic model."""
    config = network.config
    return TAG_HEADS[config.annotation_output if config.n_annotation_words else "words"](network)
