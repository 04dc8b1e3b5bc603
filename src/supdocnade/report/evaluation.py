"""Evaluation of a scene model: on photographs with known classes and tags, and when it was fitted.

The metrics themselves are defined in `supdocnade.metrics`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.corpus.disk import Corpus
from supdocnade.errors import InvalidArgument
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.folders.tags import AnnotationVocabulary, Tags
from supdocnade.images.reading import SkippedImage
from supdocnade.metrics import (
    N_TAGS,
    Sums,
    add_sums,
    class_metrics,
    class_sums,
    tag_counts,
    tag_metrics,
    tag_sums,
    top_ranked,
)
from supdocnade.runs import RunOptions
from supdocnade.scene.calibration import HeldOutImage
from supdocnade.scene.prediction import PREDICTING, FittedScene
from supdocnade.scene.references import Compared
from supdocnade.scene.tag_heads import present_tags
from supdocnade.visual_words.encoder import encode_images
from supdocnade.visual_words.to_corpus import read_features

BLOCK_SIZE = 256
"""Photographs that are counted together, which bounds the memory."""


Confusion = dict[str, dict[str, int]]
"""Number of photographs by true and predicted class."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """Metrics of a model; None where the truth is not known."""

    n_images: int
    """Photographs that could be read."""
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
    """F-measure of the tags whose probability is at least the threshold."""
    tag_precision: float | None = None
    """Mean precision of the five best tags over the tags that a photograph has, tag by tag."""
    tag_recall: float | None = None
    """Their mean recall."""
    tag_f1: float | None = None
    """The harmonic mean of both."""
    n_tags_found: int = 0
    """Number of tags with a recall above 0, of `n_tags_present` that a photograph has."""
    n_tags_present: int = 0
    tag_calibration_error: float | None = None
    confusion: Confusion = field(default_factory=dict)
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
    skip, sources = replace(options, on_error="skip"), [record.source for record in records]
    images = encode_images(fitted.encoder, sources, skip, stage=PREDICTING)
    encoded = zip(records, images, strict=True)
    skipped: list[SkippedImage] = []
    sums: Sums = {}
    while block := list(islice(encoded, BLOCK_SIZE)):
        skipped += [words for _, words in block if isinstance(words, SkippedImage)]
        read = [(record, words) for record, words in block if not isinstance(words, SkippedImage)]
        if read:
            labels = [record.label for record, _ in read]
            tags = [record.tags for record, _ in read]
            keys = [words.key for _, words in read]
            photographs = fitted.compare([words for _, words in read])
            add_sums(sums, _count(fitted, labels, tags, keys, photographs))
    return _make_evaluation(fitted, sums, skipped)


def evaluate_corpus(
    fitted: FittedScene, corpus: Corpus, options: RunOptions = RunOptions()
) -> Evaluation:
    """Predict the photographs of a corpus that the model has encoded, and compare as above."""
    if corpus.encoder != fitted.encoder.fingerprint():
        raise InvalidArgument(
            f"{corpus.folder} must be encoded with the visual words of the model, got those of "
            "another one."
        )
    has_features = fitted.encoder.n_image_features > 0
    features = read_features(corpus) if has_features else [None] * len(corpus.shards)
    sums: Sums = {}
    done = 0
    for found, features_BF in zip(corpus.records(), features, strict=True):
        n_images = len(found.names)
        counts = corpus.counts(slice(done, done + n_images))
        photographs = fitted.compare_counts(counts, features_BF)
        add_sums(sums, _count(fitted, found.labels, found.tags, found.keys, photographs))
        done += n_images
        options.progress(PREDICTING, done, len(corpus))
    return _make_evaluation(fitted, sums)


def _make_evaluation(
    fitted: FittedScene, sums: Sums, skipped: Sequence[SkippedImage] = ()
) -> Evaluation:
    if not sums.get("n_images"):
        raise InvalidArgument("there must be a photograph that can be read, got none.")
    metrics = {**_class_metrics(fitted, sums), **_tag_metrics(fitted, sums)}
    if not metrics:
        raise InvalidArgument(
            "there is nothing to compare with: the photographs must have classes or tags, "
            "and the model must know some."
        )
    counts = {name: sums[name] for name in ("n_images", "n_unfamiliar", "n_trained")}
    return Evaluation(**counts, skipped=tuple(skipped), **metrics)


def _count(
    fitted: FittedScene,
    labels: Sequence[str | None],
    tags: Sequence[Tags],
    keys: Sequence[str | None],
    photographs: Compared,
) -> Sums:
    """Predict photographs; return sums over them."""
    proba_BC = fitted.class_proba(photographs)
    scores_BA = fitted.tag_scores(photographs)
    return {
        "n_images": len(photographs),
        "n_unfamiliar": int(fitted.is_unfamiliar(photographs.topics_BH).sum()),
        "n_trained": sum(key in fitted.training_keys for key in keys),
        **_class_sums(fitted, labels, proba_BC),
        **_tag_sums(fitted, tags, scores_BA),
    }


def _class_sums(
    fitted: FittedScene, labels: Sequence[str | None], proba_BC: NDArray[np.float64]
) -> Sums:
    if not fitted.classes:
        return {}
    proba_BC = proba_BC[[label is not None for label in labels]]
    true = [label for label in labels if label is not None]
    predicted = [fitted.classes[number] for number in proba_BC.argmax(axis=1).tolist()]
    right = np.array([one == other for one, other in zip(true, predicted, strict=True)], np.bool_)
    confidence = proba_BC.max(axis=1)
    sure = confidence >= fitted.choices.unsure_below
    return {
        **class_sums(confidence, right),
        "n_sure": int(sure.sum()),
        "n_right_of_sure": int(right[sure].sum()),
        "confusion": Counter(zip(true, predicted, strict=True)),
    }


def _class_metrics(fitted: FittedScene, sums: Sums) -> dict[str, Any]:
    metrics = class_metrics(sums)
    if not metrics:
        return {}
    confusion = make_confusion(sums["confusion"], fitted.classes)
    n_known = sum(sum(row.values()) for label, row in confusion.items() if label in row)
    n_sure = sums["n_sure"]
    return {
        **metrics,
        "n_unknown_classes": sums["n_labelled"] - n_known,
        "n_unsure": sums["n_labelled"] - n_sure,
        "accuracy_of_sure": share(sums["n_right_of_sure"], n_sure)["value"],
        "confusion": confusion,
    }


def _tag_sums(fitted: FittedScene, tags: Sequence[Tags], scores_BA: NDArray[np.float64]) -> Sums:
    tagged = [some is not None for some in tags]
    if not fitted.tag_names or not any(tagged):
        return {}
    vocabulary = AnnotationVocabulary(fitted.tag_names)
    present_BX = present_tags([some for some in tags if some is not None], vocabulary)
    probability_BA = fitted.tag_presence(scores_BA[tagged])
    chosen_BA = probability_BA >= fitted.tag_threshold
    top_BX = top_ranked(scores_BA[tagged], N_TAGS)
    return tag_sums(top_BX, chosen_BA, probability_BA, present_BX)


def _tag_metrics(fitted: FittedScene, sums: Sums) -> dict[str, Any]:
    if not sums.get("n_tagged"):
        return {}
    tags = {
        each["name"]: {
            "n_images": each["recall"]["total"],
            "n_predicted": each["precision"]["total"],
            "precision": each["precision"]["value"],
            "recall": each["recall"]["value"],
        }
        for each in _tag_shares(sums, fitted.tag_names)
    }
    return {**tag_metrics(sums), "tags": tags}


def share(hits: int, total: int) -> dict[str, Any]:
    """Return a share with its numerator and denominator; None if the denominator is 0."""
    return {"hits": hits, "total": total, "value": hits / total if total else None}


def make_confusion(counts: Mapping[tuple[str, str], int], classes: Sequence[str]) -> Confusion:
    """Return a row for every true class, in their order, with a column for every class.

    Parameters
    ----------
    counts : number of photographs of each pair of true and predicted class.
    """
    confusion: Confusion = {}
    for (label, predicted), number in sorted(counts.items()):
        confusion.setdefault(label, dict.fromkeys(classes, 0))[predicted] = number
    return confusion


def held_out_confusion(images: Sequence[HeldOutImage], classes: Sequence[str]) -> Confusion:
    """Return the confusion of held-out photographs, with a row for every class."""
    none = dict.fromkeys(classes, 0)
    found = make_confusion(
        Counter(
            (each.label, each.predicted)
            for each in images
            if each.label in none and each.predicted in none
        ),
        classes,
    )
    return {label: found.get(label, none) for label in classes}


def class_results(confusion: Confusion) -> list[dict[str, Any]]:
    """Return name, recall and precision of every class, given a row for every class."""
    return [
        {
            "name": label,
            "recall": share(row[label], sum(row.values())),
            "precision": share(row[label], sum(each[label] for each in confusion.values())),
        }
        for label, row in confusion.items()
    ]


def frequent_confusions(confusion: Confusion, limit: int) -> list[dict[str, Any]]:
    """Return the most frequent pairs of a true and another predicted class."""
    pairs: list[dict[str, Any]] = [
        {"label": label, "predicted": predicted, "count": share(number, sum(row.values()))}
        for label, row in confusion.items()
        for predicted, number in row.items()
        if predicted != label and number
    ]
    return sorted(pairs, key=lambda each: -each["count"]["hits"])[:limit]


def tag_results(images: Sequence[HeldOutImage], tag_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return name, recall and precision of every tag among the five predicted ones."""
    vocabulary = AnnotationVocabulary(tuple(tag_names))
    tagged = [each for each in images if each.tags is not None]
    given = [[tag for tag, _ in each.given] for each in tagged]
    given_BA, true_BA = (
        vocabulary.encode(tags).toarray() > 0 for tags in (given, [each.tags for each in tagged])
    )
    return _tag_shares(tag_counts(given_BA, true_BA), tag_names)


def _tag_shares(counts: Sums, tag_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return name, recall and precision of every tag, given `metrics.tag_counts`."""
    numbers = (counts[name].tolist() for name in ("n_true_A", "n_given_A", "n_both_A"))
    return [
        {"name": tag, "recall": share(n_both, n_true), "precision": share(n_both, n_given)}
        for tag, n_true, n_given, n_both in zip(tag_names, *numbers, strict=True)
    ]
