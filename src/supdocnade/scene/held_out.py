"""The held-out photographs: which they are, choices made on them, and results measured on them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument
from supdocnade.folders.splits import split_per_class
from supdocnade.scene.calibration import TagCalibration
from supdocnade.scene.dataset import SMALL_CLASS, Photographs
from supdocnade.schema import stored

_UNLABELLED = "\0"


def hold_out(
    photographs: Photographs,
    fraction: float,
    seed: int,
    never_B: NDArray[np.bool_] | None = None,
    picture_B: NDArray[np.int64] | None = None,
    always_B: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Return a mask of the held-out photographs: a share of every class, near-duplicates together.

    No photographs of classes with fewer than five are held out.

    Parameters
    ----------
    fraction : the share; 0 holds out nothing.
    never_B : (photographs,) True for those that must not be held out; None: any may be.
    picture_B : (photographs,) equal for near-duplicates; None: equal for equal contents.
    always_B : (photographs,) True for those that are held out in addition to the share of the
        others; None: no such photographs.
    """
    none_B = np.zeros(len(photographs), np.bool_)
    if fraction == 0:
        return none_B
    never_B = none_B if never_B is None else never_B
    always_B = none_B if always_B is None else always_B
    labels = [label or _UNLABELLED for label in photographs.labels]
    small = {label for label, count in Counter(labels).items() if count < SMALL_CLASS}
    groups = picture_B
    if groups is None:
        groups = np.unique(photographs.content_keys(), return_inverse=True)[1]
    split = split_per_class(
        [
            None if label in small or fixed else label
            for label, fixed in zip(labels, never_B | always_B, strict=True)
        ],
        train_size=1 - fraction,
        seed=seed,
        groups=groups,
    )
    held = np.zeros(len(photographs), np.bool_)
    held[split.test] = True
    held |= np.isin(groups, groups[always_B]) & ~never_B
    # Near-duplicates of photographs in the training part, whose class may be too small to split.
    held[np.isin(groups, groups[~held])] = False
    if held.all():  # All show one picture, which is needed for training.
        held[:] = False
    return held


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Values chosen on held-out photographs."""

    n_epochs: int = stored(least=1)
    """Passes over all photographs."""
    classifier: str | None = None
    """Name of the classifier; None without classes."""
    classifier_settings: Mapping[str, float] = stored(default_factory=dict, above=0)
    """Settings of its `fit`."""
    temperature: float = stored(1.0, above=0)
    unsure_below: float = stored(0.0, least=0, most=1)
    """Labels with a smaller probability were wrong more often than right."""
    unfamiliar_above: float | None = None
    """Novelty that 5 % of the held-out photographs exceed; None: too few were held out."""
    class_tag_weight: float = stored(0.0, least=0)
    """α, the weight of the class term of tags; 0 is the paper's ranking."""
    tags: TagCalibration | None = None


@dataclass(frozen=True, kw_only=True)
class HeldOutImage:
    """A held-out photograph and its prediction."""

    name: str
    label: str | None
    predicted: str | None
    probability: float | None = stored(least=0, most=1)
    tags: tuple[str, ...] | None
    given: tuple[tuple[str, float], ...] = stored(least=0, most=1)
    """The five most probable tags, with their probabilities of being present."""

    @property
    def right(self) -> bool | None:
        """True if the predicted class is the true one; None if not known."""
        if self.label is None or self.predicted is None:
            return None
        return self.predicted == self.label


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Results on held-out photographs, of a model fitted on the other photographs."""

    n_images: int = stored(0, least=0)
    figures: dict[str, int | float] = field(default_factory=dict)
    """accuracy, f_measure, class_calibration_error, ... as far as they could be measured."""
    images: tuple[HeldOutImage, ...] = ()

    def __post_init__(self) -> None:
        for figure, number in (("accuracy", "n_labelled"), ("f_measure", "n_tagged")):
            if figure in self.figures and number not in self.figures:
                raise InvalidArgument(f"figures must have {number} beside {figure}")
