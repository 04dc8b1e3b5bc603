"""Outputs of tags of a topic model: words, as in the paper, or one logistic output for each."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax

from supdocnade.model.inference import NetworkArrays, annotation_log_odds, annotation_log_proba
from supdocnade.scene.heads import Floats, Score, TagHead


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
