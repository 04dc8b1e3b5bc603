"""Scores and probabilities of tags by the topics: each kind of output of tags is one class.

`tag_head` in `heads` returns that of a topic model.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax

from supdocnade.model.inference import NetworkArrays, annotation_log_odds, annotation_log_proba
from supdocnade.scene.calibration import TagCalibration
from supdocnade.scene.class_heads import Score

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TagHead(ABC):
    """Outputs of tags of a topic model."""

    name: ClassVar[str]
    """Value of the setting `annotation_output`."""

    network: NetworkArrays

    @abstractmethod
    def scores(self, hidden_BH: NDArray[np.float32]) -> Floats:
        """Return the scores of all tags, which rank them, (B, A)."""

    @staticmethod
    @abstractmethod
    def normalize(scores_BA: Floats) -> Floats:
        """Return scores to which a term was added, as comparable as those of `scores`, (B, A)."""

    @staticmethod
    @abstractmethod
    def uncalibrated(scores_BA: Floats) -> Floats:
        """Return the probability that every tag is present, as the scores say, (B, A)."""

    @staticmethod
    @abstractmethod
    def expected_offset(frequency_A: Floats) -> float:
        """Return the offset of a calibration before it is fitted.

        Parameters
        ----------
        frequency_A : share of the photographs that have each tag.
        """

    @staticmethod
    @abstractmethod
    def describe(tag: str) -> str:
        """Return the score of a tag in words."""

    @abstractmethod
    def explain(self, number: int) -> Score:
        """Return the score of a tag as a differentiable function.

        It is that of `scores` but for a number that is the same for all tags of a document.
        """

    def probabilities(
        self, scores_BA: Floats, frequency_A: Floats, calibration: TagCalibration | None
    ) -> Floats:
        """Return the probability that every tag is present, (B, A).

        Parameters
        ----------
        scores_BA : those of `scores`, optionally with the class term.
        frequency_A : share of the photographs that have each tag.
        calibration : None: the scores as they are.
        """
        if calibration is None:
            return self.uncalibrated(scores_BA)
        return calibration.probability(scores_BA, frequency_A)


class WordTags(TagHead):
    """Tags as words of the topic model, as in the paper: scores are log p(tag | photograph)."""

    name = "words"

    def scores(self, hidden_BH: NDArray[np.float32]) -> Floats:
        """Return log p(tag | photograph), renormalised over all tags, (B, A)."""
        return annotation_log_proba(self.network, hidden_BH, normalize=True)

    @staticmethod
    def normalize(scores_BA: Floats) -> Floats:
        """Return scores renormalised over all tags of a photograph, (B, A)."""
        normalized_BA: Floats = log_softmax(scores_BA, axis=1)
        return normalized_BA

    @staticmethod
    def uncalibrated(scores_BA: Floats) -> Floats:
        """Return the exponentials of scores, (B, A)."""
        return np.exp(scores_BA)

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

    def scores(self, hidden_BH: NDArray[np.float32]) -> Floats:
        """Return the log odds of p(tag | photograph), (B, A)."""
        return annotation_log_odds(self.network, hidden_BH)

    @staticmethod
    def normalize(scores_BA: Floats) -> Floats:
        """Return the scores: log odds keep their level."""
        return scores_BA

    @staticmethod
    def uncalibrated(scores_BA: Floats) -> Floats:
        """Return the logistic function of scores, (B, A)."""
        probability_BA: Floats = expit(scores_BA)
        return probability_BA

    @staticmethod
    def expected_offset(frequency_A: Floats) -> float:
        """Return 0: the outputs are probabilities."""
        return 0.0

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
