"""`SceneModel` with parts of its recipe changed, compared on the development pools.

python -m experiments.recipe_pools               # every variant that is not in the results yet
python -m experiments.recipe_pools NAME ...      # the variants of these names

Five folds of the pools of LabelMe and Scene15, near-duplicates in one fold: a model is fitted on
four of them, with its default settings but for those of the variant, and tested on the fifth. Tags
are LabelMe's free ones. A part that gains less than 0.3 points of accuracy and 0.003 of F is taken
out. Compare variants; the pools are what choices are made on, so quote no number of them as an
accuracy.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np

from experiments.common import read_results, write_results
from experiments.data import data_folder
from experiments.network_splits import NETWORK, Memory
from experiments.paper.data_sets import read_photo_set
from experiments.paper.protocol import protocol_for
from experiments.pool import N_FOLDS, folds
from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.metrics import (
    N_TAGS,
    class_metrics,
    class_sums,
    f_measure,
    per_tag_metrics,
    tag_counts,
    top_ranked,
)
from supdocnade.scene.model import scene_model
from supdocnade.scene.prediction import Prediction
from supdocnade.scene.tag_heads import present_tags

DATA_SETS = {"labelme": "tags_free", "scene15": None}

VARIANTS: dict[str, dict[str, Any]] = {
    "recipe": {},
    "without votes for tags": {"patch": {"supdocnade.scene.selection.VOTE_WEIGHTS": (0.0,)}},
    "500 words": {"n_words": 500},
    "2,000 words": {"n_words": 2000},
    "regions of 2 × 2": {"grid": [(1, 1), (2, 2)]},
    "tags as words": {"annotation_output": "words"},
    "efficientnet-lite0": {"features": "efficientnet-lite0"},
    "SIFT": {"features": "sift"},
}
"""Settings, and values of constants in their place."""

Part = tuple[list[Any], list[str], list[Sequence[str] | None]]


def pool_parts(
    name: str = "labelme", tags: str | None = "tags_free"
) -> Iterator[tuple[Part, Part]]:
    """Yield the training and the test part of each fold of the pool of a data set.

    Parameters
    ----------
    tags : name of the tag set. If None, no tags are known.
    """
    photos = read_photo_set(name, data_folder(name))
    protocol = protocol_for(photos)
    inside = np.flatnonzero(protocol.pool_B)
    pool = photos.take(inside)
    roles = folds(pool, protocol.picture_B[inside])

    def part(rows: Any) -> Part:
        some = pool.take(rows)
        known: list[Any] = [None] * len(some) if tags is None else list(some.tags[tags])
        return list(some.paths), list(some.labels), known

    for number in range(N_FOLDS):
        found = roles.parts(number)
        yield part(found.train), part(found.test)


def measure(settings: Mapping[str, Any], parts: Iterator[tuple[Part, Part]]) -> dict[str, Any]:
    """Return the share of right classes and the metrics of tags over all test parts."""
    predictions: list[Prediction] = []
    labels: list[str] = []
    tags: list[Any] = []
    for train, test in parts:
        model = scene_model(**settings, random_state=0, n_jobs=-1).fit(*train)
        predictions += [p for p in model.iter_predictions(test[0]) if isinstance(p, Prediction)]
        labels += test[1]
        tags += test[2]
    right = np.array([p.label == label for p, label in zip(predictions, labels, strict=True)])
    confidence = np.array([p.probability for p in predictions], np.float64)
    metrics = class_metrics(class_sums(confidence, right))
    if any(tags):
        vocabulary = AnnotationVocabulary.of(tags, min_count=1)
        true_BA = present_tags(tags, vocabulary)
        scores_BA = np.full(true_BA.shape, -1.0)
        for row, each in enumerate(predictions):
            for rank, (tag, _) in enumerate(each.ranked_tags[:N_TAGS]):
                scores_BA[row, vocabulary.names.index(tag)] = -rank / N_TAGS
        top_BX = top_ranked(scores_BA, N_TAGS)
        given_BA = scores_BA > -1
        metrics |= {"f_measure": f_measure(top_BX, true_BA)}
        metrics |= per_tag_metrics(*tag_counts(given_BA, true_BA).values())
    return metrics


def main() -> None:
    results = read_results("recipe_pools").get("variants", {})
    for data_set, tags in DATA_SETS.items():
        for name in sys.argv[1:] or list(VARIANTS):
            if data_set in results.setdefault(name, {}) and not sys.argv[1:]:
                continue
            settings = {"features": NETWORK, **VARIANTS[name]}
            memory = Memory()
            with ExitStack() as stack:
                for place, value in settings.pop("patch", {}).items():
                    stack.enter_context(patch(place, value))
                stack.enter_context(memory)
                found = measure(settings, pool_parts(data_set, tags))
            print(name, data_set, found, flush=True)
            results[name][data_set] = found
            write_results(
                "recipe_pools", "python -m experiments.recipe_pools", {"variants": results}
            )


if __name__ == "__main__":
    main()
