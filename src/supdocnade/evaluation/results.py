"""How a model did on photographs held out, counted from what it said of each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supdocnade.scene.calibration import N_BINS
from supdocnade.scene.fitted import HeldOutImage
from supdocnade.words.annotations import normalize_tag

NORMAL_95 = 1.959964
"""Standard deviations of a 95 % interval."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """So many of so many."""

    hits: int
    total: int

    @property
    def value(self) -> float | None:
        """The share; None of nothing."""
        return self.hits / self.total if self.total else None


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Photographs of one class that were taken for another."""

    label: str
    predicted: str
    count: Share
    """Of all photographs of the class."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """How a class or a tag was recognised."""

    name: str
    recall: Share
    """Of the photographs that have it, those for which it was said."""
    precision: Share
    """Of the photographs for which it was said, those that have it."""


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Answers of similar probability."""

    confidence: float
    """Their mean probability."""
    right: Share


def interval(share: Share) -> tuple[float, float]:
    """Return the 95 % interval of Wilson, within which the true share may well lie.

    >>> [round(end, 3) for end in interval(Share(hits=30, total=32))]
    [0.799, 0.983]
    """
    if not share.total:
        return 0.0, 1.0
    n, p, z = share.total, share.hits / share.total, NORMAL_95
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # Without rounding errors a share of 0 or 1 is an end itself.
    return float(max(min(middle - half, p), 0.0)), float(min(max(middle + half, p), 1.0))


def confusion_matrix(images: Sequence[HeldOutImage], classes: Sequence[str]) -> NDArray[np.int64]:
    """Return how often photographs of each class were given each class, (C, C)."""
    numbers = {label: number for number, label in enumerate(classes)}
    counts_CC = np.zeros((len(classes),) * 2, np.int64)
    for each in images:
        if each.label in numbers and each.predicted in numbers:
            counts_CC[numbers[each.label], numbers[each.predicted]] += 1
    return counts_CC


def class_results(counts_CC: NDArray[np.int64], classes: Sequence[str]) -> tuple[Found, ...]:
    """Return how every class was recognised."""
    return tuple(
        Found(
            name=label,
            recall=Share(hits=int(counts_CC[c, c]), total=int(counts_CC[c].sum())),
            precision=Share(hits=int(counts_CC[c, c]), total=int(counts_CC[:, c].sum())),
        )
        for c, label in enumerate(classes)
    )


def frequent_confusions(
    counts_CC: NDArray[np.int64], classes: Sequence[str], most: int = 8
) -> tuple[Confusion, ...]:
    """Return which classes were taken for which others, the most frequent first."""
    pairs = [
        Confusion(
            label=classes[true],
            predicted=classes[said],
            count=Share(hits=int(counts_CC[true, said]), total=int(counts_CC[true].sum())),
        )
        for true, said in zip(*np.nonzero(counts_CC), strict=True)
        if true != said
    ]
    pairs.sort(key=lambda each: -each.count.hits)
    return tuple(pairs[:most])


def tag_results(images: Sequence[HeldOutImage], tag_names: Sequence[str]) -> tuple[Found, ...]:
    """Return how every tag was recognised among the five that a photograph is given."""
    has, said, both = (dict.fromkeys(tag_names, 0) for _ in range(3))
    for each in images:
        if each.tags is None:
            continue
        true = {normalize_tag(tag) for tag in each.tags}
        given = {tag for tag, _ in each.given}
        for count, tags in ((has, true), (said, given), (both, true & given)):
            for tag in tags & count.keys():
                count[tag] += 1
    return tuple(
        Found(
            name=tag,
            recall=Share(hits=both[tag], total=has[tag]),
            precision=Share(hits=both[tag], total=said[tag]),
        )
        for tag in tag_names
    )


def class_reliability(images: Sequence[HeldOutImage]) -> tuple[Bin, ...]:
    """Return how often labels of similar probability were right."""
    answers = [
        (each.probability, each.label == each.predicted)
        for each in images
        if each.label is not None and each.probability is not None
    ]
    return _bins(answers)


def tag_reliability(images: Sequence[HeldOutImage]) -> tuple[Bin, ...]:
    """Return how often tags of similar probability were there, of the five that were given."""
    answers = []
    for each in images:
        if each.tags is not None:
            true = {normalize_tag(tag) for tag in each.tags}
            answers += [(probability, tag in true) for tag, probability in each.given]
    return _bins(answers)


def _bins(answers: Sequence[tuple[float, bool]]) -> tuple[Bin, ...]:
    """Return bins of equal width that have an answer."""
    probability = np.array([answer[0] for answer in answers], np.float64)
    right = np.array([answer[1] for answer in answers], np.bool_)
    numbers = np.minimum((probability * N_BINS).astype(np.int64), N_BINS - 1)
    found = []
    for number in range(N_BINS):
        chosen = numbers == number
        if chosen.any():
            share = Share(hits=int(right[chosen].sum()), total=int(chosen.sum()))
            found.append(Bin(confidence=float(probability[chosen].mean()), right=share))
    return tuple(found)
