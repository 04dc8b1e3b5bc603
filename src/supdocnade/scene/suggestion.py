"""Choice of the photographs whose labels would teach a model the most, or are probably wrong.

A photograph is worth a label if the model is uncertain about its class or its tags, and if no
photograph like it is in the list already. The most uncertain one comes first; then, one by one, the
photograph with the largest product of its uncertainty and of its distance, in the space of topics,
to the nearest photograph in the list. A near-duplicate has a distance of about 0.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from supdocnade.checks import check_count
from supdocnade.folders.tags import spell_tag
from supdocnade.images.reading import SkippedImage, image_name
from supdocnade.runs import RunOptions
from supdocnade.scene.dataset import Photographs
from supdocnade.scene.prediction import (
    MAX_BLOCK,
    FittedScene,
    Float32s,
    Floats,
    Prediction,
    iter_predictions,
    predict_compared,
)
from supdocnade.visual_words.encoder import ImageWords, encode_images

CONFIDENT, IMPROBABLE = 0.9, 0.02
"""Least probability of a class or a tag that a photograph should have, and largest of a tag that it
should not have."""

POOL = 10
"""A list of n photographs is chosen among the `POOL` · n most uncertain ones."""


def suggest_photographs(
    fitted: FittedScene, sources: Sequence[Any], n: int, options: RunOptions = RunOptions()
) -> tuple[list[tuple[Prediction, float]], list[SkippedImage]]:
    """Return at most n photographs whose labels would teach the most, best first.

    Each comes with its uncertainty. Photographs that the model has learned a class or tags of are
    left out.

    Parameters
    ----------
    sources : photographs.
    options : with `on_error="skip"` the second result has those that cannot be read.
    """
    check_count("n", n, least=1)
    learned = fitted.training_set.photographs
    rows = zip(learned.content_keys(), learned.labels, learned.tags, strict=True)
    seen = {key for key, label, tags in rows if label is not None or tags}
    pool: list[tuple[float, Prediction, Float32s]] = []
    skipped: list[SkippedImage] = []
    block: list[tuple[str, ImageWords]] = []
    for number, words in enumerate(encode_images(fitted.encoder, sources, options), start=1):
        if isinstance(words, SkippedImage):
            skipped.append(words)
        elif words.key not in seen:
            block.append((image_name(sources, number - 1), words))
        if block and (len(block) == MAX_BLOCK or number == len(sources)):
            photographs = fitted.compare([each for _, each in block])
            topics_BH = photographs.topics_BH
            predictions = predict_compared(fitted, [name for name, _ in block], photographs)
            for prediction, (_, each), topics_H in zip(predictions, block, topics_BH, strict=True):
                pool.append((uncertainty(prediction), replace(prediction, key=each.key), topics_H))
            pool = sorted(pool, key=lambda each: -each[0])[: POOL * n]
            block = []
    uncertainty_N = np.array([value for value, _, _ in pool])
    topics_NH = np.array([topics_H for _, _, topics_H in pool], np.float64)
    chosen = [pool[row] for row in spread_out(uncertainty_N, topics_NH, n)]
    return [(prediction, value) for value, prediction, _ in chosen], skipped


def uncertainty(prediction: Prediction) -> float:
    """Return the uncertainty about class and tags: the mean of both, 0 if certain, at most 1.

    For the class it is 1 minus the margin between the two most probable ones. For tags it is the
    expected number of errors if those above 0.5 are given, per expected tag.
    """
    parts = []
    if len(prediction.probabilities) > 1:
        *_, second, first = sorted(prediction.probabilities.values())
        parts.append(1 - (first - second))
    if prediction.ranked_tags:
        presence_A = np.array([probability for _, probability in prediction.ranked_tags])
        n_errors = np.minimum(presence_A, 1 - presence_A).sum()
        parts.append(n_errors / max(presence_A.sum(), 1))
    return float(np.mean(parts)) if parts else 0.0


def spread_out(uncertainty_N: Floats, topics_NH: Floats, n: int) -> list[int]:
    """Return at most n rows that are uncertain and unlike each other, best first.

    Parameters
    ----------
    uncertainty_N : uncertainty of photographs, the largest first.
    """
    chosen: list[int] = []
    nearest_N = np.full(len(topics_NH), np.inf)
    while len(chosen) < min(n, len(topics_NH)):
        # The first one is the most uncertain.
        value_N = uncertainty_N * nearest_N if chosen else uncertainty_N.copy()
        value_N[chosen] = -1
        chosen.append(int(value_N.argmax()))
        distance_N = np.linalg.norm(topics_NH - topics_NH[chosen[-1]], axis=1)
        nearest_N = np.minimum(nearest_N, distance_N)
    return chosen


def find_doubtful(
    fitted: FittedScene, photographs: Photographs, options: RunOptions = RunOptions()
) -> tuple[list[dict[str, Any]], int]:
    """Return photographs whose class or tags are probably wrong, the surest first.

    Photographs that were held out in training have the prediction of that time. The second result
    is the number of the others that the model was trained on: they are not compared, since it
    learned what they are said to be.
    """
    learned = fitted.training_set.photographs
    keys = dict(zip(learned.names, learned.content_keys(), strict=True))
    held_out = {keys.get(image.name): image for image in fitted.held_out.images}
    doubtful: list[dict[str, Any]] = []
    n_learned = 0
    for row, found in enumerate(iter_predictions(fitted, photographs.sources, options)):
        if isinstance(found, SkippedImage):
            continue
        label, tags = photographs.labels[row], photographs.tags[row]
        predicted, probability, ranked = found.label, found.probability or 0.0, found.ranked_tags
        if found.key in held_out:
            image = held_out[found.key]
            predicted, probability, ranked = image.predicted, image.probability or 0.0, image.given
        elif found.key in fitted.training_keys or found.unfamiliar:
            n_learned += not found.unfamiliar
            continue
        is_wrong = label in fitted.classes and label != predicted and probability >= CONFIDENT
        own = {spell_tag(tag, fitted.tag_names) for tag in tags or ()}
        missing = [tag for tag, p in ranked if tags and tag not in own and p >= CONFIDENT]
        improbable = [tag for tag, p in ranked if tag in own and p <= IMPROBABLE]
        if is_wrong or missing or improbable:
            doubtful.append(
                {
                    "file": found.name,
                    "label": label,
                    "predicted": predicted if is_wrong else label,
                    "probability": probability if is_wrong else None,
                    "missing_tags": missing,
                    "improbable_tags": improbable,
                }
            )
    doubtful.sort(key=lambda each: -(each["probability"] or 0.0))
    return doubtful, n_learned
