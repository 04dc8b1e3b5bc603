"""Evaluation of a scene model: on photographs with known classes and tags, and when it was fitted.

The figures themselves are defined in `supdocnade.metrics`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.folders.tags import AnnotationVocabulary, normalize_tag
from supdocnade.metrics import N_TAGS, evaluate_classes, evaluate_tags, reliability_bins
from supdocnade.run_options import RunOptions
from supdocnade.scene.dataset import from_records
from supdocnade.scene.held_out import HeldOutImage
from supdocnade.scene.prediction import FittedScene, Prediction, predict_sources
from supdocnade.scene.tag_ranking import present_tags
from supdocnade.visual_words.parallel import SkippedImage


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """Figures of a model; None where the truth is not known."""

    n_images: int
    """Photographs that could be read."""
    small: tuple[str, ...] = ()
    """Those that are much smaller than the photographs that the model was fitted on."""
    n_unfamiliar: int = 0
    """Photographs that are unlike those that the model was fitted on."""
    n_trained: int = 0
    """Photographs that the model was fitted on: their results are too good."""
    n_labelled: int = 0
    accuracy: float | None = None
    """Share of labelled photographs whose class is right; unknown classes count as mistakes."""
    n_unknown_classes: int = 0
    """Photographs of classes that the model does not know."""
    class_calibration_error: float | None = None
    n_unsure: int = 0
    accuracy_of_sure: float | None = None
    """Accuracy over the labelled photographs that the model is not unsure of."""
    n_tagged: int = 0
    """Photographs that have at least one tag."""
    f_measure: float | None = None
    """F-measure of the five best tags, as in the paper; tags unknown to the model are missed."""
    f_measure_of_given: float | None = None
    """F-measure of the tags whose probability reaches the threshold."""
    tag_calibration_error: float | None = None
    confusion: dict[str, dict[str, int]] = field(default_factory=dict)
    """Number of photographs by true and predicted class."""
    tags: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By tag: the numbers of photographs that have it and that it was predicted for, and the
    precision and the recall of the prediction, None where they are not defined."""
    skipped: tuple[SkippedImage, ...] = ()


def evaluate_photographs(
    fitted: FittedScene, records: Sequence[ImageRecord], options: RunOptions = RunOptions()
) -> Evaluation:
    """Predict photographs and compare with their labels and tags, whichever are known.

    Photographs that cannot be read are skipped.
    """
    predictions: list[Prediction] = []
    skipped: list[SkippedImage] = []
    read: list[ImageRecord] = []
    options = replace(options, on_error="skip")
    results = predict_sources(fitted, [record.source for record in records], options)
    for number, (record, result) in enumerate(zip(records, results, strict=True), start=1):
        if isinstance(result, SkippedImage):
            skipped.append(result)
        else:
            read.append(record)
            predictions.append(result)
        options.progress("predicting", number, len(records))
    if not predictions:
        raise InvalidArgument("there must be a photograph that can be read, got none.")
    trained = set(fitted.training_set.photographs.content_keys())
    figures = {**_class_figures(read, predictions), **_tag_figures(fitted, read, predictions)}
    if not figures:
        raise InvalidArgument(
            "there is nothing to compare with: the photographs must have classes or tags, "
            "and the model must know some."
        )
    small = tuple(each.name for each in predictions if each.small)
    return Evaluation(
        n_images=len(predictions),
        small=small,
        n_unfamiliar=sum(each.unfamiliar for each in predictions),
        n_trained=sum(each.key in trained for each in predictions),
        skipped=tuple(skipped),
        **figures,
    )


def _class_figures(
    records: Sequence[ImageRecord], predictions: Sequence[Prediction]
) -> dict[str, Any]:
    pairs = [
        (record.label, prediction)
        for record, prediction in zip(records, predictions, strict=True)
        if record.label is not None and prediction.label is not None
    ]
    if not pairs:
        return {}
    right = np.array([label == prediction.label for label, prediction in pairs], np.bool_)
    sure = np.array([not prediction.unsure for _, prediction in pairs], np.bool_)
    confidence = np.array([prediction.probability for _, prediction in pairs], np.float64)
    confusion: dict[str, dict[str, int]] = {}
    for label, prediction in pairs:
        row = confusion.setdefault(label, dict.fromkeys(prediction.probabilities, 0))
        row[str(prediction.label)] += 1
    return {
        **evaluate_classes(confidence, right),
        "n_unknown_classes": sum(label not in each.probabilities for label, each in pairs),
        "n_unsure": int((~sure).sum()),
        "accuracy_of_sure": float(right[sure].mean()) if sure.any() else None,
        "confusion": dict(sorted(confusion.items())),
    }


def _tag_figures(
    fitted: FittedScene, records: Sequence[ImageRecord], predictions: Sequence[Prediction]
) -> dict[str, Any]:
    vocabulary = AnnotationVocabulary(fitted.tag_names)
    pairs = [
        (record, prediction)
        for record, prediction in zip(records, predictions, strict=True)
        if record.tags is not None
    ]
    if not len(vocabulary) or not any(record.tags for record, _ in pairs):
        return {}
    present = present_tags(from_records([record for record, _ in pairs]), vocabulary)
    column = {name: number for number, name in enumerate(vocabulary.names)}
    top = np.array([[column[tag] for tag, _ in each.ranked_tags[:N_TAGS]] for _, each in pairs])
    chosen = np.zeros((len(pairs), len(vocabulary)), np.bool_)
    probability_BA: NDArray[np.float64] = np.zeros(chosen.shape)
    for row, (_, prediction) in enumerate(pairs):
        chosen[row, [column[tag] for tag, _ in prediction.tags]] = True
        for tag, probability in prediction.ranked_tags:
            probability_BA[row, column[tag]] = probability
    tags = {}
    for name, number in column.items():
        true_B, given_B = present[:, number], chosen[:, number]
        n_true, n_given, n_both = (int(each.sum()) for each in (true_B, given_B, true_B & given_B))
        tags[name] = {
            "n_images": n_true,
            "n_predicted": n_given,
            "precision": share(n_both, n_given)["value"],
            "recall": share(n_both, n_true)["value"],
        }
    return {**evaluate_tags(top, chosen, probability_BA, present), "tags": tags}


def share(hits: int, total: int) -> dict[str, Any]:
    """Return a share with its numerator and denominator; its value is None if it is of nothing."""
    return {"hits": hits, "total": total, "value": hits / total if total else None}


def confusion_matrix(images: Sequence[HeldOutImage], classes: Sequence[str]) -> NDArray[np.int64]:
    """Return the number of photographs by true and predicted class, (C, C)."""
    numbers = {label: number for number, label in enumerate(classes)}
    counts_CC = np.zeros((len(classes),) * 2, np.int64)
    for each in images:
        if each.label in numbers and each.predicted in numbers:
            counts_CC[numbers[each.label], numbers[each.predicted]] += 1
    return counts_CC


def class_results(counts_CC: NDArray[np.int64], classes: Sequence[str]) -> list[dict[str, Any]]:
    """Return name, recall and precision of every class."""
    hits, true, predicted = np.diag(counts_CC), counts_CC.sum(axis=1), counts_CC.sum(axis=0)
    return [
        {
            "name": label,
            "recall": share(int(hits[c]), int(true[c])),
            "precision": share(int(hits[c]), int(predicted[c])),
        }
        for c, label in enumerate(classes)
    ]


def frequent_confusions(
    counts_CC: NDArray[np.int64], classes: Sequence[str], limit: int = 8
) -> list[dict[str, Any]]:
    """Return the most frequent pairs of a true and another predicted class."""
    pairs = [
        {
            "label": classes[true],
            "predicted": classes[predicted],
            "count": share(int(counts_CC[true, predicted]), int(counts_CC[true].sum())),
        }
        for true, predicted in zip(*np.nonzero(counts_CC), strict=True)
        if true != predicted
    ]
    return sorted(pairs, key=lambda each: -each["count"]["hits"])[:limit]


def tag_results(images: Sequence[HeldOutImage], tag_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return name, recall and precision of every tag among the five predicted ones."""
    true, predicted, both = (dict.fromkeys(tag_names, 0) for _ in range(3))
    for each in images:
        if each.tags is None:
            continue
        true_tags = {normalize_tag(tag) for tag in each.tags}
        given = {tag for tag, _ in each.given}
        for count, tags in ((true, true_tags), (predicted, given), (both, true_tags & given)):
            for tag in tags & count.keys():
                count[tag] += 1
    return [
        {
            "name": tag,
            "recall": share(both[tag], true[tag]),
            "precision": share(both[tag], predicted[tag]),
        }
        for tag in tag_names
    ]


def class_reliability(images: Sequence[HeldOutImage]) -> list[tuple[float, int, int]]:
    """Return the reliability bins of the predicted classes."""
    pairs = [
        (each.probability, each.label == each.predicted)
        for each in images
        if each.label is not None and each.probability is not None
    ]
    return _bins(pairs)


def tag_reliability(images: Sequence[HeldOutImage]) -> list[tuple[float, int, int]]:
    """Return the reliability bins of the five predicted tags of every photograph."""
    pairs = []
    for each in images:
        if each.tags is not None:
            true = {normalize_tag(tag) for tag in each.tags}
            pairs += [(probability, tag in true) for tag, probability in each.given]
    return _bins(pairs)


def _bins(pairs: Sequence[tuple[float, bool]]) -> list[tuple[float, int, int]]:
    probability = np.array([pair[0] for pair in pairs], np.float64)
    return reliability_bins(probability, np.array([pair[1] for pair in pairs], np.bool_))
