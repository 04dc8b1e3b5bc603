"""What larger batches do to accuracy and likelihood, with three rules for the learning rate.

python -m experiments.batch_size

The number of epochs is the same for all batch sizes, so a larger batch has fewer updates. The rate
of the smallest batch stays ("same"), grows with the square root of the batch size ("root"), or in
proportion to it ("linear"). TagMyNews: DocNADE, measured on the validation part. LabelMe:
SupDocNADE on three of five folds of the development pool, with visual words of the whole pool. Both
with few topics and epochs: compare rows, and quote none.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from experiments.common import mean_and_spread, write_results
from experiments.data import data_folder, tag_my_news
from experiments.pool import folds
from supdocnade import BagOfVisualWords, DampCounts, DocNADE, SupDocNADE
from supdocnade.paper.data_sets import read_photo_set
from supdocnade.paper.protocol import protocol_for

RULES = {"same": 0.0, "root": 0.5, "linear": 1.0}
"""Power of the batch size that multiplies the learning rate."""
TMN: dict[str, Any] = {"n_topics": 50, "activation": "sigmoid", "max_epochs": 10, "random_state": 0}
LABELME: dict[str, Any] = {"n_topics": 50, "max_epochs": 30, "random_state": 0}
N_FOLDS = 3


def trials(smallest: int, learning_rate: float, *others: int) -> dict[str, dict[str, Any]]:
    """Return batch sizes and learning rates by name."""
    found = {f"{smallest}": {"batch_size": smallest, "learning_rate": learning_rate}}
    for size in others:
        for rule, power in RULES.items():
            rate = learning_rate * (size / smallest) ** power
            found[f"{size}, {rule}"] = {"batch_size": size, "learning_rate": rate}
    return found


def tmn() -> dict[str, Any]:
    """Return the perplexity of the validation texts, and the accuracy of their classes."""
    train, validation, _ = tag_my_news()
    results = {}
    for name, trial in trials(64, 3e-3, 256, 1024, 4096).items():
        model = DocNADE(**TMN, **trial).fit(train.counts)
        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.1))
        classifier.fit(model.transform(train.counts), train.labels)
        results[name] = {
            **trial,
            "updates": TMN["max_epochs"] * math.ceil(train.counts.shape[0] / trial["batch_size"]),
            "perplexity": model.perplexity(validation.counts),
            "accuracy": classifier.score(model.transform(validation.counts), validation.labels),
        }
        print("TagMyNews", name, results[name], flush=True)
    return results


def labelme() -> dict[str, Any]:
    """Return perplexity and accuracies of the pool, means over folds."""
    photos = read_photo_set("labelme", data_folder("labelme"))
    protocol = protocol_for(photos)
    inside = np.flatnonzero(protocol.pool_B)
    pool = photos.take(inside)
    parts = [folds(pool, protocol.picture_B[inside]).parts(fold) for fold in range(N_FOLDS)]
    bag = BagOfVisualWords(200, step=12, max_side=256, n_jobs=-1, random_state=0)
    counts = DampCounts().fit_transform(bag.fit_transform(pool.paths))
    labels = np.array(pool.labels)
    results = {}
    for name, trial in trials(16, 3e-4, 64, 256).items():
        runs = [measure_fold(counts, labels, part.train, part.test, trial) for part in parts]
        figures = {each: mean_and_spread([run[each] for run in runs]) for each in runs[0]}
        n_updates = LABELME["max_epochs"] * math.ceil(len(parts[0].train) / trial["batch_size"])
        results[name] = {**trial, "updates": n_updates, **figures}
        print("LabelMe", name, results[name], flush=True)
    return results


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


def main() -> None:
    write_results(
        "batch_size",
        "python -m experiments.batch_size",
        {"labelme": labelme(), "tmn": tmn()},
    )


if __name__ == "__main__":
    main()
