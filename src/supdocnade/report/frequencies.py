"""Tags and topics of classes, and tags and classes of topics.

Topics are those of the model's rotation of the topic features. A tag is shown with its share of the
photographs of a class, beside its share of the others: tags with large averages in W may be on no
photograph of the class. The tags and classes of a topic are counted in the tenth of the training
photographs that have most of it.
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
from supdocnade.metrics import top_ranked

if TYPE_CHECKING:
    from supdocnade.scene.prediction import FittedScene

Floats = NDArray[np.floating]

N_TOPICS, N_TAGS, N_CLASSES = 3, 5, 3
"""Topics of a class, tags of a class or topic, and classes of a topic."""

ACTIVE_SHARE = 0.1
"""Share of the photographs that count as photographs of a topic."""


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


def jpeg_uri(content: bytes) -> str:
    """Return a JPEG file as a data URI."""
    return f"data:image/jpeg;base64,{b64encode(content).decode('ascii')}"
