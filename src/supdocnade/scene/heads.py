"""What a scene model needs of a classifier and of outputs of tags; each kind is one class.

`class_heads` has the classifier, and `tag_heads` the outputs of tags.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from supdocnade.model.inference import NetworkArrays
from supdocnade.scene.references import Compared, References

Floats = NDArray[np.float64]


class Score(NamedTuple):
    """A differentiable function of the topics and features of photographs."""

    value: Callable[[Floats], Floats]
    """From (Q, X) topics and features to (Q,) scores."""
    gradient: Callable[[Floats], Floats]
    """From (Q, X) topics and features to (Q, X) derivatives."""

    def add(self, other: "Score", weight: float) -> "Score":
        """Return this score + weight · other."""
        return Score(
            lambda vector_QX: self.value(vector_QX) + weight * other.value(vector_QX),
            lambda vector_QX: self.gradient(vector_QX) + weight * other.gradient(vector_QX),
        )


class ClassHead(ABC):
    """A classifier of photographs."""

    name: ClassVar[str]
    """Name in files."""
    explained: ClassVar[str]
    """The scores, in words."""

    @abstractmethod
    def scores(self, photographs: Compared) -> Floats:
        """Return the scores of all classes, (B, C); a row does not depend on the other rows."""

    @abstractmethod
    def gradient(self, photographs: Compared, weight_BC: Floats) -> Floats:
        """Return the gradients of Σ_c weight_c score_c by topics and features, (B, X)."""

    @abstractmethod
    def describe(self) -> str:
        """Return what predicts the class, in words."""

    def probabilities(self, photographs: Compared, temperature: float) -> Floats:
        """Return the probabilities of all classes, the softmax of scores / temperature, (B, C)."""
        probability: Floats = softmax(self.scores(photographs) / temperature, axis=1)
        return probability

    def explain(self, number: int, references: References) -> Score:
        """Return the score of a class as a differentiable function."""

        def gradient(vector_QX: Floats) -> Floats:
            photographs = Compared(vector_QX, references)
            n_classes = self.scores(Compared(vector_QX[:1], references)).shape[1]
            weight_C = np.eye(n_classes)[number]
            return self.gradient(photographs, np.tile(weight_C, (len(vector_QX), 1)))

        return Score(
            lambda vector_QX: self.scores(Compared(vector_QX, references))[:, number], gradient
        )


@dataclass(frozen=True, eq=False)
class TagHead(ABC):
    """Outputs of tags of a topic model."""

    name: ClassVar[str]
    """Value of the setting `annotation_output`."""

    network: NetworkArrays

    @abstractmethod
    def scores(self, topics_BH: NDArray[np.floating]) -> Floats:
        """Return the scores of all tags, which rank them, (B, A)."""

    @staticmethod
    @abstractmethod
    def add_votes(scores_BA: Floats, share_BA: Floats, weight: float) -> Floats:
        """Return scores as a mixture of the model's and of the shares of votes, (B, A).

        Parameters
        ----------
        share_BA : shares of votes, above 0 and below 1.
        weight : of the votes; 0 returns the scores.
        """

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
        """Return the score of a tag as a differentiable function of the topics alone.

        It may differ from `scores` by a number that is the same for all tags of a document.
        """
