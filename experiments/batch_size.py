"""What larger batches do to accuracy and likelihood, with three rules for the learning rate.

python -m experiments.batch_size

The number of epochs is the same for all batch sizes, so a larger batch has fewer updates. The rate
of the smallest batch stays ("same"), grows with the square root of the batch size ("root"), or in
proportion to it ("linear"); the smallest batch is also tried with larger rates. TagMyNews: DocNADE,
measured on the validation part. LabelMe: SupDocNADE on three of five folds of the development pool,
with visual words of the whole pool. Both with few topics and epochs: compare rows, and quote none.
A run that was stopped continues.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from experiments.common import mean_and_spread, read_results, write_results
from experiments.data import data_folder, tag_my_news
from experiments.paper.data_sets import read_photo_set
from experiments.paper.protocol import protocol_for
from experiments.pool import folds
from supdocnade import BagOfVisualWords, DampCounts, DocNADE, SupDocNADE

RESULT = "batch_size"
Results = dict[str, dict[str, Any]]

RULES = {"same": 0.0, "root": 0.5, "linear": 1.0}
"""Power of the batch size that multiplies the learning rate."""
FACTORS = (1, 2, 4)
"""Factors of the learning rate of the smallest batch: is a larger batch better, or its rate?"""
TMN: dict[str, Any] = {"n_topics": 50, "activation": "sigmoid", "max_epochs": 10, "random_state": 0}
LABELME: dict[str, Any] = {"n_topics": 50, "max_epochs": 30, "random_state": 0}
N_FOLDS = 3


def trials(smallest: int, learning_rate: float, *others: int) -> dict[str, dict[str, Any]]:
    """Return batch sizes and learning rates by name."""
    found = {
        f"{smallest}, rate × {factor}": {
            "batch_size": smallest, "learning_rate": factor * learning_rate,
        }
        for factor in FACTORS
    }  # fmt: skip
    for size in others:
        for rule, power in RULES.items():
            rate = learning_rate * (size / smallest) ** power
            found[f"{size}, {rule}"] = {"batch_size": size, "learning_rate": rate}
    return found


def run_tmn(results: Results) -> None:
    """Measure the perplexity of the validation texts, and the accuracy of their classes."""
    train, validation, _ = tag_my_news()
    for name, trial in _remaining(trials(64, 3e-3, 256, 1024, 4096), results["tmn"]):
        model = DocNADE(**TMN, **trial).fit(train.counts)
        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.1))
        classifier.fit(model.transform(train.counts), train.labels)
        results["tmn"][name] = {
            **trial,
            "updates": TMN["max_epochs"] * math.ceil(train.counts.shape[0] / trial["batch_size"]),
            "perplexity": model.perplexity(validation.counts),
            "accuracy": classifier.score(model.transform(validation.counts), validation.labels),
        }
        _store(results)


def run_labelme(results: Results) -> None:
    """Measure perplexity and accuracies on the pool, means over folds."""
    remaining = list(_remaining(trials(16, 3e-4, 64, 256), results["labelme"]))
    if not remaining:
        return
    photos = read_photo_set("labelme", data_folder("labelme"))
    protocol = protocol_for(photos)
    inside = np.flatnonzero(protocol.pool_B)
    pool = photos.take(inside)
    parts = [folds(pool, protocol.picture_B[inside]).parts(fold) for fold in range(N_FOLDS)]
    bag = BagOfVisualWords(200, step=12, max_side=256, n_jobs=-1, random_state=0)
    counts = DampCounts().fit_transform(bag.fit_transform(pool.paths))
    labels = np.array(pool.labels)
    for name, trial in remaining:
        runs = [measure_fold(counts, labels, part.train, part.test, trial) for part in parts]
        figures = {each: mean_and_spread([run[each] for run in runs]) for each in runs[0]}
        n_updates = LABELME["max_epochs"] * math.ceil(len(parts[0].train) / trial["batch_size"])
        results["labelme"][name] = {**trial, "updates": n_updates, **figures}
        _store(results)


def measure_fold(
    counts: sparse.csr_array,
    labels: NDArray[Any],
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    trial: dict[str, Any],
) -> dict[str, float]:
    model = SupDocNADE(**LABELME, **trial).fit(counts[train], labels[train])
    svm = make_pipeline(StandardScaler(), SVC(C=10))
    svm.fit(model.transform(counts[train]), labels[train])
    return {
        "perplexity": model.perplexity(counts[test]),
        "softmax": float(model.score(counts[test], labels[test])),
        "svm": float(svm.score(model.transform(counts[test]), labels[test])),
    }


def _remaining(
    wanted: dict[str, dict[str, Any]], found: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the trials that are not measured yet."""
    for name, trial in wanted.items():
        if name not in found:
            print(name, trial, flush=True)
            yield name, trial


def _store(results: Results) -> None:
    write_results(RESULT, "python -m experiments.batch_size", results)


def main() -> None:
    stored = read_results(RESULT)
    results: Results = {name: stored.get(name, {}) for name in ("labelme", "tmn")}
    run_labelme(results)
    run_tmn(results)


if __name__ == "__main__":
    main()
