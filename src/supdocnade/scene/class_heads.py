"""Classifiers on topic features: each is one class, which learns, predicts, explains and stores.

`CLASS_HEADS` in `heads` names those that a scene model can have.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from supdocnade.model.inference import NetworkArrays, class_scores
from supdocnade.storage import Arrays

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
    """What `decide` returns, in words."""
    min_classes: ClassVar[int] = 1
    defaults: ClassVar[Mapping[str, float]] = {}
    """Settings of `fit` where there are no held-out documents to choose them on."""

    @classmethod
    def describe_approximation(cls, n_labelled: int, *, compared: bool) -> str:
        """Return a sentence if so many documents would take too much memory, else "".

        With a sentence, `choose` and `fit` are called with `approximate`.

        Parameters
        ----------
        n_labelled : number of documents with a label.
        compared : True if the head is one of several that are tried.
        """
        return ""

    @classmethod
    def choose(
        cls,
        hidden_BH: Topics,
        label_B: NDArray[np.int64],
        held_out_BH: Topics,
        true_B: NDArray[np.int64],
        n_classes: int,
        *,
        on_fit: Callable[[int, int], None] | None = None,
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
        """

    @abstractmethod
    def decide(self, hidden_BH: Topics) -> Floats:
        """Return the scores of all classes in float64, which are explained, (B, C)."""

    @abstractmethod
    def gradient(self, hidden_BH: Topics, weight_BC: Floats) -> Floats:
        """Return the gradients of Σ_c weight_c decide(h)_c by the topics, (B, H)."""

    def scores(self, hidden_BH: Topics) -> Floats:
        """Return the scores of all classes, (B, C).

        A row does not depend on the other rows. Scores are those of `decide` but for rounding and
        a number that is the same for all classes of a document.
        """
        return self.decide(hidden_BH)

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
            weight_C = np.eye(len(self.decide(hidden_QH[:1])[0]))[number]
            return self.gradient(hidden_QH, np.tile(weight_C, (len(hidden_QH), 1)))

        return Score(lambda hidden_QH: self.decide(hidden_QH)[:, number], gradient)

    @abstractmethod
    def to_storage(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the head as arrays and plain values."""

    @classmethod
    @abstractmethod
    def from_storage(
        cls, arrays: Arrays, description: dict[str, Any], network: NetworkArrays
    ) -> "ClassHead":
        """Return what `to_storage` described; anything else raises an error.

        Parameters
        ----------
        arrays : those of the head, and others.
        """


@dataclass(frozen=True, eq=False)
class SoftmaxHead(ClassHead):
    """The softmax of the topic model: p(c) ∝ exp(U h + d)_c."""

    name = "softmax"
    explained = "logit of the softmax"

    network: NetworkArrays

    @classmethod
    def fit(
        cls,
        network: NetworkArrays,
        hidden_BH: Topics,
        label_B: NDArray[np.int64],
        settings: Mapping[str, float],
        *,
        n_jobs: int | None = None,
        approximate: bool = False,
    ) -> "SoftmaxHead":
        """Return the head; it was learned with the topics."""
        return cls(network)

    def describe(self) -> str:
        """Return what predicts the class, in words."""
        return "the softmax of the topic model"

    def decide(self, hidden_BH: Topics) -> Floats:
        """Return U h + d, (B, C)."""
        U_CH, d_C = (
            self.network[f"label_{name}"].astype(np.float64) for name in ("weight", "bias")
        )
        logits_BC: Floats = hidden_BH @ U_CH.T + d_C
        return logits_BC

    def gradient(self, hidden_BH: Topics, weight_BC: Floats) -> Floats:
        """Return weight U, (B, H)."""
        slopes_BH: Floats = weight_BC @ self.network["label_weight"].astype(np.float64)
        return slopes_BH

    def scores(self, hidden_BH: Topics) -> Floats:
        """Return log p(c), (B, C)."""
        return class_scores(self.network, hidden_BH.astype(np.float32, copy=False))

    def to_storage(self) -> tuple[Arrays, dict[str, Any]]:
        """Return nothing: the topic model has it all."""
        return {}, {}

    @classmethod
    def from_storage(
        cls, arrays: Arrays, description: dict[str, Any], network: NetworkArrays
    ) -> "SoftmaxHead":
        """Return the head of a network."""
        return cls(network)
