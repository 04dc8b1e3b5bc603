"""What labels of suggested photographs teach, compared with labels of photographs at random.

python -m experiments.suggestions [balanced] [unbalanced]

The development pool of LabelMe. A model of 40 photographs asks, in three rounds, for the classes
and tags of 24 more among the rest of the training part of its fold, and is extended by them as
`supdocnade train --add` does. They are chosen at random, by uncertainty alone, or as `supdocnade
suggest` chooses them. Metrics are those on the test part, which has all classes alike. SIFT, 100
topics and 300 visual words, so that it takes minutes.

balanced: five folds; 48 photographs of each class, five of them in the first model.
unbalanced: three folds; 48 photographs of the largest class and 0.72 times as many of each next
one, and the first 40 at random, as in an archive.
"""

import sys
from collections.abc import Callable, Sequence
from copy import copy
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from experiments.common import mean_and_spread, read_results, write_results
from experiments.recipe_pools import Part, pool_parts
from supdocnade.metrics import N_TAGS
from supdocnade.runs import RunOptions
from supdocnade.scene.model import scene_model
from supdocnade.scene.prediction import FittedScene, Prediction, iter_predictions
from supdocnade.scene.suggestion import POOL, suggest_photographs

N_FIRST, FIRST_PER_CLASS, N_ROUNDS, PER_ROUND = 40, 5, 3, 24
N_FOLDS = {"balanced": 5, "unbalanced": 3}
LARGEST_CLASS, NEXT_CLASS = 48, 0.72
SETTINGS: dict[str, Any] = {"n_topics": 100, "n_words": 300}


def at_random(fitted: FittedScene, paths: list[Any], options: RunOptions, seed: int) -> list[int]:
    """Return the rows of photographs chosen at random."""
    chosen: list[int] = np.random.default_rng(seed).permutation(len(paths))[:PER_ROUND].tolist()
    return chosen


def uncertain(fitted: FittedScene, paths: list[Any], options: RunOptions, seed: int) -> list[int]:
    """Return the rows of the most uncertain photographs, however alike they are."""
    ranked, _ = suggest_photographs(fitted, paths, len(paths), options)
    ranked = sorted(ranked, key=lambda each: -each[1])
    return [paths.index(prediction.name) for prediction, _ in ranked[:PER_ROUND]]


def suggested(fitted: FittedScene, paths: list[Any], options: RunOptions, seed: int) -> list[int]:
    """Return the rows of the photographs that `supdocnade suggest` lists."""
    found, _ = suggest_photographs(fitted, paths, PER_ROUND, options)
    return [paths.index(prediction.name) for prediction, _ in found]


Choice = Callable[[FittedScene, list[Any], RunOptions, int], list[int]]
CHOICES: dict[str, Choice] = {"random": at_random, "uncertain": uncertain, "suggested": suggested}


def take(part: Part, rows: Sequence[int]) -> Part:
    """Return some photographs of a part."""
    paths, labels, tags = part
    return [paths[i] for i in rows], [labels[i] for i in rows], [tags[i] for i in rows]


def measure(fitted: FittedScene, part: Part, options: RunOptions) -> dict[str, float]:
    """Return the accuracy and the mean F-measure of five tags."""
    right, f = [], []
    predictions = iter_predictions(fitted, part[0], options)
    for each, label, tags in zip(predictions, part[1], part[2], strict=True):
        assert isinstance(each, Prediction)
        right.append(each.label == label)
        if tags:
            ranked = {tag for tag, _ in each.ranked_tags[:N_TAGS]}
            f.append(2 * len(ranked & set(tags)) / (N_TAGS + len(set(tags))))
    return {"accuracy": float(np.mean(right)), "f_measure": float(np.mean(f))}


def balanced_order(labels: Sequence[str], seed: int) -> list[int]:
    """Return all photographs in the order in which they may be labelled, the first ones first."""
    order = np.random.default_rng(seed).permutation(len(labels)).tolist()
    first: list[int] = []
    for label in sorted(set(labels)):
        first += [row for row in order if labels[row] == label][:FIRST_PER_CLASS]
    return first + [row for row in order if row not in set(first)]


def unbalanced_order(labels: Sequence[str], seed: int) -> list[int]:
    """Return some photographs, many of some classes and few of others, in random order."""
    rng = np.random.default_rng(seed)
    classes = sorted(set(labels))
    rng.shuffle(classes)
    kept: list[int] = []
    for number, label in enumerate(classes):
        rows = rng.permutation([row for row, other in enumerate(labels) if other == label])
        kept += rows[: round(LARGEST_CLASS * NEXT_CLASS**number)].tolist()
    order: list[int] = rng.permutation(kept).tolist()
    return order


ORDERS = {"balanced": balanced_order, "unbalanced": unbalanced_order}


def run_fold(
    train: Part, test: Part, pool: str, seed: int, cache: Path
) -> dict[str, list[dict[str, float]]]:
    """Return the metrics after each round, by the way photographs are chosen."""
    paths = [str(path) for path in train[0]]
    train = (paths, *train[1:])
    order = ORDERS[pool](train[1], seed)
    options = RunOptions(n_jobs=1, cache=cache, device="cpu")
    first = scene_model(**SETTINGS, random_state=seed, n_jobs=1, cache=cache)
    first.fit(*take(train, order[:N_FIRST]))
    found: dict[str, list[dict[str, float]]] = {}
    for name, choose in CHOICES.items():
        model, rest = copy(first), order[N_FIRST:]
        found[name] = [measure(model.fitted_, test, options)]
        for number in range(N_ROUNDS):
            chosen = choose(model.fitted_, [paths[row] for row in rest], options, number)
            rows = [rest[i] for i in chosen]
            model.fit_more(*take(train, rows))
            rest = [row for row in rest if row not in set(rows)]
            found[name].append(measure(model.fitted_, test, options))
        print(pool, seed, name, found[name], flush=True)
    return found


def summarize(folds: list[dict[str, list[dict[str, float]]]]) -> dict[str, Any]:
    """Return mean and spread over the folds after each round."""
    return {
        name: [
            {
                figure: mean_and_spread([fold[name][number][figure] for fold in folds])
                for figure in ("accuracy", "f_measure")
            }
            for number in range(N_ROUNDS + 1)
        ]
        for name in folds[0]
    }


def main() -> None:
    pools: dict[str, Any] = read_results("suggestions").get("pools", {})
    for pool in sys.argv[1:] or N_FOLDS:
        folds = []
        with TemporaryDirectory() as cache:
            for seed, (train, test) in enumerate(islice(pool_parts(), N_FOLDS[pool])):
                folds.append(run_fold(train, test, pool, seed, Path(cache)))
        pools[pool] = {"choices": summarize(folds), "folds": folds}
        results = {
            "labels": [N_FIRST + PER_ROUND * number for number in range(N_ROUNDS + 1)],
            "pool_factor": POOL,
            "settings": SETTINGS,
            "pools": pools,
        }
        write_results("suggestions", "python -m experiments.suggestions", results)


if __name__ == "__main__":
    main()
