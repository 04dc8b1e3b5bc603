"""Visual words and tags associated with classes and topics.

As in the paper, the three topics with the largest weights of a class in U are averaged in W, and
the visual words and tags with the largest averages are shown. A visual word is ranked by its best
region. Tags that have logistic outputs are no words of W: their weights are those of the outputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.metrics import top_ranked

if TYPE_CHECKING:
    from supdocnade.scene.prediction import FittedScene

Floats = NDArray[np.floating]

N_TOPICS, N_WORDS, N_TAGS = 3, 4, 5
"""Numbers shown in the paper's figure."""


@dataclass(frozen=True, kw_only=True)
class WordAssociation:
    """A visual word associated with some topics."""

    word: int
    weight: float
    """Largest weight over its regions."""
    region_weights: tuple[float, ...]
    """Weight in every region."""


@dataclass(frozen=True, kw_only=True)
class Associations:
    """Visual words and tags associated with some topics, or with a class through its topics."""

    topics: tuple[int, ...]
    words: tuple[WordAssociation, ...]
    """Strongest first."""
    tags: tuple[tuple[str, float], ...]
    """Strongest first, with their weights."""
    label: str = ""
    """Name of the class."""
    topic_weights: tuple[float, ...] = ()
    """Weights of the topics for the class, in U."""


def associate(
    components_HK: Floats,
    topics: Sequence[int],
    tag_names: Sequence[str],
    *,
    n_visual_words: int,
    n_words: int = N_WORDS,
    n_tags: int = N_TAGS,
) -> Associations:
    """Return the visual words and tags with the largest mean weight over some topics.

    Parameters
    ----------
    components_HK : weights, topics × (regions · visual words, then tags).
    topics : topics whose weights are averaged.
    tag_names : names of the last columns.
    n_visual_words : number of visual words per region.
    n_words, n_tags : numbers to return.
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


def topic_associations(fitted: "FittedScene", topics: Sequence[int]) -> Associations:
    """Return the associations of some topics of a model."""
    return associate(
        fitted.network.joint_weights,
        topics,
        fitted.tag_names,
        n_visual_words=fitted.encoder.n_words,
    )


def class_associations(fitted: "FittedScene", n_topics: int = N_TOPICS) -> tuple[Associations, ...]:
    """Return the associations of every class of a model; none for a model without classes."""
    if not fitted.classes:
        return ()
    weight_CH = fitted.network["label_weight"]
    found = []
    for number, topics_X in enumerate(top_ranked(weight_CH, n_topics)):
        each = topic_associations(fitted, topics_X.tolist())
        found.append(
            replace(
                each,
                label=fitted.classes[number],
                topic_weights=tuple(weight_CH[number, topics_X].tolist()),
            )
        )
    return tuple(found)
