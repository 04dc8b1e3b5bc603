"""The held-out photographs: which they are, choices made on them, and results measured on them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_choice, check_count, check_range, check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.folders.splits import split_per_class
from supdocnade.scene.calibration import TagCalibration
from supdocnade.scene.dataset import SMALL_CLASS, Photographs
from supdocnade.scene.novelty import NOVELTY_SCORES
from supdocnade.storage import (
    Arrays,
    pack_labels,
    pack_string_lists,
    pack_strings,
    unpack_labels,
    unpack_string_lists,
    unpack_strings,
)

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

    n_epochs: int
    """Passes over all photographs."""
    classifier: str | None = None
    """Name of the classifier; None without classes."""
    classifier_settings: Mapping[str, float] = field(default_factory=dict)
    """Settings of its `fit`."""
    temperature: float = 1.0
    unsure_below: float = 0.0
    """Labels with a smaller probability were wrong more often than right."""
    unfamiliar_above: float | None = None
    """Novelty that 5 % of the held-out photographs exceed; None: too few were held out."""
    novelty: str = "neighbours"
    """Name of the score, one of `novelty.NOVELTY_SCORES`."""
    class_tag_weight: float = 0.0
    """α, the weight of the class term of tags; 0 is the paper's ranking."""
    tags: TagCalibration | None = None

    def __post_init__(self) -> None:
        check_count("n_epochs", self.n_epochs, least=1)
        for name, value in self.classifier_settings.items():
            check_range(name, value, above=0)
        check_range("temperature", self.temperature, above=0)
        check_range("unsure_below", self.unsure_below, least=0, most=1)
        if self.unfamiliar_above is not None:
            check_range("unfamiliar_above", self.unfamiliar_above)
        check_choice("novelty", self.novelty, NOVELTY_SCORES)
        check_range("class_tag_weight", self.class_tag_weight, least=0)


@dataclass(frozen=True, kw_only=True)
class HeldOutImage:
    """A held-out photograph and its prediction."""

    name: str
    label: str | None
    predicted: str | None
    probability: float | None
    tags: tuple[str, ...] | None
    given: tuple[tuple[str, float], ...]
    """The five most probable tags, with their probabilities of being present."""

    @property
    def right(self) -> bool | None:
        """True if the predicted class is the true one; None if not known."""
        if self.label is None or self.predicted is None:
            return None
        return self.predicted == self.label

    def __post_init__(self) -> None:
        texts = (self.label, self.predicted, *(self.tags or ()), *(tag for tag, _ in self.given))
        if not isinstance(self.name, str) or not all(isinstance(t, str | None) for t in texts):
            raise InvalidArgument("names, labels and tags of photographs must be strings.")
        probabilities = [probability for _, probability in self.given]
        if self.probability is not None:
            probabilities.append(self.probability)
        for probability in probabilities:
            check_range("probability", probability, least=0, most=1)


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Results on held-out photographs, of a model fitted on the other photographs."""

    n_images: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    """accuracy, f_measure, class_calibration_error, ... as far as they could be measured."""
    images: tuple[HeldOutImage, ...] = ()

    def __post_init__(self) -> None:
        check_count("n_images", self.n_images)
        for name, value in self.figures.items():
            check_range(str(name), value)


def held_out_to_storage(images: Sequence[HeldOutImage]) -> Arrays:
    """Return held-out photographs as arrays."""
    probabilities = [np.nan if each.probability is None else each.probability for each in images]
    return {
        **pack_strings("names", [each.name for each in images]),
        **pack_labels("labels", [each.label for each in images]),
        **pack_labels("predicted", [each.predicted for each in images]),
        "probabilities": np.array(probabilities, np.float64),
        **pack_string_lists("tags", [each.tags for each in images]),
        **pack_string_lists("given", [[tag for tag, _ in each.given] for each in images]),
        "given_probabilities": np.array([p for each in images for _, p in each.given], np.float64),
    }


def held_out_from_storage(arrays: Arrays) -> tuple[HeldOutImage, ...]:
    """Return what `held_out_to_storage` described; anything else raises an error."""
    given = unpack_string_lists("given", arrays)
    probability_of_tags = iter(arrays["given_probabilities"].tolist())
    n_given = sum(len(tags or ()) for tags in given)
    check_shape("given_probabilities", arrays["given_probabilities"].shape, (n_given,))
    tags = unpack_string_lists("tags", arrays)
    return tuple(
        HeldOutImage(
            name=name,
            label=label,
            predicted=predicted,
            probability=None if np.isnan(probability) else probability,
            tags=None if tags_of_image is None else tuple(tags_of_image),
            given=tuple((tag, next(probability_of_tags)) for tag in given_tags or ()),
        )
        for name, label, predicted, probability, tags_of_image, given_tags in zip(
            unpack_strings("names", arrays),
            unpack_labels("labels", arrays),
            unpack_labels("predicted", arrays),
            arrays["probabilities"].tolist(),
            tags,
            given,
            strict=True,
        )
    )
