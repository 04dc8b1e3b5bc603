"""Choice of the photographs whose labels would teach a model the most.

A photograph is worth a label if the model is uncertain about its class or its tags, and if no
photograph like it is in the list already. The most uncertain one comes first; then, one by one, the
photograph with the largest product of its uncertainty and of its distance, in the space of topics,
to the nearest photograph in the list. A near-duplicate has a distance of about 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_count
from supdocnade.runs import RunOptions
from supdocnade.scene.prediction import (
    MAX_BLOCK,
    FittedScene,
    Float32s,
    Floats,
    Prediction,
    predict_topics,
)
from supdocnade.visual_words.cache import ImageWords
from supdocnade.visual_words.parallel import SkippedImage, encode_images, image_name

POOL = 10
"""The list is chosen among this many times as many photographs, the most uncertain ones."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Suggestion:
    """A photograph that is worth a label."""

    prediction: Prediction
    uncertainty: float
    """0: the model is certain; 1: it has no idea."""
    topics_H: Float32s


def suggest_photographs(
    fitted: FittedScene, sources: Sequence[Any], n: int, options: RunOptions = RunOptions()
) -> tuple[list[Suggestion], list[SkippedImage]]:
    """Return at most n photographs whose labels would teach the most, best first.

    Photographs that the model has learned a class or tags of are left out.

    Parameters
    ----------
    sources : photographs.
    options : with `on_error="skip"` the second result has those that cannot be read.
    """
    check_count("n", n, least=1)
    learned = fitted.training_set.photographs
    rows = zip(learned.content_keys(), learned.labels, learned.tags, strict=True)
    seen = {key for key, label, tags in rows if label is not None or tags}
    pool: list[Suggestion] = []
    skipped: list[SkippedImage] = []
    block: list[tuple[str, ImageWords]] = []
    for number, words in enumerate(encode_images(fitted.encoder, sources, options), start=1):
        if isinstance(words, SkippedImage):
            skipped.append(words)
        elif words.key not in seen:
            block.append((image_name(sources, number - 1), words))
        if block and (len(block) == MAX_BLOCK or number == len(sources)):
            pool += _measure(fitted, block)
            pool = sorted(pool, key=lambda each: -each.uncertainty)[: POOL * n]
            block = []
    return spread_out(pool, n), skipped


def _measure(fitted: FittedScene, block: Sequence[tuple[str, ImageWords]]) -> list[Suggestion]:
    names, words = zip(*block, strict=True)
    topics_BH = fitted.topics_of(words)
    predictions = predict_topics(fitted, names, topics_BH)
    proba_BC = fitted.class_proba(topics_BH)
    presence_BA = fitted.tag_proba(topics_BH)
    uncertainty_B = uncertainty(proba_BC, presence_BA)
    return [
        Suggestion(
            prediction=replace(prediction, key=each.key),
            uncertainty=float(uncertainty_B[row]),
            topics_H=topics_BH[row],
        )
        for row, (prediction, each) in enumerate(zip(predictions, words, strict=True))
    ]


def uncertainty(proba_BC: Floats, presence_BA: Floats) -> Floats:
    """Return the uncertainty about class and tags, 0 to 1: the mean of both, (B,).

    That of a class is 1 minus the margin between the two most probable ones. That of tags is the
    number of errors to expect, if those above 0.5 are given, per tag to expect.

    Parameters
    ----------
    proba_BC : probabilities of classes.
    presence_BA : probabilities of tags.
    """
    parts: list[Floats] = []
    if proba_BC.shape[1] > 1:
        second_B, first_B = np.partition(proba_BC, -2, axis=1)[:, -2:].T
        parts.append(1 - (first_B - second_B))
    if presence_BA.shape[1]:
        errors_B = np.minimum(presence_BA, 1 - presence_BA).sum(axis=1)
        parts.append(errors_B / np.maximum(presence_BA.sum(axis=1), 1))
    return np.mean(parts, axis=0) if parts else np.zeros(len(presence_BA))


def spread_out(pool: Sequence[Suggestion], n: int) -> list[Suggestion]:
    """Return at most n photographs that are uncertain and unlike each other, best first.

    Parameters
    ----------
    pool : photographs, the most uncertain first.
    """
    if not pool:
        return []
    uncertainty_N = np.array([each.uncertainty for each in pool])
    topics_NH = np.array([each.topics_H for each in pool], np.float64)
    chosen = [0]
    nearest_N: NDArray[np.float64] = np.full(len(pool), np.inf)
    while len(chosen) < min(n, len(pool)):
        distance_N = np.linalg.norm(topics_NH - topics_NH[chosen[-1]], axis=1)
        nearest_N = np.minimum(nearest_N, distance_N)
        value_N = uncertainty_N * nearest_N
        value_N[chosen] = -1
        chosen.append(int(value_N.argmax()))
    return [pool[number] for number in chosen]
