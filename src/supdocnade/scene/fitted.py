"""A fitted scene model: from topic features to labels, tags and their probabilities."""

import platform
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sklearn
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax

from supdocnade import __version__
from supdocnade.errors import InvalidArgument
from supdocnade.estimators import DocNADE, SupDocNADE
from supdocnade.estimators.counts import damp_counts
from supdocnade.estimators.features import BagOfVisualWords
from supdocnade.estimators.inference import annotation_log_proba, class_log_proba
from supdocnade.scene.calibration import TagCalibration
from supdocnade.scene.examples import ExamplePhotographs
from supdocnade.scene.learned import LearnedFrom
from supdocnade.scene.ranking import tag_scores
from supdocnade.scene.settings import SceneSettings
from supdocnade.scene.svm import RBFSVM
from supdocnade.shapes import check_choice, check_count, check_range

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


@dataclass(frozen=True, kw_only=True)
class HeldOutImage:
    """A photograph that was held out, and what was said of it."""

    name: str
    label: str | None
    predicted: str | None
    probability: float | None
    tags: tuple[str, ...] | None
    given: tuple[tuple[str, float], ...]
    """The five most probable tags, with their probabilities of being there."""

    def __post_init__(self) -> None:
        texts = (self.label, self.predicted, *(self.tags or ()), *(tag for tag, _ in self.given))
        if not isinstance(self.name, str) or not all(isinstance(t, str | None) for t in texts):
            raise InvalidArgument("names, labels and tags of photographs must be strings.")
        chances = [chance for _, chance in self.given]
        for chance in chances if self.probability is None else [*chances, self.probability]:
            check_range("probability", chance, least=0, most=1)


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """How a model that had not seen them did on held-out photographs, before it was fitted again
    on all."""

    n_images: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    """accuracy, f_measure, class_calibration_error, ... as far as they could be measured."""
    confusion_CC: NDArray[np.int64] | None = None
    """(true classes, predicted classes)."""
    images: tuple[HeldOutImage, ...] = ()

    def __post_init__(self) -> None:
        check_count("n_images", self.n_images)
        for name, value in self.figures.items():
            check_range(str(name), value)


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
    learned: LearnedFrom
    """The photographs as words, so that more can be added."""
    examples: ExamplePhotographs = field(default_factory=ExamplePhotographs)
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


def damped(raw: sparse.csr_array, damping: float | None) -> sparse.csr_array:
    """Return counts with repeated words damped, if wanted."""
    if damping is None or raw.shape[0] == 0:
        return raw
    return sparse.csr_array(damp_counts(raw, damping))


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
