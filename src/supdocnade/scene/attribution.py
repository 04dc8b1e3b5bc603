"""How much every word of a document spoke for a score.

The share of a word is its integrated gradient along a(t) = c + t Σ_k x_k W[v_k], from the empty
document (t = 0) to the whole one (t = 1). Shares add up to score(document) - score(empty document).
With s = Σ_k x_k W[v_k], a score that is linear in the topics h = g(a) has a closed form for every
topic: the path's mean slope of g is (g(c + s) - g(c)) / s, or g'(c) where s = 0. Other scores are
integrated numerically, interval by interval between the kinks of ReLU units, within which all is
smooth.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, logsumexp, softmax

from supdocnade.errors import InvalidArgument
from supdocnade.folders.tags import normalize_tag
from supdocnade.likelihood.contract import Parameters
from supdocnade.model.network import DocNADENetwork, SupDocNADENetwork
from supdocnade.scene.prediction import FittedScene
from supdocnade.scene.svm import RBFSVM
from supdocnade.visual_words.encoder import count_words

Floats = NDArray[np.float64]

INTERVALS = 32
"""At least so many; kinks of ReLU units add their own."""

NODES, WEIGHTS = (
    0.5 * np.polynomial.legendre.leggauss(3)[0] + 0.5,
    0.5 * np.polynomial.legendre.leggauss(3)[1],
)
"""Gauss-Legendre on [0, 1]."""


class Evidence(NamedTuple):
    """What spoke for a score."""

    word_share_V: Floats
    """(words of the document,) adds up to `whole - empty`."""
    topic_share_H: Floats
    """(topics,) what went through every topic; adds up to the same."""
    empty: float
    """The score of a document without words."""
    whole: float
    """The score of the document."""


class Score(Protocol):
    """A function of the topics of a document."""

    def value(self, hidden_QH: Floats) -> Floats:
        """Return the scores of several documents, (Q,)."""
        ...

    def mean_slope(self, bias_H: Floats, total_H: Floats, activation: str) -> Floats:
        """Return the mean of d score / d a along the path, (H,)."""
        ...


@dataclass(frozen=True, eq=False)
class LinearScore:
    """weight · h + offset: a logit of the softmax classifier."""

    weight_H: Floats
    offset: float

    def value(self, hidden_QH: Floats) -> Floats:
        """See `Score`."""
        values: Floats = hidden_QH @ self.weight_H + self.offset
        return values

    def mean_slope(self, bias_H: Floats, total_H: Floats, activation: str) -> Floats:
        """See `Score`."""
        rise_H = _activate(bias_H + total_H, activation) - _activate(bias_H, activation)
        flat = total_H == 0
        slope_H = np.where(flat, _derivative(bias_H, activation), rise_H)
        slope_H /= np.where(flat, 1.0, total_H)
        return self.weight_H * slope_H


@dataclass(frozen=True, eq=False)
class SmoothScore:
    """Any differentiable function of the topics."""

    function: Callable[[Floats], Floats]
    gradient: Callable[[Floats], Floats]
    """From (Q, H) topics to (Q, H) derivatives."""

    def value(self, hidden_QH: Floats) -> Floats:
        """See `Score`."""
        return self.function(hidden_QH)

    def mean_slope(self, bias_H: Floats, total_H: Floats, activation: str) -> Floats:
        """See `Score`."""
        edges = np.linspace(0.0, 1.0, INTERVALS + 1)
        if activation == "relu":
            with np.errstate(divide="ignore", invalid="ignore"):
                kinks = -bias_H / total_H
            edges = np.concatenate([edges, kinks[(kinks > 0) & (kinks < 1)]])
        edges = np.unique(edges)
        width_Q = np.outer(np.diff(edges), WEIGHTS).ravel()
        t_Q = (edges[:-1, None] + np.outer(np.diff(edges), NODES)).ravel()
        a_QH = bias_H + t_Q[:, None] * total_H
        slope_QH = self.gradient(_activate(a_QH, activation)) * _derivative(a_QH, activation)
        mean: Floats = width_Q @ slope_QH
        return mean


def explain_score(
    network: DocNADENetwork, words_V: NDArray[np.int64], amount_V: Floats, score: Score
) -> Evidence:
    """Share out the score of a document among its words and topics.

    Parameters
    ----------
    words_V : the different words of the document.
    amount_V : how often each of them counts.
    """
    W_VH = network.word_embedding.detach().cpu().numpy()[words_V].astype(np.float64)
    bias_H = network.hidden_bias.detach().cpu().numpy().astype(np.float64)
    activation = network.config.activation
    total_H = amount_V @ W_VH
    slope_H = score.mean_slope(bias_H, total_H, activation)
    ends_2H = _activate(np.stack([bias_H, bias_H + total_H]), activation)
    empty, whole = score.value(ends_2H).tolist()
    return Evidence(amount_V * (W_VH @ slope_H), total_H * slope_H, empty, whole)


def svm_score(svm: RBFSVM, label: int) -> SmoothScore:
    """Return the decision value of a class."""

    chosen_C = np.eye(len(svm.intercept_C))[label]

    def gradient(hidden_QH: Floats) -> Floats:
        return np.stack([svm.gradient(hidden_H, chosen_C) for hidden_H in hidden_QH])

    return SmoothScore(lambda hidden_QH: svm.decide(hidden_QH)[:, label], gradient)


class ClassScores(Protocol):
    """The scores of all classes: an `RBFSVM`, or the logits of the softmax."""

    def decide(self, hidden_BH: Floats) -> Floats:
        """Return the scores of documents, (B, C)."""
        ...

    def gradient(self, hidden_H: Floats, weight_C: Floats) -> Floats:
        """Return the gradient of the weighted sum of scores by the topics of one document."""
        ...


@dataclass(frozen=True, eq=False)
class Logits:
    """U h + d, the scores of the softmax classifier."""

    weight_CH: Floats
    offset_C: Floats

    def decide(self, hidden_BH: Floats) -> Floats:
        """See `ClassScores`."""
        values: Floats = hidden_BH @ self.weight_CH.T + self.offset_C
        return values

    def gradient(self, hidden_H: Floats, weight_C: Floats) -> Floats:
        """See `ClassScores`."""
        gradient: Floats = weight_C @ self.weight_CH
        return gradient

    def of(self, label: int) -> LinearScore:
        """Return the score of one class."""
        return LinearScore(self.weight_CH[label], float(self.offset_C[label]))


def class_share_score(classes: ClassScores, temperature: float, share_C: Floats) -> SmoothScore:
    """Return log Σ_c p(c | document) share_c: what the classes say of a tag.

    Parameters
    ----------
    temperature : of p, the softmax of the scores.
    share_C : share of the tag among the tags of every class.
    """
    log_share_C = np.log(share_C)

    def function(hidden_QH: Floats) -> Floats:
        log_p_QC = log_softmax(classes.decide(hidden_QH) / temperature, axis=1)
        values: Floats = logsumexp(log_p_QC + log_share_C, axis=1)
        return values

    def gradient(hidden_QH: Floats) -> Floats:
        scaled_QC = classes.decide(hidden_QH) / temperature
        # Of log Σ p share = log Σ exp(f / T) share - log Σ exp(f / T), by the scores f.
        slope_QC = softmax(scaled_QC + log_share_C, axis=1) - softmax(scaled_QC, axis=1)
        rows = zip(hidden_QH, slope_QC / temperature, strict=True)
        return np.stack([classes.gradient(hidden_H, slope_C) for hidden_H, slope_C in rows])

    return SmoothScore(function, gradient)


def added(score: SmoothScore, other: SmoothScore, weight: float) -> SmoothScore:
    """Return score + weight · other."""
    return SmoothScore(
        lambda hidden_QH: score.function(hidden_QH) + weight * other.function(hidden_QH),
        lambda hidden_QH: score.gradient(hidden_QH) + weight * other.gradient(hidden_QH),
    )


def word_score(network: DocNADENetwork, word: int) -> SmoothScore:
    """Return log p(next word = word | document), the score of a tag."""
    W_KH, c_H, V_TH, b_T = (each.detach().cpu().double() for each in network.weights)
    parameters = Parameters(W_KH, c_H, V_TH, b_T)
    words = torch.tensor([word])

    def function(hidden_QH: Floats) -> Floats:
        with torch.no_grad():
            found = network.output.log_prob(torch.from_numpy(hidden_QH), parameters, words)
        values: Floats = found[:, 0].numpy()
        return values

    def gradient(hidden_QH: Floats) -> Floats:
        hidden = torch.from_numpy(hidden_QH).requires_grad_()
        network.output.log_prob(hidden, parameters, words).sum().backward()  # type: ignore[no-untyped-call]
        assert hidden.grad is not None
        slopes: Floats = hidden.grad.numpy()
        return slopes

    return SmoothScore(function, gradient)


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


# Why a photograph has its class or a tag: the share of every patch in the score.


@dataclass(frozen=True, eq=False, kw_only=True)
class Explanation:
    """What the patches of a photograph said about one class or tag.

    The shares of all patches add up to `whole - empty`, and so do those of all topics.
    """

    kind: str
    """"label" or "tag"."""
    name: str
    score: str
    """What is explained: the SVM's decision value, the softmax's logit, or what ranks a tag: log
    p(tag), to which the classes may add log p(tag | classes), the log of Σ p(class) · share of the
    tag among the tags of that class."""
    share_S: Floats
    """(patches,) positive: the patch spoke for it."""
    centres_S2: NDArray[np.float32]
    """(patches, 2): y and x, in pixels of the photograph as it was read."""
    patch_size_S: NDArray[np.int32]
    size: tuple[int, int]
    """Height and width of the photograph as it was read."""
    topic_share_H: Floats
    """(topics,) what went through every topic."""
    empty: float
    """The score of a photograph without patches."""
    whole: float
    """The score of the photograph."""


def explain_image(
    fitted: FittedScene,
    image: Any,
    *,
    label: str | None = None,
    tag: str | None = None,
    name: str = "",
) -> Explanation:
    """Explain the score of a class or of a tag.

    Parameters
    ----------
    label : a class; None: the one that is predicted, unless `tag` is given.
    tag : a tag, instead of a class.
    name : what to call the image in an error.
    """
    if label is not None and tag is not None:
        raise InvalidArgument("label and tag must not both be given.")
    encoded = fitted.bag.encoder_.encode(image, name)
    raw = count_words([encoded.ids], fitted.bag.n_features_out_)
    counts = fitted.counts(raw)
    kind, explained, described, score = _score(fitted, counts, label, tag)
    words_V, amount_V = counts.indices.astype(np.int64), counts.data.astype(np.float64)
    found = explain_score(fitted.topics.network_, words_V, amount_V, score)
    # What a word has is shared by the patches that are that word.
    share_K = np.zeros(fitted.bag.n_features_out_)
    often_K = np.ones_like(share_K)
    share_K[words_V] = found.word_share_V
    often_K[raw.indices] = raw.data
    n_patches = len(encoded.words_S)
    share_SG = (share_K / often_K)[encoded.ids].reshape(n_patches, -1)
    return Explanation(
        kind=kind,
        name=explained,
        score=described,
        share_S=share_SG.sum(axis=1),
        centres_S2=encoded.centres_S2,
        patch_size_S=encoded.patch_size_S,
        size=encoded.size,
        topic_share_H=found.topic_share_H,
        empty=found.empty,
        whole=found.whole,
    )


def _score(
    fitted: FittedScene, counts: Any, label: str | None, tag: str | None
) -> tuple[str, str, str, Score]:
    """Return what is explained: its kind, name and description, and the function itself."""
    network = fitted.topics.network_
    if tag is not None:
        names = fitted.tag_names
        spelled = normalize_tag(tag)
        if spelled not in names:
            raise InvalidArgument(f"tag must be one that the model knows, got {tag!r}.")
        number = names.index(spelled)
        score = word_score(network, network.config.n_visual_words + number)
        described = f"log p({spelled})"
        if fitted.class_tag_share_CA is not None:
            share_C, choices = fitted.class_tag_share_CA[:, number], fitted.choices
            spoken = class_share_score(_class_scores(fitted), choices.temperature, share_C)
            score = added(score, spoken, choices.class_tag_weight)
            times = "" if choices.class_tag_weight == 1 else f"{choices.class_tag_weight:g} "
            described += f" + {times}log p({spelled} | classes)"
        return "tag", spelled, described, score
    if not fitted.classes:
        raise InvalidArgument("this model knows no classes; give a tag to explain.")
    if label is None:
        scores = fitted.class_scores(fitted.topics.transform(counts))
        label = fitted.classes[int(scores[0].argmax())]
    if label not in fitted.classes:
        raise InvalidArgument(f"label must be one of {list(fitted.classes)}, got {label!r}.")
    number = fitted.classes.index(label)
    classes = _class_scores(fitted)
    if isinstance(classes, RBFSVM):
        return "label", label, "decision value of the SVM", svm_score(classes, number)
    return "label", label, "logit of the softmax", classes.of(number)


def _class_scores(fitted: FittedScene) -> RBFSVM | Logits:
    """Return the classifier as a function of the topics."""
    if fitted.svm is not None:
        return fitted.svm
    network = fitted.topics.network_
    assert isinstance(network, SupDocNADENetwork), "a model with classes"
    U_CH = network.label_weight.detach().numpy().astype(np.float64)
    return Logits(U_CH, network.label_bias.detach().numpy().astype(np.float64))
