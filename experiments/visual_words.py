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
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.svm import SVC

from experiments.common import read_results, timed, write_results
from experiments.data import data_folder
from experiments.splits import split_labelme, split_scene15
from supdocnade import BagOfVisualWords
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.folders.splits import Split
from supdocnade.paper.data_sets import read_labelme, read_scene15

N_SPLITS = 5
WORDS = (240, 1000)
PERCENTILES = (0, 15)
GRIDS = {"1×1": ((1, 1),), "2×2": ((2, 2),), "pyramid": ((1, 1), (2, 2), (4, 4))}
C_GRID, GAMMA_GRID = (1.0, 10.0, 100.0), (0.25, 0.5, 1.0, 2.0, 4.0)
"""γ is in units of 1 / the median squared distance of training images."""

FINEST = 4


def read(name: str) -> tuple[list[ImageRecord], int | None]:
    """Return a data set and the longest side of its images."""
    if name == "Scene15":
        return read_scene15(data_folder("scene15")), 300
    return read_labelme(data_folder("labelme"), tags=None), None


def split(name: str, records: list[ImageRecord], number: int) -> Split:
    return (split_scene15 if name == "Scene15" else split_labelme)(records, seed=0, number=number)


def counts_of_grid(
    finest: sparse.csr_array, n_words: int, grids: tuple[tuple[int, int], ...]
) -> NDArray[np.float64]:
    """Return counts for coarser grids: cells of 4 × 4 add up to those of 2 × 2 and 1 × 1."""
    cells = finest.toarray().reshape(-1, FINEST, FINEST, n_words)
    parts = []
    for rows, columns in grids:
        height, width = FINEST // rows, FINEST // columns
        blocks = cells.reshape(-1, rows, height, columns, width, n_words).sum(axis=(2, 4))
        parts.append(blocks.reshape(len(cells), -1))
    return np.hstack(parts).astype(np.float64)


def svm_accuracy(
    X: NDArray[np.float64], y: NDArray[Any], Z: NDArray[np.float64], z: NDArray[Any]
) -> tuple[float, dict[str, float]]:
    """Return the accuracy of an RBF SVM, its C and γ chosen on a fifth of the training part."""
    distance, unseen = euclidean_distances(X, squared=True), euclidean_distances(Z, X, squared=True)
    scale = float(np.median(distance[np.triu_indices(len(X), 1)]))
    cut = StratifiedShuffleSplit(1, test_size=0.2, random_state=0)
    ((first, second),) = cut.split(X, y)
    best, chosen = -1.0, (1.0, 1.0)
    for gamma in GAMMA_GRID:
        kernel = np.exp(-gamma / scale * distance)
        for C in C_GRID:
            part = SVC(C=C, kernel="precomputed").fit(kernel[np.ix_(first, first)], y[first])
            accuracy = part.score(kernel[np.ix_(second, first)], y[second])
            if accuracy > best:
                best, chosen = accuracy, (C, gamma)
    C, gamma = chosen
    final = SVC(C=C, kernel="precomputed").fit(np.exp(-gamma / scale * distance), y)
    predicted = final.predict(np.exp(-gamma / scale * unseen))
    return float((predicted == z).mean()), {"C": C, "gamma": gamma}


def run_one(name: str, number: int, n_words: int, percentile: int) -> dict[str, Any]:
    """Learn words on one training part and return the accuracy of every grid."""
    records, max_side = read(name)
    train, test = split(name, records, number)
    labels = np.array([record.label for record in records])
    paths = [record.path for record in records]
    bag = BagOfVisualWords(
        n_words,
        (FINEST, FINEST),
        max_side=max_side,
        contrast_percentile=percentile,
        random_state=number,
        n_examples=0,
    )
    result: dict[str, Any] = {}
    with timed(result, "seconds for words"):
        bag.fit([paths[i] for i in train])
    with timed(result, "seconds for encoding"):
        learn = bag.transform([paths[i] for i in train])
        ask = bag.transform([paths[i] for i in test])
    for grid, cells in GRIDS.items():
        X = np.sqrt(counts_of_grid(learn, n_words, cells))
        Z = np.sqrt(counts_of_grid(ask, n_words, cells))
        accuracy, settings = svm_accuracy(X, labels[train], Z, labels[test])
        result[grid] = {"accuracy": accuracy, **settings}
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
