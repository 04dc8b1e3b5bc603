"""The paper's splits of Scene15 and LabelMe, with identical files on one side.

Scene15 holds 18 photographs twice and LabelMe one: a split that ignores this tests on training
photographs.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import StorageError
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.folders.splits import Split, split_per_class


def split_scene15(
    records: Sequence[ImageRecord],
    *,
    seed: int,
    number: int = 0,
    keep_duplicates_together: bool = True,
) -> Split:
    """Split Scene15 as the paper does: 100 of each class for training, the rest for testing.

    Parameters
    ----------
    records : sorted by path; a split depends on their order.
    seed, number : see `split_per_class`.
    keep_duplicates_together : put identical files on one side, also across classes.
    """
    labels = [record.label for record in records]
    groups = duplicate_groups(records) if keep_duplicates_together else None
    return split_per_class(labels, train_size=100, seed=seed, number=number, groups=groups)


def split_labelme(records: Sequence[ImageRecord], *, seed: int, number: int = 0) -> Split:
    """Split LabelMe as the paper does: 100 of each class for training, 100 for testing."""
    return split_per_class(
        [record.label for record in records],
        train_size=100,
        test_size=100,
        seed=seed,
        number=number,
        groups=duplicate_groups(records),
    )


def duplicate_groups(records: Sequence[ImageRecord]) -> NDArray[np.int64]:
    """Return a group number for each photograph, equal for files of identical content.

    Groups are numbered in order of first appearance. Only files of equal size are read.

    Returns
    -------
    (records,) int64.

    Raises
    ------
    StorageError : a file cannot be read.
    """
    try:
        sizes = [record.path.stat().st_size for record in records]
        shared = {size for size, count in Counter(sizes).items() if count > 1}
        numbers: dict[object, int] = {}
        groups = np.empty(len(records), np.int64)
        for i, (record, size) in enumerate(zip(records, sizes, strict=True)):
            content = (size, _digest(record.path)) if size in shared else size
            groups[i] = numbers.setdefault(content, len(numbers))
    except OSError as error:
        raise StorageError(f"{error.filename} cannot be read: {error.strerror}.") from error
    return groups


def _digest(path: Path) -> bytes:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, hashlib.blake2b).digest()
