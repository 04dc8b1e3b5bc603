"""Scores of tags: by the topic model, and by votes of the training photographs that are nearest.

Tags are words of the topic model, as in the paper, which ranks them by p(a | v), or have one
logistic output each. Then the log odds take the place of log p(a | v): such a score can be compared
between photographs.

The vote for a tag is the share of the weight of the neighbours that have it. A neighbour at the
squared distance d² weighs exp(-(d² - d²_min) / (spread · median of the d²)). Rare tags, whose
outputs see few examples, gain most by the votes.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, log_expit, log_softmax

from supdocnade.folders.tags import AnnotationVocabulary, Tags
from supdocnade.model.inference import NetworkArrays, annotation_log_odds, annotation_log_proba
from supdocnade.scene.calibration import logit
from supdocnade.scene.class_heads import Floats, Score
from supdocnade.scene.dataset import Photographs
from supdocnade.schema import array, stored

N_NEIGHBOURS = 200

FREQUENCY_WEIGHT = 0.02
"""Weight of the frequencies of all tags beside the votes, so that no share is 0."""


@dataclass(frozen=True, eq=False)
class TagHead(ABC):
    """Outputs of tags of a topic model."""

    name: ClassVar[str]
    """Value of the setting `annotation_output`."""

    network: NetworkArrays

    @abstractmethod
    def scores(self, topics_BH: NDArray[np.floating]) -> Floats:
        """Return the scores of all tags, which rank them, (B, A)."""

    @staticmethod
    @abstractmethod
    def add_votes(scores_BA: Floats, share_BA: Floats, weight: float) -> Floats:
        """Return scores as a mixture of the model's and of the shares of votes, (B, A).

        Parameters
        ----------
        share_BA : shares of votes, above 0 and below 1.
        weight : of the votes; 0 returns the scores.
        """

    @staticmethod
    def expected_offset(frequency_A: Floats) -> float:
        """Return the offset of a calibration before it is fitted.

        Parameters
        ----------
        frequency_A : share of the photographs that have each tag.
        """
        return 0.0

    @staticmethod
    @abstractmethod
    def describe(tag: str) -> str:
        """Return the score of a tag in words."""

    @abstractmethod
    def explain(self, number: int) -> Score:
        """Return the score of a tag as a differentiable function of the topics alone.

        It may differ from `scores` by a number that is the same for all tags of a document.
        """


class WordTags(TagHead):
    """Tags as words of the topic model, as in the paper: scores are log p(tag | photograph)."""

    name = "words"

    def scores(self, topics_BH: NDArray[np.floating]) -> Floats:
        """Return log p(tag | photograph), renormalised over all tags, (B, A)."""
        return annotation_log_proba(self.network, topics_BH, normalize=True)

    @staticmethod
    def add_votes(scores_BA: Floats, share_BA: Floats, weight: float) -> Floats:
        """Return (1 - w) log p + w log share, renormalised over all tags, (B, A)."""
        mixed_BA = (1 - weight) * scores_BA + weight * np.log(share_BA)
        normalized_BA: Floats = log_softmax(mixed_BA, axis=1)
        return normalized_BA

    @staticmethod
    def expected_offset(frequency_A: Floats) -> float:
        """Return the logarithm of the number of tags that a photograph has on average."""
        return float(np.log(max(frequency_A.sum(), 1e-4)))

    @staticmethod
    def describe(tag: str) -> str:
        """Return log p(tag)."""
        return f"log p({tag})"

    def explain(self, number: int) -> Score:
        """Return log p(next word = tag | document)."""
        network, word = self.network, self.network.config.n_visual_words + number
        V_TH, b_T = (network[name].astype(np.float64) for name in ("node_weight", "node_bias"))
        if network.tree is None:

            def log_proba(hidden_QH: Floats) -> Floats:
                log_p_QK: Floats = log_softmax(hidden_QH @ V_TH.T + b_T, axis=1)
                return log_p_QK

            return Score(
                lambda hidden_QH: log_proba(hidden_QH)[:, word],
                lambda hidden_QH: V_TH[word] - np.exp(log_proba(hidden_QH)) @ V_TH,
            )
        nodes_L, signs_L = (paths[word] for paths in network.tree.paths)
        nodes_L, signs_L = nodes_L[signs_L != 0], signs_L[signs_L != 0]
        V_LH, b_L = signs_L[:, None] * V_TH[nodes_L], signs_L * b_T[nodes_L]
        return Score(
            lambda hidden_QH: log_expit(hidden_QH @ V_LH.T + b_L).sum(axis=1),
            lambda hidden_QH: expit(-(hidden_QH @ V_LH.T + b_L)) @ V_LH,
        )


class LogisticTags(TagHead):
    """One logistic output for every tag: scores are log odds, comparable between photographs."""

    name = "sigmoid"

    def scores(self, topics_BH: NDArray[np.floating]) -> Floats:
        """Return the log odds of p(tag | photograph), (B, A)."""
        return annotation_log_odds(self.network, topics_BH)

    @staticmethod
    def add_votes(scores_BA: Floats, share_BA: Floats, weight: float) -> Floats:
        """Return (1 - w) log odds + w log odds of the share, (B, A)."""
        return (1 - weight) * scores_BA + weight * logit(share_BA)

    @staticmethod
    def describe(tag: str) -> str:
        """Return logit p(tag)."""
        return f"logit p({tag})"

    def explain(self, number: int) -> Score:
        """Return the log odds of a tag, (T h + e)[number]."""
        T_H = self.network["tag_weight"][number].astype(np.float64)
        e = float(self.network["tag_bias"][number])
        return Score(
            lambda hidden_QH: hidden_QH @ T_H + e,
            lambda hidden_QH: np.tile(T_H, (len(hidden_QH), 1)),
        )


TAG_HEADS: dict[str, type[TagHead]] = {each.name: each for each in (WordTags, LogisticTags)}


def tag_head(network: NetworkArrays) -> TagHead:
    """Return the outputs of tags of a topic model."""
    config = network.config
    return TAG_HEADS[config.annotation_output if config.n_annotation_words else "words"](network)


def present_tags(tags: Sequence[Tags], vocabulary: AnnotationVocabulary) -> NDArray[np.bool_]:
    """Return the tags that photographs have, (photographs, tags).

    Columns for tags outside the vocabulary follow: they cannot be predicted, but count as missed.
    """
    others = [name for name in AnnotationVocabulary.of(tags).names if name not in vocabulary]
    whole = AnnotationVocabulary((*vocabulary.names, *others))
    present_BX: NDArray[np.bool_] = whole.encode(tags).toarray() > 0
    return present_BX


def tag_frequency(photographs: Photographs, vocabulary: AnnotationVocabulary) -> Floats:
    """Return the share of the photographs with known tags that have each tag, (tags,)."""
    total_A = vocabulary.encode(photographs.tags).sum(axis=0)
    frequency_A: Floats = total_A / max(int(photographs.tagged_B.sum()), 1)
    return frequency_A


@dataclass(frozen=True, eq=False, kw_only=True)
class TagVotes:
    """Training photographs with known tags, which vote for those of other photographs."""

    row_T: NDArray[np.int64] = array("T", np.int64, least=0)
    """Numbers of these photographs among the references."""
    has_TA: sparse.csr_array = array("TA", np.int64, least=1)
    """(photographs, tags), 1 where a photograph has a tag."""
    spread: float = stored(above=0)
    weight: float = stored(least=0, most=1)
    """Weight of the votes beside the outputs of the model."""

    def weights(self, distance_N: NDArray[np.floating]) -> tuple[NDArray[np.int64], Floats]:
        """Return the nearest of these photographs, nearest first, and their weights, with sum 1.

        Parameters
        ----------
        distance_N : squared distances of a photograph from the references.
        """
        distance_T = distance_N[self.row_T].astype(np.float64)
        n_nearest = min(N_NEIGHBOURS, len(distance_T))
        nearest = np.argpartition(distance_T, n_nearest - 1)[:n_nearest]
        nearest = nearest[np.lexsort((nearest, distance_T[nearest]))]
        away = distance_T[nearest]
        width = max(self.spread * float(np.median(away)), np.finfo(np.float64).tiny)
        weight_V = np.exp(-(away - away[0]) / width)
        return nearest, weight_V / weight_V.sum()

    def shares(self, distance_BN: NDArray[np.floating], frequency_A: Floats) -> Floats:
        """Return the share of every tag among the votes, (B, A), above 0.

        Parameters
        ----------
        frequency_A : share of the training photographs that have each tag.
        """
        share_BA = np.empty((len(distance_BN), self.has_TA.shape[1]))
        for row, distance_N in enumerate(distance_BN):
            nearest, weight_V = self.weights(distance_N)
            share_BA[row] = weight_V @ self.has_TA[nearest]
        return (1 - FREQUENCY_WEIGHT) * share_BA + FREQUENCY_WEIGHT * frequency_A

    def voters(self, distance_N: NDArray[np.floating], tag: int) -> list[tuple[int, float]]:
        """Return the photographs that vote for a tag, with their share of all votes, best first.

        They are numbers of references.
        """
        nearest, weight_V = self.weights(distance_N)
        has_V = np.asarray(self.has_TA[nearest][:, [tag]].todense()).ravel() > 0
        chosen = np.flatnonzero(has_V)
        return [(int(self.row_T[nearest[v]]), float(weight_V[v])) for v in chosen]


def fit_votes(
    photographs: Photographs,
    vocabulary: AnnotationVocabulary,
    spread: float = 0.1,
    weight: float = 0.0,
) -> TagVotes | None:
    """Return the references that vote for tags; None if the tags of none of them are known."""
    rows = np.flatnonzero(photographs.tagged_B)
    if not len(vocabulary) or not len(rows):
        return None
    present_TA = vocabulary.encode(photographs.take(rows).tags) > 0
    has_TA = sparse.csr_array(present_TA, dtype=np.int64)
    return TagVotes(row_T=rows, has_TA=has_TA, spread=spread, weight=weight)
