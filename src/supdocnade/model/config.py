"""Settings that determine the architecture of a network."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from supdocnade.checks import check_choice, check_settings, setting
from supdocnade.errors import InvalidArgument
from supdocnade.likelihood import ACTIVATIONS, Activation

OUTPUTS = ("tree", "softmax")
CLASS_INPUTS = ("visual", "all")
CLASS_OUTPUTS = ("softmax", "sigmoid")
ANNOTATION_OUTPUTS = ("words", "sigmoid")


@dataclass(frozen=True, kw_only=True)
class DocNADEConfig:
    """Architecture of a DocNADE network."""

    n_visual_words: int = setting(least=1)
    """Words that are given at test time; ids 0 .. n_visual_words - 1."""
    n_annotation_words: int = setting(0, least=0)
    """A, the number of annotations, which are predicted at test time. If they are words, their ids
    come after the ids of the visual words."""
    n_topics: int = setting(200, "H, the number of topics (hidden units).", least=1)
    output: str | Callable[[int], Any] = setting(
        "tree",
        "Conditionals: a balanced tree of binary decisions with the words at its leaves, at a cost "
        "of log K per word, or a softmax over all K words. Or a function of K that returns a "
        "`WordOutput`, such as a class derived from it.",
        kind='{"tree", "softmax"} or callable',
    )
    activation: Activation = setting(
        "relu",
        "g, the activation of the topics, or a differentiable function from a torch tensor to one "
        "of the same shape, element by element. A model with a function for `output` or "
        "`activation` trains in plain torch, on the CPU unless `device` says otherwise, and cannot "
        "be saved.",
        kind='{"relu", "tanh", "sigmoid"} or callable',
    )
    init_scale: float = setting(0.01, least=0)
    """Initial standard deviation of W, V and G; sums over long documents must stay small."""
    n_global_features: int = setting(0, least=0)
    """F, the number of dense features of a document beside its words."""
    annotation_output: str = setting(
        "words",
        "Annotations are words of the joint vocabulary, as in the paper, or no words: then each "
        "has a logistic output on the topic features, p(a | v) = σ(e_a + T_a · h_y(v)). A document "
        "with unknown annotations has no loss for them.",
        choices=ANNOTATION_OUTPUTS,
    )

    def __post_init__(self) -> None:
        for name, value in check_settings(self).items():
            object.__setattr__(self, name, value)
        for name, choices in (("output", OUTPUTS), ("activation", ACTIVATIONS)):
            if not callable(getattr(self, name)):
                check_choice(name, getattr(self, name), choices)

    @property
    def n_words(self) -> int:
        """K, the size of the joint vocabulary."""
        return self.n_visual_words + self.n_annotation_words - self.n_tag_outputs

    @property
    def n_tag_outputs(self) -> int:
        """The number of logistic outputs: A, or 0 if annotations are words."""
        return self.n_annotation_words if self.annotation_output == "sigmoid" else 0


@dataclass(frozen=True, kw_only=True)
class SupDocNADEConfig(DocNADEConfig):
    """Architecture of a SupDocNADE network."""

    n_classes: int = setting(least=1)
    """C, the number of classes."""
    class_input: str = setting(
        "visual",
        "Input of the class term in training: the words alone, as at test time, or words and "
        "annotations, the literal reading of the paper.",
        choices=CLASS_INPUTS,
    )
    class_output: str = setting("softmax", choices=CLASS_OUTPUTS)
    """Form of p(y | v): a document has one class ("softmax", the paper's), or several labels, with
    one logistic output each ("sigmoid")."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.class_input == "all" and self.annotation_output == "sigmoid":
            raise InvalidArgument(
                "class_input must be 'visual' with annotation_output='sigmoid', where annotations "
                "are not words, got 'all'."
            )
