"""What a scene model needs of a classifier and of outputs of tags; each kind is one class.

`class_heads` has the classifiers, and `tag_heads` the outputs of tags.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from supdocnade.model.inference import NetworkArrays

Floats = NDArray[np.float64]
Topics = NDArray[np.floating]


class Score(NamedTuple):
    """A differentiable function of the topics of documents."""

    value: Callable[[Floats], Floats]
    """From (Q, H) topics to (Q,) scores."""
    gradient: Callable[[Floats], Floats]
    """From (Q, H) topics to (Q, H) derivatives."""

    def add(self, other: "Score", weight: float) -> "Score":
        """Return this score + weight · other."""
        return Score(
            lambda hidden_QH: self.value(hidden_QH) + weight * other.value(hidden_QH),
            lambda hidden_QH: self.gradient(hidden_QH) + weight * other.gradient(hidden_QH),
        )


class ClassHead(ABC):
    """A classifier on the topics of documents."""

    name: ClassVar[str]
    """Value of the setting `classifier`, and name in files."""
    explained: ClassVar[str]
    """The scores, in words."""
    min_classes: ClassVar[int] = 1
    max_exact: ClassVar[float] = np.inf
    """With more labelled documents, `choose` and `fit` are called with `approximate`."""
    defaults: ClassVar[Mapping[str, float]] = {}
    """Settings of `fit` where there are no held-out documents to choose them on."""

    @classmethod
    def choose(
        cls,
        hidden_BH: Topics,
        label_B: NDArray[np.int64],
        held_out_BH: Topics,
        true_B: NDArray[np.int64],
        n_classes: int,
        *,
        on_fit: Callable[[int, int], None],
        n_jobs: int | None = None,
        approximate: bool = False,
    ) -> Mapping[str, float]:
        """Return the settings of `fit` that are best on held-out documents.

        Parameters
        ----------
        hidden_BH, label_B : topics and class numbers of the documents to learn from.
        held_out_BH, true_B : topics and class numbers of the held-out documents.
        on_fit : called with the number of settings tried and of all.
        """
        return cls.defaults

    @classmethod
    @abstractmethod
    def fit(
        cls,
        network: NetworkArrays,
        hidden_BH: Topics,
        label_B: NDArray[np.int64],
        settings: Mapping[str, float],
        *,
        n_jobs: int | None = None,
        approximate: bool = False,
    ) -> "ClassHead":
        """Return the head that was learned from documents.

        Parameters
        ----------
        network : the topic model, which has the number of classes.
        hidden_BH, label_B : topics and class numbers of the documents.
        settings : made by `choose`.
        approximate : whether to bound the memory.
        """

    @abstractmethod
    def scores(self, hidden_BH: Topics) -> Floats:
        """Return the scores of all classes, (B, C); a row does not depend on the other rows."""

    @abstractmethod
    def gradient(self, hidden_BH: Topics, weight_BC: Floats) -> Floats:
        """Return the gradients of Σ_c weight_c scores(h)_c by the topics, (B, H)."""

    def probabilities(self, hidden_BH: Topics, temperature: float) -> Floats:
        """Return the probabilities of all classes, the softmax of scores / temperature, (B, C)."""
        probability: Floats = softmax(self.scores(hidden_BH) / temperature, axis=1)
        return probability

    def describe(self) -> str:
        """Return what predicts the class, in words."""
        return f"the classifier {self.name!r}"

    def explain(self, number: int) -> Score:
        """Return the score of a class as a differentiable function."""

        def gradient(hidden_QH: Floats) -> Floats:
            weight_C = np.eye(self.scores(hidden_QH[:1]).shape[1])[number]
            return self.gradient(hidden_QH, np.tile(weight_C, (len(hidden_QH), 1)))

        return Score(lambda hidden_QH: self.scores(hidden_QH)[:, number], gradient)


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
    def normalize(scores_BA: Floats) -> Floats:
        """Return scores to which a term was added, as comparable as before, (B, A)."""
        return scores_BA

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
        """Return the score of a tag as a differentiable function.

        It may differ from `scores` by a number that is the same for all tags of a document.
        """
