"""Visual words of Scene15 and LabelMe, with an RBF SVM on square-rooted counts.

python -m experiments.visual_words

The baseline for every topic model on these images: dense SIFT with a step of 8 and patches of 16
pixels (Scene15 resized to 300), words learned on the training images of each split, five splits
(100 images per class for training; the rest, or 100 of LabelMe, for testing; identical files on one
side). C and γ are chosen on a fifth of the training part. A stopped run resumes; remove
experiments/results/visual_words.json to start again.
"""

from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedShuffleSplit

from experiments.common import read_results, timed, write_results
from experiments.data import data_folder
from experiments.paper.data_sets import data_set
from experiments.paper.kernel_svm import best_svm, predict_svm, rbf_kernel, score_svms
from experiments.paper.protocol import N_SPLITS, split_records
from experiments.paper.words import GRIDS, WordRecipe, encode_words

WORDS = (240, 1000)
PERCENTILES = (0, 15)


def svm_accuracy(
    X: NDArray[np.float64], y: NDArray[Any], Z: NDArray[np.float64], z: NDArray[Any]
) -> dict[str, Any]:
    """Return the accuracy of an RBF SVM, its C and γ chosen on a fifth of the training part."""
    cut = StratifiedShuffleSplit(1, test_size=0.2, random_state=0)
    ((first, second),) = cut.split(X, y)
    C, gamma, _ = best_svm(score_svms(rbf_kernel(X[first], X[second]), y[first], y[second]))
    predicted = predict_svm(rbf_kernel(X, Z), y, C, gamma)
    return {"accuracy": float((predicted == z).mean()), "C": C, "gamma": gamma}


def run_one(name: str, number: int, n_words: int, percentile: int) -> dict[str, Any]:
    """Learn words on one training part and return the accuracy of every grid."""
    spec = data_set(name.lower())
    records = spec.read(data_folder(spec.folder), None)
    train, test = split_records(spec.name, records, seed=0, number=number)
    labels = np.array([record.label for record in records])
    recipe = WordRecipe(n_words=n_words, contrast_percentile=percentile)
    result: dict[str, Any] = {}
    with timed(result, "seconds for words"):
        paths = [record.path for record in records]
        words, _ = encode_words(paths, train, recipe, max_side=spec.max_side, seed=number)
    for grid in ("1×1", "2×2", "pyramid"):
        roots = np.sqrt(words.counts(GRIDS[grid]).toarray().astype(np.float64))
        result[grid] = svm_accuracy(roots[train], labels[train], roots[test], labels[test])
        accuracy = result[grid]["accuracy"]
        print(f"{name}, split {number}, {n_words} words, {grid}: {accuracy:.4f}", flush=True)
    return result


def main() -> None:
    results: dict[str, Any] = read_results("visual_words").get("results", {})
    missing = [
        (name, number, n_words, percentile)
        for name in ("LabelMe", "Scene15")
        for number in range(N_SPLITS)
        for n_words in WORDS
        for percentile in PERCENTILES
        if _key(name, number, n_words, percentile) not in results
    ]
    workers = Parallel(n_jobs=2, return_as="generator")
    for arguments, result in zip(
        missing, workers(delayed(run_one)(*each) for each in missing), strict=True
    ):
        results[_key(*arguments)] = result
        write_results("visual_words", "python -m experiments.visual_words", {"results": results})


def _key(name: str, number: int, n_words: int, percentile: int) -> str:
    return f"{name}, split {number}, {n_words} words, percentile {percentile}"


if __name__ == "__main__":
    main()
