"""What a class is made of: the visual words and tags that its topics stand for.

The paper takes the three topics with the largest weight in a class's column of U, averages their
columns of W, and shows the visual words and annotation words with the largest average. A visual
word in another region is another word there. Here the regions of a visual word are put together by
their maximum: ranking all pairs of word and region and naming every visual word once, at its first
place, gives the same list.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.supdocnade import SupDocNADE
from supdocnade.metrics import top_ranked
from supdocnade.scene.prediction import FittedScene

Floats = NDArray[np.floating]

N_TOPICS, N_WORDS, N_TAGS = 3, 4, 5
"""As in the paper's figure."""


@dataclass(frozen=True, kw_only=True)
class WordAssociation:
    """A visual word that excites some topics."""

    word: int
    weight: float
    """The largest of its regions."""
    region_weights: tuple[float, ...]
    """Of the word in every region."""


@dataclass(frozen=True, kw_only=True)
class Associations:
    """What some topics stand for together."""

    topics: tuple[int, ...]
    words: tuple[WordAssociation, ...]
    """The strongest first."""
    tags: tuple[tuple[str, float], ...]
    """The strongest first, with their weight."""


@dataclass(frozen=True, kw_only=True)
class ClassAssociations(Associations):
    """What a class stands for, through its topics."""

    label: str
    topic_weights: tuple[float, ...]
    """Of the topics, in U."""


def associate(
    components_HK: Floats,
    topics: Sequence[int],
    tag_names: Sequence[str],
    *,
    n_visual_words: int,
    n_words: int = N_WORDS,
    n_tags: int = N_TAGS,
) -> Associations:
    """Return what some topics stand for.

    Parameters
    ----------
    components_HK : W, topics × (regions · visual words, then tags).
    topics : whose weights are averaged.
    tag_names : of the last columns.
    n_visual_words : in every region.
    n_words, n_tags : how many of each to return.
    """
    n_columns = components_HK.shape[1] - len(tag_names)
    if not len(topics):
        raise InvalidArgument("topics must name at least one topic, got none.")
    check_shape("components", (n_columns % n_visual_words,), (0,))
    mean_K = components_HK[list(topics)].astype(np.float64).mean(axis=0)
    by_region_RW = mean_K[:n_columns].reshape(-1, n_visual_words)
    best_W, tags_A = by_region_RW.max(axis=0), mean_K[n_columns:]
    return Associations(
        topics=tuple(int(topic) for topic in topics),
        words=tuple(
            WordAssociation(
                word=word,
                weight=float(best_W[word]),
                region_weights=tuple(by_region_RW[:, word].tolist()),
            )
            for word in top_ranked(best_W[None], n_words)[0].tolist()
        ),
        tags=tuple(
            (tag_names[tag], float(tags_A[tag]))
            for tag in top_ranked(tags_A[None], n_tags)[0].tolist()
        ),
    )


def topic_associations(fitted: FittedScene, topics: Sequence[int]) -> Associations:
    """Return what some topics of a model stand for together."""
    return associate(
        fitted.topics.components_,
        topics,
        fitted.tag_names,
        n_visual_words=fitted.bag.encoder_.codebook.n_words,
    )


def class_associations(
    fitted: FittedScene, n_topics: int = N_TOPICS
) -> tuple[ClassAssociations, ...]:
    """Return what every class of a model stands for; nothing for a model without classes."""
    if not isinstance(fitted.topics, SupDocNADE):
        return ()
    weight_CH = fitted.topics.network_.label_weight.detach().numpy()
    found = []
    for number, topics_X in enumerate(fitted.topics.class_topics(n_topics)):
        each = topic_associations(fitted, topics_X.tolist())
        found.append(
            ClassAssociations(
                label=fitted.classes[number],
                topics=each.topics,
                topic_weights=tuple(weight_CH[number, topics_X].tolist()),
                words=each.words,
                tags=each.tags,
            )
        )
    return tuple(found)
