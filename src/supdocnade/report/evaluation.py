"""How a model did on photographs held out, counted from what it said of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.folders.tags import AnnotationVocabulary, normalize_tag
from supdocnade.metrics import f_measure
from supdocnade.progress import ProgressCallback, no_progress
from supdocnade.scene.calibration import N_BINS, calibration_error, f_of_sets
from supdocnade.scene.dataset import from_records
from supdocnade.scene.model import SceneModel
from supdocnade.scene.prediction import Prediction
from supdocnade.scene.tags import TOP, present_tags
from supdocnade.scene.training_set import HeldOutImage
from supdocnade.visual_words.parallel import SkippedImage

# How well a scene model does on photographs whose classes and tags are known.


@dataclass(frozen=True, eq=False, kw_only=True)
class Measured:
    """Figures of a model; None where nothing is known to compare with."""

    n_images: int
    """Photographs that could be read."""
    n_labelled: int = 0
    accuracy: float | None = None
    """Share of the labelled photographs whose class is right; classes that the model does not know
    count as mistakes."""
    n_unknown_classes: int = 0
    """Photographs of such classes."""
    class_calibration_error: float | None = None
    n_unsure: int = 0
    accuracy_of_sure: float | None = None
    """Of the labelled photographs that the model is not unsure of."""
    n_tagged: int = 0
    """Photographs that have at least one tag."""
    f_measure: float | None = None
    """Of the five best tags, as in the paper; tags that the model does not know count as missed."""
    f_measure_of_given: float | None = None
    """Of the tags that the model gives, as many as it likes."""
    tag_calibration_error: float | None = None
    confusion: dict[str, dict[str, int]]
    """How many photographs of every class were given every class."""
    skipped: tuple[SkippedImage, ...] = ()


def measure_photographs(
    model: SceneModel,
    records: Sequence[ImageRecord],
    *,
    progress: ProgressCallback = no_progress,
) -> Measured:
    """Let a model look at photographs, and compare.

    Parameters
    ----------
    records : photographs with labels, tags or both; what is not known of one is left out.
    """
    found: list[Prediction] = []
    skipped: list[SkippedImage] = []
    read: list[ImageRecord] = []
    answers = model.iter_predictions([record.path for record in records], on_error="skip")
    for number, (record, answer) in enumerate(zip(records, answers, strict=True), start=1):
        if isinstance(answer, SkippedImage):
            skipped.append(answer)
        else:
            read.append(record)
            found.append(answer)
        progress("predicting", number, len(records))
    if not found:
        raise InvalidArgument("there must be a photograph that can be read, got none.")
    figures = {**_classes(read, found), **_tags(model, read, found)}
    if not figures:
        raise InvalidArgument(
            "there is nothing to compare with: the photographs must have classes or tags, "
            "and the model must know some."
        )
    return Measured(n_images=len(found), skipped=tuple(skipped), **{"confusion": {}, **figures})


def _classes(read: Sequence[ImageRecord], found: Sequence[Prediction]) -> dict[str, Any]:
    pairs = [
        (record.label, answer)
        for record, answer in zip(read, found, strict=True)
        if record.label is not None and answer.label is not None
    ]
    if not pairs:
        return {}
    right = np.array([label == answer.label for label, answer in pairs], np.bool_)
    sure = np.array([not answer.unsure for _, answer in pairs], np.bool_)
    confidence = np.array([answer.probability for _, answer in pairs], np.float64)
    confusion: dict[str, dict[str, int]] = {}
    for label, answer in pairs:
        row = confusion.setdefault(label, dict.fromkeys(answer.probabilities, 0))
        row[str(answer.label)] += 1
    return {
        "n_labelled": len(pairs),
        "accuracy": float(right.mean()),
        "n_unknown_classes": sum(label not in answer.probabilities for label, answer in pairs),
        "class_calibration_error": calibration_error(confidence, right),
        "n_unsure": int((~sure).sum()),
        "accuracy_of_sure": float(right[sure].mean()) if sure.any() else None,
        "confusion": dict(sorted(confusion.items())),
    }


def _tags(
    model: SceneModel, read: Sequence[ImageRecord], found: Sequence[Prediction]
) -> dict[str, Any]:
    vocabulary = AnnotationVocabulary(tuple(model.tag_names_.tolist()))
    known = [number for number, record in enumerate(read) if record.tags is not None]
    if not len(vocabulary) or not any(read[number].tags for number in known):
        return {}
    present = present_tags(from_records([read[number] for number in known]), vocabulary)
    answers = [found[number] for number in known]
    place = {name: number for number, name in enumerate(vocabulary.names)}
    top = np.array([[place[tag] for tag, _ in each.ranked_tags[:TOP]] for each in answers])
    chosen = np.zeros_like(present)
    probability_BA: NDArray[np.float64] = np.zeros((len(answers), len(vocabulary)))
    for row, each in enumerate(answers):
        chosen[row, [place[tag] for tag, _ in each.tags]] = True
        for tag, probability in each.ranked_tags:
            probability_BA[row, place[tag]] = probability
    tagged = present.any(axis=1)
    inside = present[:, : len(vocabulary)]
    return {
        "n_tagged": int(tagged.sum()),
        "f_measure": f_measure(top, present).value,
        "f_measure_of_given": float(f_of_sets(chosen, present)[tagged].mean()),
        "tag_calibration_error": calibration_error(probability_BA.ravel(), inside.ravel()),
    }


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
