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
    come after those of the visual words."""
    n_topics: int = setting(200, least=1)
    """H, the number of hidden units."""
    output: str | Callable[[int], Any] = "tree"
    """Form of p(word | hidden): "tree" (the paper's), "softmax" (its first equation), or a function
    of K that returns a `WordOutput`."""
    activation: Activation = "relu"
    """g: "relu" (the paper's), "tanh", "sigmoid", or a function of a tensor."""
    init_scale: float = setting(0.01, least=0)
    """Initial standard deviation of W, V and G; sums over long documents must stay small."""
    n_global_features: int = setting(0, least=0)
    """F, the number of dense features of a document beside its words."""
    annotation_output: str = setting("words", choices=ANNOTATION_OUTPUTS)
    """Form of p(annotation | v): annotations are "words" of the joint vocabulary (the paper's), or
    no words, with one logistic output each ("sigmoid")."""

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
    class_input: str = setting("visual", choices=CLASS_INPUTS)
    """Words that predict the class in training: "visual" words only, as at test time, or "all"
    words including annotations, which is the literal reading of the paper."""
    class_output: str = setting("softmax", choices=CLASS_OUTPUTS)
    """Form of p(y | v): a document has one class ("softmax", the paper's), or several labels, with
    one logistic output each ("sigmoid")."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.class_input == "all" and self.annotation_output == "sigmoid":
            raise InvalidArgument(
                "class_input must be 'visual' with annotation_output='sigmoid', where annotations "
                "are no words, got 'all'."
            )
