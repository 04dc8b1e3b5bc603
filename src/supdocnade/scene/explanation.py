"""Why a photograph has its class or a tag: the share of every patch in the score."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.encoding.encoder import count_words
from supdocnade.errors import InvalidArgument
from supdocnade.models import SupDocNADENetwork
from supdocnade.scene.evidence import (
    Logits,
    Score,
    added,
    class_share_score,
    explain_score,
    svm_score,
    word_score,
)
from supdocnade.scene.fitted import FittedScene
from supdocnade.scene.svm import RBFSVM
from supdocnade.words.annotations import normalize_tag

Floats = NDArray[np.float64]


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
