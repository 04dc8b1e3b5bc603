"""A photograph with what is known of it, and which photographs are copies of each other."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import StorageError


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """One photograph on disk."""

    path: Path
    label: str | None = None
    """Its class; None: not known."""
    tags: tuple[str, ...] | None = None
    """Its tags, each once; (): it is known to have none; None: they are not known."""


def distinct_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags without outer spaces, each once, in order of first appearance.

    >>> distinct_tags(["sky", " sea", "", "sky"])
    ('sky', 'sea')
    """
    return tuple(dict.fromkeys(tag for tag in map(str.strip, tags) if tag))


def copies(records: Sequence[ImageRecord]) -> NDArray[np.int64]:
    """Return a group number for every photograph, the same for files of identical content.

    Groups count from 0 in order of first appearance; most hold one photograph. Only files of equal
    size are read.

    Returns
    -------
    (records,) int64.

    Raises
    ------
    StorageError : a file cannot be read.
    """
    sizes = [_size(record.path) for record in records]
    shared = {size for size, count in Counter(sizes).items() if count > 1}
    numbers: dict[object, int] = {}
    groups = np.empty(len(records), np.int64)
    for i, (record, size) in enumerate(zip(records, sizes, strict=True)):
        content = (size, _digest(record.path)) if size in shared else size
        groups[i] = numbers.setdefault(content, len(numbers))
    return groups


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error


def _digest(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, hashlib.blake2b).digest()
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
