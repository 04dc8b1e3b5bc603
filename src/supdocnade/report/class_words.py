"""Visual words and tags of classes and topics.

The visual words of a class are those whose counts correlate most with it: its photographs have them
more often than others. A visual word is ranked by its best region. Topics are those of the model's
rotation of the topic features, and their visual words are found in the same way. The paper averages
W over the three hidden units with the largest weights of the class in U; the patches of such words
are often on no photograph of the class.

Tags are counted: a tag is shown with its share of the photographs of a class, beside its share of
the others, since tags with large averages in W may be on no photograph of the class. The tags and
classes of a topic are counted in the tenth of the training photographs that have most of it.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.images.decode import encode
from supdocnade.metrics import count_correlation, top_ranked

if TYPE_CHECKING:
    from supdocnade.scene.prediction import FittedScene

Floats = NDArray[np.floating]

N_TOPICS, N_WORDS, N_TAGS, N_CLASSES = 3, 4, 5, 3
"""Numbers shown in the paper's figure, and of the classes of a topic."""

ACTIVE_SHARE = 0.1
"""Share of the photographs that count as photographs of a topic."""


def mean_words(weight_HK: Floats, topics: Sequence[int], n_visual_words: int) -> list[int]:
    """Return the visual words with the largest mean weight over some topics, strongest first.

    A word has a weight in every region; the largest counts.

    Parameters
    ----------
    weight_HK : weights or correlations, topics × (regions · visual words).
    topics : topics whose weights are averaged.
    n_visual_words : number of visual words per region.
    """
    mean_K = weight_HK[list(topics)].astype(np.float64).mean(axis=0)
    best_W = mean_K.reshape(-1, n_visual_words).max(axis=0)
    words: list[int] = top_ranked(best_W[None], N_WORDS)[0].tolist()
    return words


def topic_words(fitted: "FittedScene") -> list[list[int]]:
    """Return the visual words of every topic of a model, as `mean_words` does."""
    counts = fitted.damp(fitted.training_set.counts)
    scores_RK = count_correlation(_topics(fitted), [counts])
    n_words = fitted.encoder.n_words
    return [mean_words(scores_RK, [topic], n_words) for topic in range(len(scores_RK))]


def _topics(fitted: "FittedScene") -> Floats:
    """Return the topics of the training photographs, (photographs, topics)."""
    return fitted.rotation.rotate(fitted.topics_BH)


def class_topics(fitted: "FittedScene") -> list[list[int]]:
    """Return the topics that support every class of a model most; none without U."""
    if not fitted.network.n_classes:
        return [[]] * len(fitted.classes)
    weight_CR = fitted.rotation.rotate_weights(fitted.network["label_weight"])
    topics: list[list[int]] = top_ranked(weight_CR, N_TOPICS).tolist()
    return topics


def class_words(fitted: "FittedScene") -> list[list[int]]:
    """Return the visual words that set every class apart; none if there is only one class."""
    training_set, n_classes = fitted.training_set, len(fitted.classes)
    if n_classes < 2:
        return [[]] * n_classes
    label_N1 = training_set.photographs.label_numbers(fitted.classes)[:, None]
    members_NC = (label_N1 == np.arange(n_classes)).astype(np.float64)
    scores_CK = count_correlation(members_NC, [fitted.damp(training_set.counts)])
    return [mean_words(scores_CK, [each], fitted.encoder.n_words) for each in range(n_classes)]


@dataclass(frozen=True, eq=False)
class Frequencies:
    """How often tags or classes occur in groups of photographs, and elsewhere."""

    names: tuple[str, ...]
    share_GX: NDArray[np.float64]
    """(groups, names); 0 for a group without photographs."""
    elsewhere_GX: NDArray[np.float64]
    """(groups, names); NaN if no photograph is elsewhere."""

    @classmethod
    def count(
        cls,
        members_NG: NDArray[np.bool_],
        present_NX: sparse.csr_array,
        names: Sequence[str],
    ) -> "Frequencies":
        """Count names in groups of photographs.

        Parameters
        ----------
        members_NG : (photographs, groups) True where a photograph belongs to a group.
        present_NX : (photographs, names), 1 where a photograph has a tag or class.
        """
        inside_GX = np.asarray(present_NX.T @ members_NG.astype(np.float64)).T
        total_X = np.asarray(present_NX.sum(axis=0), np.float64).reshape(-1)
        size_G = members_NG.sum(axis=0)[:, None].astype(np.float64)
        with np.errstate(invalid="ignore"):
            elsewhere_GX = (total_X - inside_GX) / (len(members_NG) - size_G)
        return cls(tuple(names), inside_GX / np.maximum(size_G, 1), elsewhere_GX)

    @cached_property
    def excess_GX(self) -> NDArray[np.float64]:
        """Difference between the share in a group and elsewhere, by which names are ranked."""
        return self.share_GX - np.nan_to_num(self.elsewhere_GX)

    def of_group(self, group: int, limit: int = N_TAGS) -> list[dict[str, Any]]:
        """Return the names that set a group apart most, the most frequent one first.

        Each is more frequent in the group than elsewhere. It comes with its `share` of the
        photographs of the group, and of those `elsewhere`, None if there are none.
        """
        share_X, elsewhere_X = self.share_GX[group], self.elsewhere_GX[group]
        excess_X = self.excess_GX[group]
        best = [x for x in top_ranked(excess_X[None], limit)[0].tolist() if excess_X[x] > 0]
        return [
            {
                "name": self.names[x],
                "share": float(share_X[x]),
                "elsewhere": None if np.isnan(elsewhere_X[x]) else float(elsewhere_X[x]),
            }
            for x in sorted(best, key=lambda x: -share_X[x])
        ]

    def of_name(self, name: int, limit: int) -> list[int]:
        """Return the groups that a name sets apart most."""
        excess_G = self.excess_GX[:, name]
        best = top_ranked(excess_G[None], limit)[0].tolist()
        return [group for group in best if excess_G[group] > 0]


def class_frequencies(fitted: "FittedScene") -> Frequencies:
    """Return how often every tag occurs in the training photographs of every class."""
    photographs = fitted.training_set.photographs
    tags = AnnotationVocabulary(fitted.tag_names).encode(photographs.tags)
    labelled, members_NC = photographs.class_members(fitted.classes)
    tagged = photographs.tagged_B[labelled]
    return Frequencies.count(members_NC[tagged], tags[labelled[tagged]], fitted.tag_names)


def topic_frequencies(fitted: "FittedScene") -> tuple[Frequencies, Frequencies]:
    """Return how often every tag and every class occurs in the photographs of every topic."""
    topics_NR, photographs = _topics(fitted), fitted.training_set.photographs
    tags = AnnotationVocabulary(fitted.tag_names).encode(photographs.tags)
    tagged = np.flatnonzero(photographs.tagged_B)
    of_tags = Frequencies.count(most_active(topics_NR[tagged]), tags[tagged], fitted.tag_names)
    labelled, members_NC = photographs.class_members(fitted.classes)
    present_NC = sparse.csr_array(members_NC)
    return of_tags, Frequencies.count(
        most_active(topics_NR[labelled]), present_NC.astype(np.int64), fitted.classes
    )


def most_active(hidden_NH: Floats) -> NDArray[np.bool_]:
    """Return the tenth of the photographs that have most of each topic, (photographs, topics)."""
    n_rows, n_topics = hidden_NH.shape
    chosen_NH = np.zeros((n_rows, n_topics), np.bool_)
    best_HX = top_ranked(hidden_NH.T, int(np.ceil(ACTIVE_SHARE * n_rows)))
    np.put_along_axis(chosen_NH, best_HX.T, True, axis=0)
    return chosen_NH & (hidden_NH > 0)


def describe_classes(fitted: "FittedScene") -> list[dict[str, Any]]:
    """Return every class with its topics and tags."""
    counts, tags = fitted.data.get("images_of_class", {}), class_frequencies(fitted)
    found = zip(fitted.classes, class_topics(fitted), strict=True)
    return [
        {
            "label": label,
            "n_images": counts.get(label, 0),
            "topics": topics,
            "tags": tags.of_group(number),
        }
        for number, (label, topics) in enumerate(found)
    ]


def describe_topics(
    fitted: "FittedScene", tags: Frequencies, classes: Frequencies
) -> list[dict[str, Any]]:
    """Return every topic with its tags and classes.

    Parameters
    ----------
    tags, classes : those of `topic_frequencies`.
    """
    return [
        {
            "topic": topic,
            "strength": float(strength),
            "tags": tags.of_group(topic),
            "classes": classes.of_group(topic, N_CLASSES),
        }
        for topic, strength in enumerate(fitted.rotation.strength_R)
    ]


COLUMNS = 4
EMPTY = 128
"""Grey level of a cell without a patch."""


def jpeg_uri(content: bytes) -> str:
    """Return a JPEG file as a data URI."""
    return f"data:image/jpeg;base64,{b64encode(content).decode('ascii')}"


def mosaic(patches: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return patches side by side, four in a row and as many rows, (4 · side, 4 · side, 3).

    The patches are (up to 16, side, side, 3).
    """
    side = patches.shape[1]
    full = np.full((COLUMNS * COLUMNS, side, side, 3), EMPTY, np.uint8)
    full[: len(patches)] = patches[: len(full)]
    grid = full.reshape(COLUMNS, COLUMNS, side, side, 3)
    return grid.transpose(0, 2, 1, 3, 4).reshape(COLUMNS * side, COLUMNS * side, 3)


def mosaic_uri(patches: NDArray[np.uint8]) -> str:
    """Return the mosaic of some patches as a data URI."""
    return jpeg_uri(encode(mosaic(patches), "JPEG", quality=85))
