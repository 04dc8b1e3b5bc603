"""Attribution: the share of every patch of a photograph in the score of a class or a tag.

The share of a word is its integrated gradient along a(t) = c + t (G f + Σ_k x_k W[v_k]) and t f,
from a photograph without words and with average features (t = 0) to the whole one (t = 1). The
features f, which only networks give, are the mean of the features of patches, so their share is
divided among the patches of every map; if they come from a class token instead, they have one share
together. Shares add up to score(photograph) - score(photograph at t = 0).
The path is integrated numerically between the kinks of ReLU units, where the score is smooth.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from supdocnade.checks import check_known
from supdocnade.errors import InvalidArgument
from supdocnade.folders.tags import spell_tag
from supdocnade.images.reading import image_errors
from supdocnade.model.inference import NetworkArrays
from supdocnade.scene.class_heads import Score
from supdocnade.scene.prediction import FittedScene, Prediction, predict_compared
from supdocnade.scene.references import Compared
from supdocnade.text import format_percent
from supdocnade.visual_words.describer import NetworkDescriber
from supdocnade.visual_words.encoder import EncodedImage, count_words

Floats = NDArray[np.float64]

MIN_INTERVALS = 32
"""Intervals of the integral before those that the kinks of ReLU units add."""

N_VOTERS, MIN_VOTE = 5, 0.01
"""Photographs that are named for a tag, and their smallest share of all votes."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(3)
"""Gauss-Legendre quadrature on [-1, 1]."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Explanation:
    """Attribution of one class or tag to the patches of a photograph.

    The shares of all patches and `global_share` add up to `whole - empty`, and so do the shares of
    all topics and `feature_share`.
    """

    kind: str
    """"label" or "tag"."""
    name: str
    probability: float
    """Probability of the class, or that the tag is present."""
    given: bool
    """True for the predicted class, and for a tag whose probability is at least the threshold."""
    decision: str
    """The probability and the decision in words, such as "4 %: not given, a tag needs 29 %"."""
    score: str
    """The score explained: the decision value of the SVM, or log p(tag), or the log odds of a tag
    with logistic outputs. Votes for a tag are not part of it: see `voters`."""
    share_S: Floats
    """(patches,) positive if the patch supports the class or tag."""
    centres_S2: NDArray[np.float32]
    """(patches, 2): y and x, in pixels of the photograph as it was read."""
    patch_size_S: NDArray[np.int32]
    size: tuple[int, int]
    """Height and width of the photograph as it was read."""
    topic_share_H: Floats
    """(topics,)."""
    feature_share: float
    """Share of the features that the classifier takes directly, beside the topics."""
    empty: float
    """The score of a photograph without words and with average features."""
    whole: float
    """The score of the photograph."""
    global_share: float = 0.0
    """Share of the features of the whole photograph, unless it is divided among the patches."""
    voters: tuple[tuple[str, float], ...] = ()
    """Names of the training photographs that vote most for a tag, with their shares of votes."""


class Attribution(NamedTuple):
    """The score of a photograph, divided among its words and features, and among its topics."""

    share_V: Floats
    """(words,)."""
    slope_F: Floats
    """(features,) factors of the features in their share."""
    topic_share_H: Floats
    feature_share: float
    """Share of the features beside the topics."""
    empty: float
    whole: float


def explain_image(
    fitted: FittedScene,
    image: Any,
    *,
    label: str | None = None,
    tag: str | None = None,
    name: str = "",
    device: str = "cpu",
) -> Explanation:
    """Explain the score of a class or of a tag.

    Parameters
    ----------
    label : a class. By default, the predicted class, unless `tag` is given.
    tag : a tag, instead of a class.
    name : of the image, for errors.
    device : on which a network that describes photographs runs.
    """
    if label is not None and tag is not None:
        raise InvalidArgument("label and tag must not both be given.")
    with image_errors(name or "the image"):
        encoded = fitted.encoder.encode(image, name, device)
    raw = count_words([encoded.ids], fitted.encoder.n_features)
    counts = fitted.damp(raw)
    photographs = fitted.compare([encoded.words])
    if tag is None:
        kind, chosen = "label", _choose_class_score(fitted, photographs, label)
    else:
        kind, chosen = "tag", _choose_tag_score(fitted, tag)
    explained, description, score = chosen
    words_V, amount_V = counts.indices.astype(np.int64), counts.data.astype(np.float64)
    found = attribute_score(fitted.network, words_V, amount_V, score, encoded.features_F)
    patches = _divide_among_patches(fitted, image, name, device, encoded, raw, found)
    (prediction,) = predict_compared(fitted, [name], photographs)
    probability, given, decision = _describe_decision(
        prediction, kind, explained, fitted.tag_threshold
    )
    return Explanation(
        kind=kind,
        name=explained,
        probability=probability,
        given=given,
        decision=decision,
        score=description,
        size=encoded.size,
        topic_share_H=found.topic_share_H,
        feature_share=found.feature_share,
        empty=found.empty,
        whole=found.whole,
        **patches,
        voters=() if kind == "label" else _find_voters(fitted, photographs, explained),
    )


def _divide_among_patches(
    fitted: FittedScene,
    image: Any,
    name: str,
    device: str,
    encoded: EncodedImage,
    raw: sparse.csr_array,
    found: Attribution,
) -> dict[str, Any]:
    """Return the fields of an `Explanation` about patches.

    Parameters
    ----------
    raw : counts of the words of the photograph.
    """
    # The share of a word is divided among the patches with that word.
    share_K = np.zeros(fitted.encoder.n_features)
    count_K = np.ones_like(share_K)
    share_K[fitted.damp(raw).indices] = found.share_V
    count_K[raw.indices] = raw.data
    share_N = (share_K / count_K)[encoded.ids]
    share_S: Floats = np.zeros(len(encoded.words_SM))
    np.add.at(share_S, encoded.patch_of_id, share_N)
    centres_S2, patch_size_S, global_share = encoded.centres_S2, encoded.patch_size_S, 0.0
    if encoded.features_F is not None:
        describer = fitted.encoder.describer
        assert isinstance(describer, NetworkDescriber)
        parts = describer.divide_features(describer.read(image, name), device)
        if parts is None:
            global_share = float(encoded.features_F @ found.slope_F)
        else:
            slopes = np.split(found.slope_F, np.cumsum(fitted.encoder.map_width)[:-1])
            shares = [
                each.values_SD @ slope_D / len(each.values_SD)
                for each, slope_D in zip(parts, slopes, strict=True)
            ]
            shares[0] += share_S  # The words are those of the patches of the first map.
            share_S = np.concatenate(shares)
            centres_S2 = np.concatenate([each.centres_S2 for each in parts])
            patch_size_S = np.concatenate([each.patch_size_S for each in parts])
    if fitted.encoder.mirror:
        share_S, centres_S2, patch_size_S = _add_mirrored(encoded, share_S)
    return {
        "share_S": share_S,
        "centres_S2": centres_S2,
        "patch_size_S": patch_size_S,
        "global_share": global_share,
    }


def _find_voters(
    fitted: FittedScene, photographs: Compared, tag: str
) -> tuple[tuple[str, float], ...]:
    """Return the photographs that vote most for a tag, with their shares of all votes."""
    if fitted.votes is None:
        return ()
    found = fitted.votes.voters(photographs.distance_BN[0], fitted.tag_names.index(tag))
    names = fitted.training_set.photographs.names
    return tuple(
        (names[fitted.reference_rows[row]], share)
        for row, share in found[:N_VOTERS]
        if share >= MIN_VOTE
    )


def _describe_decision(
    prediction: Prediction, kind: str, name: str, tag_threshold: float
) -> tuple[float, bool, str]:
    """Return the probability of a class or tag, if it was given, and both in words."""
    reason = ""
    if kind == "tag":
        probability = dict(prediction.ranked_tags)[name]
        given = name in dict(prediction.tags)
        if not given:
            reason = f": not given, a tag needs {format_percent(tag_threshold)}"
    else:
        probability = prediction.probabilities[name]
        given = name == prediction.label
        if not given:
            largest = format_percent(max(prediction.probabilities.values()))
            reason = f": not predicted, {prediction.label} has {largest}"
        elif prediction.unsure:
            reason = ", unsure"
    return probability, given, f"{format_percent(probability)}{reason}"


def _add_mirrored(
    encoded: EncodedImage, share_S: Floats
) -> tuple[Floats, NDArray[np.float32], NDArray[np.int32]]:
    """Return shares, centres and sizes of patches; a mirrored patch is added to its original."""
    places_S3 = np.column_stack([encoded.centres_S2, encoded.patch_size_S])
    # The centre of a mirrored patch may differ in the last bits.
    _, first, place_S = np.unique(
        places_S3.round(1), axis=0, return_index=True, return_inverse=True
    )
    share_P = np.zeros(len(first))
    np.add.at(share_P, place_S.ravel(), share_S)
    return share_P, encoded.centres_S2[first], encoded.patch_size_S[first]


def attribute_score(
    network: NetworkArrays,
    words_V: NDArray[np.int64],
    amount_V: Floats,
    score: Score,
    features_F: NDArray[np.float32] | None = None,
) -> Attribution:
    """Divide the score of a photograph.

    Parameters
    ----------
    words_V : the different words of the photograph.
    amount_V : how often each of them counts.
    features_F : features of the whole photograph.
    """
    W_VH = network["word_embedding"][words_V].astype(np.float64)
    bias_H = network["hidden_bias"].astype(np.float64)
    activation = str(network.config.activation)
    total_H, G_HF, f_F = amount_V @ W_VH, np.empty((len(bias_H), 0)), np.empty(0)
    if features_F is not None:
        G_HF, f_F = network["global_weight"].astype(np.float64), features_F.astype(np.float64)
        total_H = total_H + G_HF @ f_F
    t_Q, width_Q = _divide_path(bias_H, total_H, activation)
    ends = np.array([0.0, 1.0])

    def vectors(a_QH: Floats, t_Q: Floats) -> Floats:
        return np.hstack([_activate(a_QH, activation), np.outer(t_Q, f_F)])

    a_QH = bias_H + np.outer(t_Q, total_H)
    slope_QX = score.gradient(vectors(a_QH, t_Q))
    slope_H = width_Q @ (slope_QX[:, : len(bias_H)] * _derivative(a_QH, activation))
    direct_F = width_Q @ slope_QX[:, len(bias_H) :]
    empty, whole = score.value(vectors(bias_H + np.outer(ends, total_H), ends)).tolist()
    return Attribution(
        share_V=amount_V * (W_VH @ slope_H),
        slope_F=slope_H @ G_HF + direct_F,
        topic_share_H=total_H * slope_H,
        feature_share=float(direct_F @ f_F),
        empty=empty,
        whole=whole,
    )


def _divide_path(bias_H: Floats, total_H: Floats, activation: str) -> tuple[Floats, Floats]:
    """Return the nodes of the integral along the path, and their weights, (Q,)."""
    edges = np.linspace(0.0, 1.0, MIN_INTERVALS + 1)
    if activation == "relu":
        with np.errstate(divide="ignore", invalid="ignore"):
            kinks = -bias_H / total_H
        edges = np.concatenate([edges, kinks[(kinks > 0) & (kinks < 1)]])
    edges = np.unique(edges)
    half = 0.5 * np.diff(edges)
    t_Q = (edges[:-1, None] + np.outer(half, NODES + 1)).ravel()
    return t_Q, np.outer(half, WEIGHTS).ravel()


def _choose_class_score(
    fitted: FittedScene, photographs: Compared, label: str | None
) -> tuple[str, str, Score]:
    """Return the class to explain, a description of its score, and the score."""
    head = fitted.class_head
    if head is None:
        n_classes = "one class" if fitted.classes else "no classes"
        raise InvalidArgument(f"this model knows {n_classes}; give a tag to explain.")
    if label is None:
        label = fitted.classes[int(head.scores(photographs)[0].argmax())]
    check_known("label", label, fitted.classes)
    score = head.explain(fitted.classes.index(label), photographs.references)
    return label, head.explained, score


def _choose_tag_score(fitted: FittedScene, tag: str) -> tuple[str, str, Score]:
    """Return the tag to explain, a description of its score, and the score."""
    name = spell_tag(tag, fitted.tag_names)
    check_known("tag", name, fitted.tag_names)
    of_topics = fitted.tag_head.explain(fitted.tag_names.index(name))
    n_topics = fitted.network.config.n_topics

    def gradient(vector_QX: Floats) -> Floats:
        slope_QX = np.zeros_like(vector_QX)
        slope_QX[:, :n_topics] = of_topics.gradient(vector_QX[:, :n_topics])
        return slope_QX

    score = Score(lambda vector_QX: of_topics.value(vector_QX[:, :n_topics]), gradient)
    return name, fitted.tag_head.describe(name), score


def _activate(a: Floats, activation: str) -> Floats:
    if activation == "relu":
        return np.maximum(a, 0)
    result: Floats = np.tanh(a) if activation == "tanh" else expit(a)
    return result


def _derivative(a: Floats, activation: str) -> Floats:
    if activation == "relu":
        return (a > 0).astype(np.float64)
    h = _activate(a, activation)
    return 1 - h * h if activation == "tanh" else h * (1 - h)
