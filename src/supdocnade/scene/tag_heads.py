"""Scores that rank tags: by the topics of a photograph, optionally with a class term.

Tags are words of the topic model, as in the paper, which ranks them by p(a | v), or have one
logistic output each. The class of a photograph is informative, too: the score

    log p(a | v) + α log Σ_c p(c | v) share(a | c)

adds the share of a tag among all tags of a class, averaged over the classes by their probability.
α = 0 is the paper's ranking. These scores are renormalised over all tags of a photograph.

With logistic outputs the log odds of p(a | v) take the place of log p(a | v), and nothing is
renormalised: such a score can be compared between photographs.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, log_expit, log_softmax

from supdocnade.folders.tags import AnnotationVocabulary, Tags
from supdocnade.metrics import N_TAGS, f_measure, top_ranked
from supdocnade.model.inference import NetworkArrays, annotation_log_odds, annotation_log_proba
from supdocnade.scene.dataset import Photographs
from supdocnade.scene.heads import Floats, Score, TagHead

CLASS_TAG_WEIGHTS = (0.0, 0.5, 1.0, 2.0)
"""Candidates for α."""


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


def class_tag_shares(
    annotations: sparse.csr_array, label_N: NDArray[np.integer], n_classes: int
) -> Floats:
    """Return the share of every tag among all tags of a class, (classes, tags).

    Add-one smoothing, divided among all tags, keeps tags that no document of a class has possible;
    the shares of a class without any known tag are equal.

    Parameters
    ----------
    annotations : (documents, tags) counts.
    label_N : (documents,) class numbers; below 0: unknown.

    >>> class_tag_shares(sparse.csr_array([[1, 0], [1, 1], [0, 1]]), np.array([0, 0, -1]), 2)
    array([[0.625, 0.375],
           [0.5  , 0.5  ]])
    """
    known = np.flatnonzero(label_N >= 0)
    member_NC = np.eye(n_classes)[label_N[known]]
    share_CA: Floats = member_NC.T @ annotations[known] + 1 / annotations.shape[1]
    share_CA /= share_CA.sum(axis=1, keepdims=True)
    return share_CA


def photograph_tag_shares(
    photographs: Photographs, classes: Sequence[str], vocabulary: AnnotationVocabulary
) -> Floats | None:
    """Return `class_tag_shares` of photographs; None without classes or tags."""
    if not classes or not len(vocabulary):
        return None
    tags = vocabulary.encode(photographs.tags)
    return class_tag_shares(tags, photographs.label_numbers(classes), len(classes))


def add_class_term(log_p_BA: Floats, proba_BC: Floats, share_CA: Floats, weight: float) -> Floats:
    """Return log p(a | v) + weight · log Σ_c p(c | v) share(a | c), (B, A).

    Parameters
    ----------
    log_p_BA : (documents, tags) log p(a | v), or its log odds.
    proba_BC : (documents, classes) p(c | v).
    share_CA : of `class_tag_shares`.
    """
    # Class by class: a matrix product would round a row differently in another batch.
    mixed_BA = np.zeros_like(log_p_BA)
    for proba_B, share_A in zip(proba_BC.T, share_CA, strict=True):
        mixed_BA += proba_B[:, None] * share_A
    scores_BA: Floats = log_p_BA + weight * np.log(mixed_BA)
    return scores_BA


def tag_scores(
    head: TagHead, scores_BA: Floats, proba_BC: Floats, share_CA: Floats, weight: float
) -> Floats:
    """Return the scores of tags with the class term, (B, A).

    Parameters
    ----------
    scores_BA : scores of the head.
    proba_BC, share_CA, weight : as for `add_class_term`.
    """
    if weight == 0:
        return scores_BA
    return head.normalize(add_class_term(scores_BA, proba_BC, share_CA, weight))


def choose_class_weight(
    head: TagHead,
    scores_BA: Floats,
    proba_BC: Floats,
    share_CA: Floats | None,
    present_BA: NDArray[np.bool_],
) -> tuple[float, Floats, float]:
    """Choose the α with the best F-measure of the five best tags. On a tie, prefer the smallest.

    Parameters
    ----------
    scores_BA : scores of the head.
    share_CA : None without classes.
    present_BA : of `present_tags`.

    Returns
    -------
    α, the scores of tags with it, (B, A), and their F-measure, 0 if no tag is present.
    """
    if not present_BA.any():
        return 0.0, scores_BA, 0.0
    found = []
    for weight in CLASS_TAG_WEIGHTS if share_CA is not None else (0.0,):
        ranked_BA = scores_BA
        if share_CA is not None:
            ranked_BA = tag_scores(head, scores_BA, proba_BC, share_CA, weight)
        found.append((weight, ranked_BA, f_measure(top_ranked(ranked_BA, N_TAGS), present_BA)))
    return max(found, key=lambda each: each[2])


def present_tags(tags: Sequence[Tags], vocabulary: AnnotationVocabulary) -> NDArray[np.bool_]:
    """Return the tags that photographs have, (photographs, tags).

    Columns for tags outside the vocabulary follow: they cannot be predicted, but count as missed.
    """
    others = sorted({*AnnotationVocabulary.of(tags).names} - {*vocabulary.names})
    whole = AnnotationVocabulary((*vocabulary.names, *others))
    present_BX: NDArray[np.bool_] = whole.encode(tags).toarray() > 0
    return present_BX


def tag_frequency(photographs: Photographs, vocabulary: AnnotationVocabulary) -> Floats:
    """Return the share of the photographs with known tags that have each tag, (tags,)."""
    total_A = vocabulary.encode(photographs.tags).sum(axis=0)
    frequency_A: Floats = total_A / max(int(photographs.tagged_B.sum()), 1)
    return frequency_A
