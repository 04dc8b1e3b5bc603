"""Readers of the published corpora of the experiments.

The corpora are not part of this repository. The environment variable SUPDOCNADE_DATA names their
folder; the default is `shared/data` beside the checkout.
"""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import check_count
from supdocnade.text import line_error, read_lines

# int() would also accept signs, underscores and digits of other scripts.
_WHOLE = re.compile(r"[0-9]{1,18}")
_PAIR = re.compile(r"([0-9]{1,9}):([0-9]{1,18})")


class Bags(NamedTuple):
    """Documents as word counts, with their classes if there are any."""

    counts: sparse.csr_array
    labels: NDArray[np.int64]


def data_folder(name: str) -> Path:
    """Return the folder of a corpus; exit with a message if it does not exist."""
    root = os.environ.get("SUPDOCNADE_DATA", Path(__file__).parents[2] / "shared" / "data")
    folder = Path(root) / name
    if not folder.is_dir():
        sys.exit(f"{folder} does not exist: set SUPDOCNADE_DATA to the folder that has {name}.")
    return folder


def class_slda() -> tuple[Bags, Bags]:
    """Return the LabelMe bags of the sLDA authors: 800 training and 800 test images."""
    folder = data_folder("class_slda")
    train, test = (
        Bags(
            read_lda_c(folder / f"{part}-data.dat", 158),
            read_class_numbers(folder / f"{part}-label.dat"),
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


def read_lda_c(path: str | os.PathLike[str], n_words: int | None = None) -> sparse.csr_array:
    """Return the documents of a file in LDA-C format, one per line: `n word:count word:count ...`.

    n is the number of pairs that follow; words are numbered from 0. An empty document is the line
    `0`.

    Parameters
    ----------
    n_words : size of the vocabulary; by default the largest word of the file plus one.

    Returns
    -------
    (documents, n_words) int64 counts with sorted indices.

    Raises
    ------
    StorageError : a line has another form, repeats a word, or has a word outside the vocabulary.
    """
    path = Path(path)
    if n_words is not None:
        n_words = check_count("n_words", n_words)
    words: list[int] = []
    counts: list[int] = []
    ends = [0]
    for line, text in enumerate(_read_rows(path), start=1):
        given, *pairs = text.split() or [""]
        if not _WHOLE.fullmatch(given) or int(given) != len(pairs):
            expected = "a number, and as many pairs word:count"
            raise line_error(path, line, expected, f"{given} and {len(pairs)} pairs")
        row = [_parse_pair(path, line, pair, n_words) for pair in pairs]
        if len({word for word, _ in row}) < len(row):
            raise line_error(path, line, "each word once", text)
        words.extend(word for word, _ in sorted(row))
        counts.extend(count for _, count in sorted(row))
        ends.append(len(words))
    shape = (len(ends) - 1, max(words, default=-1) + 1 if n_words is None else n_words)
    arrays = (np.array(part, np.int64) for part in (counts, words, ends))
    return sparse.csr_array(tuple(arrays), shape=shape)


def read_class_numbers(path: str | os.PathLike[str]) -> NDArray[np.int64]:
    """Return the class numbers of a file, one per line, from 0.

    Raises
    ------
    StorageError : a line is not a whole number from 0.
    """
    path = Path(path)
    labels = []
    for line, text in enumerate(_read_rows(path), start=1):
        if not _WHOLE.fullmatch(text.strip()):
            raise line_error(path, line, "a whole number from 0", text)
        labels.append(int(text))
    return np.array(labels, np.int64)


def _read_rows(path: Path) -> list[str]:
    """Return the lines of a file without the empty ones at its end."""
    lines = read_lines(path)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _parse_pair(path: Path, line: int, pair: str, n_words: int | None) -> tuple[int, int]:
    match = _PAIR.fullmatch(pair)
    if not match or int(match[2]) == 0:
        raise line_error(path, line, "word:count with a count of at least 1", pair)
    word = int(match[1])
    if n_words is not None and word >= n_words:
        raise line_error(path, line, f"words below {n_words}", pair)
    return word, int(match[2])
