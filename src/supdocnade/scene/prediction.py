"""A fitted scene model: from topic features to labels, tags and their probabilities."""

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sklearn
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax

from supdocnade import __version__
from supdocnade.checks import check_choice, check_count, check_range
from supdocnade.estimators.bag_of_visual_words import BagOfVisualWords
from supdocnade.estimators.docnade import DocNADE
from supdocnade.estimators.inference import annotation_log_proba, class_log_proba
from supdocnade.estimators.supdocnade import SupDocNADE
from supdocnade.metrics import top_ranked
from supdocnade.scene.calibration import TagCalibration
from supdocnade.scene.settings import SceneSettings
from supdocnade.scene.svm import RBFSVM
from supdocnade.scene.tags import tag_scores
from supdocnade.scene.thumbnails import Thumbnails
from supdocnade.scene.training_set import HeldOut, TrainingSet, damped
from supdocnade.visual_words.encoder import count_words
from supdocnade.visual_words.parallel import SkippedImage

Floats = NDArray[np.float64]

TUNED = ("generative_weight", "learning_rate", "annotation_weight")
"""Settings that tuning may change."""


def current_versions() -> dict[str, str]:
    """Return the versions of what decides the bits of a result."""
    return {
        "supdocnade": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "torch": str(torch.__version__),
    }


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What was chosen on held-out photographs."""

    n_epochs: int
    """Passes over all documents, which mirror images are, too."""
    C: float | None = None
    gamma: float | None = None
    """In units of 1 / topics."""
    temperature: float = 1.0
    unsure_below: float = 0.0
    """A label of less probability was wrong more often than right."""
    class_tag_weight: float = 0.0
    """α, of what the classes say of tags; 0: tags are ranked as in the paper."""
    tags: TagCalibration | None = None
    tuned: dict[str, float] = field(default_factory=dict)
    """Settings that `tune` found, in place of those given."""

    def __post_init__(self) -> None:
        check_count("n_epochs", self.n_epochs, least=1)
        for name in ("C", "gamma"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), above=0)
        check_range("temperature", self.temperature, above=0)
        check_range("unsure_below", self.unsure_below, least=0, most=1)
        check_range("class_tag_weight", self.class_tag_weight, least=0)
        for name, value in self.tuned.items():
            check_choice("tuned", name, TUNED)
            check_range(name, value, least=0)


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedScene:
    """Everything that was learned."""

    settings: SceneSettings
    bag: BagOfVisualWords
    topics: SupDocNADE | DocNADE
    classes: tuple[str, ...]
    svm: RBFSVM | None
    tag_names: tuple[str, ...]
    tag_frequency_A: Floats
    """Share of the photographs with known tags that have each tag."""
    class_tag_share_CA: Floats | None = None
    """Share of each tag among the tags of a class, where `choices.class_tag_weight` is not 0."""
    choices: Choices
    held_out: HeldOut
    data: dict[str, Any]
    """What was learned from: counts of photographs, classes and tags, and a fingerprint."""
    training_set: TrainingSet
    """The photographs as words, so that more can be added."""
    thumbnails: Thumbnails = field(default_factory=Thumbnails)
    """Small copies of some of the photographs."""
    versions: dict[str, str] = field(default_factory=current_versions)
    """Of the programs that it was fitted with."""

    def counts(self, raw: sparse.csr_array) -> sparse.csr_array:
        """Return counts of words as the topic model takes them."""
        return damped(raw, self.settings.damping)

    def hidden(self, raw: sparse.csr_array) -> NDArray[np.float32]:
        """Return the topic features of photographs, (B, H)."""
        if raw.shape[0] == 0:
            return np.empty((0, self.topics.network_.config.n_topics), np.float32)
        return self.topics.transform(self.counts(raw))

    def class_scores(self, hidden_BH: NDArray[np.float32]) -> Floats:
        """Return the scores that labels follow from, (B, C)."""
        return class_scores(self.topics, self.svm, hidden_BH)

    def class_proba(self, hidden_BH: NDArray[np.float32]) -> Floats:
        """Return the probabilities of all classes, (B, C)."""
        scores_BC = self.class_scores(hidden_BH)
        probability: Floats = softmax(scores_BC / self.choices.temperature, axis=1)
        return probability

    def tag_scores(self, hidden_BH: NDArray[np.float32], proba_BC: Floats | None) -> Floats:
        """Return the scores that rank tags, (B, A); see `ranking.tag_scores`.

        Parameters
        ----------
        proba_BC : the probabilities of all classes, where there are any.
        """
        log_p_BA = tag_log_proba(self.topics, hidden_BH)
        if self.class_tag_share_CA is None:
            return log_p_BA
        assert proba_BC is not None, "a model with shares of classes"
        return tag_scores(
            log_p_BA, proba_BC, self.class_tag_share_CA, self.choices.class_tag_weight
        )

    def tag_proba(self, hidden_BH: NDArray[np.float32]) -> Floats:
        """Return how probable it is that every tag is there, (B, A)."""
        proba_BC = self.class_proba(hidden_BH) if self.classes else None
        return self.tag_presence(self.tag_scores(hidden_BH, proba_BC))

    def tag_presence(self, scores_BA: Floats) -> Floats:
        """Return the same, where the scores of tags are known already."""
        if self.choices.tags is None:
            return np.exp(scores_BA)
        return self.choices.tags.probability(scores_BA, self.tag_frequency_A)


def class_scores(topics: Any, svm: RBFSVM | None, hidden_BH: NDArray[np.float32]) -> Floats:
    """Return decision values of the SVM, or log probabilities of the softmax, (B, C)."""
    if svm is not None:
        return svm.decide(hidden_BH)
    return class_log_proba(topics.network_, hidden_BH)


def tag_log_proba(topics: Any, hidden_BH: NDArray[np.float32]) -> Floats:
    """Return log p(tag | photograph) among all tags, (B, A)."""
    log_p_BA = annotation_log_proba(topics.network_, hidden_BH)
    if log_p_BA.shape[1]:
        log_p_BA -= np.logaddexp.reduce(log_p_BA, axis=1, keepdims=True)
    return log_p_BA


# What a model says of photographs.

Waiting = tuple[str, NDArray[np.int32] | SkippedImage]
"""A photograph that was read, or not: its name, and its words or what was wrong with it."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a model says of one photograph."""

    name: str
    label: str | None
    """None: the model knows no classes."""
    probability: float | None
    unsure: bool
    """Labels of so little probability were wrong more often than right on held-out photographs."""
    probabilities: dict[str, float]
    ranked_tags: tuple[tuple[str, float], ...]
    """All tags, the most fitting first, with the probability that they are there: ranked by
    p(tag | photograph), as in the paper, and by what the classes say of tags, where that did better
    on held-out photographs."""
    tags: tuple[tuple[str, float], ...]
    """Those among them that the photograph deserves, the most probable first: their probability
    reaches the threshold that was learned."""


def answer(fitted: FittedScene, waiting: Sequence[Waiting]) -> Iterator[Prediction | SkippedImage]:
    """Predict for some photographs at once; those that could not be read keep their places."""
    read = [(name, words) for name, words in waiting if not isinstance(words, SkippedImage)]
    hidden_BH = fitted.hidden(count_words([words for _, words in read], fitted.bag.n_features_out_))
    found = iter(predict_topics(fitted, [name for name, _ in read], hidden_BH))
    for _, words in waiting:
        yield words if isinstance(words, SkippedImage) else next(found)


def predict_topics(
    fitted: FittedScene, names: Sequence[str], hidden_BH: NDArray[np.float32]
) -> list[Prediction]:
    """Return what follows from the topic features of photographs."""
    proba_BC = fitted.class_proba(hidden_BH) if fitted.classes else None
    scores_BA = fitted.tag_scores(hidden_BH, proba_BC)
    presence_BA = fitted.tag_presence(scores_BA)
    order_BA = top_ranked(scores_BA, len(fitted.tag_names))
    return [
        _prediction(
            fitted,
            name,
            None if proba_BC is None else proba_BC[row],
            presence_BA[row],
            order_BA[row],
        )
        for row, name in enumerate(names)
    ]


def _prediction(
    fitted: FittedScene,
    name: str,
    proba_C: NDArray[np.float64] | None,
    presence_A: NDArray[np.float64],
    order_A: NDArray[np.int64],
) -> Prediction:
    label = probability = None
    probabilities: dict[str, float] = {}
    if proba_C is not None:
        best = int(proba_C.argmax())
        label, probability = fitted.classes[best], float(proba_C[best])
        probabilities = dict(zip(fitted.classes, proba_C.tolist(), strict=True))
    threshold = 0.5 if fitted.choices.tags is None else fitted.choices.tags.threshold
    names = [fitted.tag_names[a] for a in order_A.tolist()]
    ranked = tuple(zip(names, presence_A[order_A].tolist(), strict=True))
    deserved = sorted((tag for tag in ranked if tag[1] >= threshold), key=lambda tag: -tag[1])
    return Prediction(
        name=name,
        label=label,
        probability=probability,
        unsure=probability is not None and probability < fitted.choices.unsure_below,
        probabilities=probabilities,
        ranked_tags=ranked,
        tags=tuple(deserved),
    )
