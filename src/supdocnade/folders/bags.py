"""Documents as word counts in LDA-C format, and their labels."""

import os
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import check_count
from supdocnade.text import read_lines, wrong_line

# Python's int() would also take signs, underscores and other scripts' digits.
_WHOLE = re.compile(r"[0-9]{1,18}")
_PAIR = re.compile(r"([0-9]{1,9}):([0-9]{1,18})")


def read_lda_c(path: str | os.PathLike[str], n_words: int | None = None) -> sparse.csr_array:
    """Return the documents of a file with one on each line: `n word:count word:count ...`.

    n is the number of different words that follow; words count from 0. A document without words is
    the line `0`.

    Parameters
    ----------
    n_words : size of the vocabulary; None: the largest word in the file, plus one.

    Returns
    -------
    (documents, n_words) int64 counts, words in rising order.

    Raises
    ------
    StorageError : a line has another form, repeats a word, or has a word beyond the vocabulary.
    """
    path = Path(path)
    if n_words is not None:
        n_words = check_count("n_words", n_words)
    words: list[int] = []
    counts: list[int] = []
    ends = [0]
    for line, text in enumerate(_documents(path), start=1):
        given, *pairs = text.split() or [""]
        if not _WHOLE.fullmatch(given) or int(given) != len(pairs):
            expected = "a number, and as many pairs word:count"
            raise wrong_line(path, line, expected, f"{given} and {len(pairs)} pairs")
        row = [_pair(path, line, pair, n_words) for pair in pairs]
        if len({word for word, _ in row}) < len(row):
            raise wrong_line(path, line, "each word once", text)
        words.extend(word for word, _ in sorted(row))
        counts.extend(count for _, count in sorted(row))
        ends.append(len(words))
    shape = (len(ends) - 1, max(words, default=-1) + 1 if n_words is None else n_words)
    arrays = (np.array(part, np.int64) for part in (counts, words, ends))
    return sparse.csr_array(tuple(arrays), shape=shape)


def read_labels(path: str | os.PathLike[str]) -> NDArray[np.int64]:
    """Return the labels of a file with one on each line, whole numbers from 0.

    Raises
    ------
    StorageError : a line is no such number.
    """
    path = Path(path)
    labels = []
    for line, text in enumerate(_documents(path), start=1):
        if not _WHOLE.fullmatch(text.strip()):
            raise wrong_line(path, line, "a whole number from 0", text)
        labels.append(int(text))
    return np.array(labels, np.int64)


def _documents(path: Path) -> list[str]:
    """Return the lines of a file; empty ones count, except at its end."""
    lines = read_lines(path)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _pair(path: Path, line: int, pair: str, n_words: int | None) -> tuple[int, int]:
    match = _PAIR.fullmatch(pair)
    if not match or int(match[2]) == 0:
        raise wrong_line(path, line, "word:count with a count of at least 1", pair)
    word = int(match[1])
    if n_words is not None and word >= n_words:
        raise wrong_line(path, line, f"words below {n_words}", pair)
    return word, int(match[2])
