"""Readers of the published corpora that the experiments use.

None of them is part of this repository. The folder that holds them is named by the environment
variable SUPDOCNADE_DATA; without it a folder `shared/data` beside the checkout is looked for.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.folders.bags import read_labels, read_lda_c


class Bags(NamedTuple):
    """Documents as word counts, with classes where there are any."""

    counts: sparse.csr_array
    labels: NDArray[np.int64]


def data_folder(name: str) -> Path:
    """Return the folder of a corpus, or say where it was looked for."""
    root = os.environ.get("SUPDOCNADE_DATA", Path(__file__).parents[2] / "shared" / "data")
    folder = Path(root) / name
    if not folder.is_dir():
        sys.exit(f"{folder} does not exist: set SUPDOCNADE_DATA to the folder that has {name}.")
    return folder


def class_slda() -> tuple[Bags, Bags]:
    """Return the LabelMe bags of the sLDA authors: 800 images to learn from, 800 to test."""
    folder = data_folder("class_slda")
    train, test = (
        Bags(
            read_lda_c(folder / f"{part}-data.dat", 158), read_labels(folder / f"{part}-label.dat")
        )
        for part in ("train", "test")
    )
    return train, test


def tag_my_news() -> tuple[Bags, Bags, Bags]:
    """Return TagMyNews: short texts over 2,000 words in 7 classes; training, validation, test."""
    folder = data_folder("text/tmn")
    parts = []
    for part in ("training", "validation", "test"):
        labels, pairs = [], []
        for line in (folder / f"{part}_docnade.csv").read_text().splitlines():
            label, words = line.split(",")
            ids, counts = np.unique(np.array(words.split(), np.int64), return_counts=True)
            labels.append(int(label))
            pairs.append(list(zip(ids.tolist(), counts.tolist(), strict=True)))
        parts.append(Bags(_matrix(pairs, 2000), np.array(labels)))
    return parts[0], parts[1], parts[2]


def newsgroups() -> tuple[Bags, Bags]:
    """Return 20 Newsgroups over 1,995 words, without classes; training and test."""
    folder = data_folder("text/newsgroups")
    parts = []
    for part in ("train", "test"):
        pairs = []
        for line in (folder / f"{part}.feat").read_text().splitlines():
            row = [tuple(map(int, pair.split(":"))) for pair in line.split()[1:]]
            pairs.append([(word - 1, count) for word, count in row])  # Words count from 1.
        counts = _matrix(pairs, 1995)
        parts.append(Bags(counts, np.zeros(counts.shape[0], np.int64)))
    return parts[0], parts[1]


def _matrix(pairs: Sequence[Sequence[tuple[int, ...]]], n_words: int) -> sparse.csr_array:
    ends = np.concatenate([[0], np.cumsum([len(row) for row in pairs])])
    flat = [pair for row in pairs for pair in row]
    words, counts = np.array(flat, np.int64).reshape(-1, 2).T
    matrix = sparse.csr_array((counts, words, ends), shape=(len(pairs), n_words))
    matrix.sum_duplicates()
    return matrix
