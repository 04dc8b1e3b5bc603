"""Attribution: the share of every patch of a photograph in the score of a class or a tag.

The share of a word is its integrated gradient along a(t) = c + t (G f + Σ_k x_k W[v_k]), from the
empty document (t = 0) to the whole one (t = 1). The features f of the whole photograph, which only
networks give, are the mean of the features of its patches, so their share is divided among the
patches, too; if they come from a class token instead, they have one share together. Shares add up
to score(document) - score(empty document).
The path is integrated numerically between the kinks of ReLU units, where the score is smooth.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, logsumexp, softmax

from supdocnade.checks import check_known
from supdocnade.errors import InvalidArgument
from supdocnade.folders.tags import normalize_tag
from supdocnade.images.reading import image_errors
from supdocnade.model.inference import NetworkArrays
from supdocnade.scene.heads import ClassHead, Score
from supdocnade.scene.prediction import FittedScene, Prediction, predict_topics
from supdocnade.text import format_percent
from supdocnade.visual_words.describer import NetworkDescriber
from supdocnade.visual_words.encoder import EncodedImage, count_words

Floats = NDArray[np.float64]

MIN_INTERVALS = 32
"""Intervals of the integral before those that the kinks of ReLU units add."""

NODES, WEIGHTS = (
    0.5 * np.polynomial.legendre.leggauss(3)[0] + 0.5,
    0.5 * np.polynomial.legendre.leggauss(3)[1],
)
"""Gauss-Legendre quadrature on [0, 1]."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Explanation:
    """Attribution of one class or tag to the patches of a photograph.

    The shares of all patches and `global_share` add up to `whole - empty`, and so do the shares of
    all topics.
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
    """The score explained: the SVM's decision value, the softmax's logit, or the score of a tag:
    log p(tag), or its log odds with logistic outputs, optionally with the class term
    log p(tag | classes), the log of Σ p(class) · share of the tag among the tags of that class."""
    share_S: Floats
    """(patches,) positive if the patch supports the class or tag."""
    centres_S2: NDArray[np.float32]
    """(patches, 2): y and x, in pixels of the photograph as it was read."""
    patch_size_S: NDArray[np.int32]
    size: tuple[int, int]
    """Height and width of the photograph as it was read."""
    topic_share_H: Floats
    """(topics,)."""
    empty: float
    """The score of a photograph without patches."""
    whole: float
    """The score of the photograph."""
    global_share: float = 0.0
    """Share of the features of the whole photograph, unless it is divided among the patches."""


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
    hidden_BH = fitted.topics_of([encoded.words])
    if tag is None:
        kind, chosen = "label", _choose_class_score(fitted, hidden_BH, label)
    else:
        kind, chosen = "tag", _choose_tag_score(fitted, tag)
    explained, description, score = chosen
    words_V, amount_V = counts.indices.astype(np.int64), counts.data.astype(np.float64)
    features_F = encoded.features_F
    share_V, slope_F, topic_share_H, empty, whole = attribute_score(
        fitted.network, words_V, amount_V, score, features_F
    )
    # The share of a word is divided among the patches with that word.
    share_K = np.zeros(fitted.encoder.n_features)
    count_K = np.ones_like(share_K)
    share_K[words_V] = share_V
    count_K[raw.indices] = raw.data
    share_N = (share_K / count_K)[encoded.ids]
    share_S: Floats = np.zeros(len(encoded.words_SM))
    np.add.at(share_S, encoded.patch_of_id, share_N)
    global_share = 0.0
    if features_F is not None:
        describer = fitted.encoder.describer
        assert isinstance(describer, NetworkDescriber)
        parts_SF = describer.divide_features(describer.read(image, name), device)
        if parts_SF is None:
            global_share = float(features_F @ slope_F)
        else:
            # The patches of SIFT words come after those of the network.
            share_S[: len(parts_SF)] += parts_SF @ slope_F / len(parts_SF)
    centres_S2, patch_size_S = encoded.centres_S2, encoded.patch_size_S
    if fitted.encoder.mirror:
        share_S, centres_S2, patch_size_S = _add_mirrored(encoded, share_S)
    (prediction,) = predict_topics(fitted, [name], hidden_BH)
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
        share_S=share_S,
        centres_S2=centres_S2,
        patch_size_S=patch_size_S,
        size=encoded.size,
        topic_share_H=topic_share_H,
        empty=empty,
        whole=whole,
        global_share=global_share,
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
) -> tuple[Floats, Floats, Floats, float, float]:
    """Divide the score of a document among its words and features, and among its topics.

    Parameters
    ----------
    words_V : the different words of the document.
    amount_V : how often each of them counts.
    features_F : global features of the document.

    Returns
    -------
    The shares of the words, (V,), the factors of the features in their share, (F,), the shares of
    the topics, (H,), the score of an empty document and that of the document.
    """
    W_VH = network["word_embedding"][words_V].astype(np.float64)
    bias_H = network["hidden_bias"].astype(np.float64)
    activation = str(network.config.activation)
    total_H, G_HF = amount_V @ W_VH, np.empty((len(bias_H), 0))
    if features_F is not None:
        G_HF = network["global_weight"].astype(np.float64)
        total_H = total_H + G_HF @ features_F
    slope_H = _mean_slope(score, bias_H, total_H, activation)
    empty, whole = score.value(_activate(np.stack([bias_H, bias_H + total_H]), activation)).tolist()
    return amount_V * (W_VH @ slope_H), slope_H @ G_HF, total_H * slope_H, empty, whole


def _mean_slope(score: Score, bias_H: Floats, total_H: Floats, activation: str) -> Floats:
    """Return the mean of d score / d a along the path, (H,)."""
    edges = np.linspace(0.0, 1.0, MIN_INTERVALS + 1)
    if activation == "relu":
        with np.errstate(divide="ignore", invalid="ignore"):
            kinks = -bias_H / total_H
        edges = np.concatenate([edges, kinks[(kinks > 0) & (kinks < 1)]])
    edges = np.unique(edges)
    width_Q = np.outer(np.diff(edges), WEIGHTS).ravel()
    t_Q = (edges[:-1, None] + np.outer(np.diff(edges), NODES)).ravel()
    a_QH = bias_H + t_Q[:, None] * total_H
    slope_QH = score.gradient(_activate(a_QH, activation)) * _derivative(a_QH, activation)
    mean: Floats = width_Q @ slope_QH
    return mean


def _choose_class_score(
    fitted: FittedScene, hidden_BH: NDArray[np.float32], label: str | None
) -> tuple[str, str, Score]:
    """Return the class to explain, a description of its score, and the score."""
    head = fitted.class_head
    if head is None:
        raise InvalidArgument("this model knows no classes; give a tag to explain.")
    if label is None:
        label = fitted.classes[int(head.scores(hidden_BH)[0].argmax())]
    check_known("label", label, fitted.classes)
    return label, head.explained, head.explain(fitted.classes.index(label))


def _choose_tag_score(fitted: FittedScene, tag: str) -> tuple[str, str, Score]:
    """Return the tag to explain, a description of its score, and the score."""
    name = normalize_tag(tag)
    check_known("tag", name, fitted.tag_names)
    number = fitted.tag_names.index(name)
    description, score = fitted.tag_head.describe(name), fitted.tag_head.explain(number)
    if fitted.class_head is not None and fitted.class_tag_share_CA is not None:
        weight = fitted.choices.class_tag_weight
        share_C = fitted.class_tag_share_CA[:, number]
        term = class_term_score(fitted.class_head, fitted.choices.temperature, share_C)
        score = score.add(term, weight)
        factor = "" if weight == 1 else f"{weight:g} "
        description += f" + {factor}log p({name} | classes)"
    return name, description, score


def class_term_score(head: ClassHead, temperature: float, share_C: Floats) -> Score:
    """Return log Σ_c p(c | document) share_c, the class term of a tag.

    Parameters
    ----------
    temperature : of p, the softmax of the class scores.
    share_C : share of the tag among the tags of every class.
    """
    log_share_C = np.log(share_C)

    def value(hidden_QH: Floats) -> Floats:
        log_p_QC = log_softmax(head.scores(hidden_QH) / temperature, axis=1)
        values: Floats = logsumexp(log_p_QC + log_share_C, axis=1)
        return values

    def gradient(hidden_QH: Floats) -> Floats:
        # d/df of log Σ p share = log Σ exp(f / T) share - log Σ exp(f / T), with class scores f.
        scaled_QC = head.scores(hidden_QH) / temperature
        slope_QC = softmax(scaled_QC + log_share_C, axis=1) - softmax(scaled_QC, axis=1)
        return head.gradient(hidden_QH, slope_QC / temperature)

    return Score(value, gradient)


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
