"""Random splits into training and test sets of given sizes, stratified by class.

Photographs that must stay together, such as near-duplicates, form a *group*, which is never split.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supdocnade.checks import check_count, check_range, check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.scene.inspection import Group, take_groups
from supdocnade.seeding import named_generator


class Split(NamedTuple):
    """Sorted indices into the sequence that was split."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]


def split_per_class(
    labels: Sequence[Hashable],
    *,
    train_size: int | float,
    test_size: int | None = None,
    seed: int,
    number: int = 0,
    groups: ArrayLike | None = None,
) -> Split:
    """Draw training and test photographs from each class.

    Parameters
    ----------
    labels : class of each photograph; those with None are in neither set.
    train_size : number of photographs per class (int), or their share of each class (float),
        rounded to the nearest whole number, halves upwards.
    test_size : number of test photographs per class; by default all others.
    seed, number : a seed defines a sequence of splits; this one has the given number.
    groups : (photographs,) integers, equal for photographs that stay together; None for no groups.

    Notes
    -----
    Whole groups are taken in random order while they fit. For a class that is then short of its
    number, its groups are chosen again so that their total is nearest to the number (ties upwards).
    So numbers are exact unless the groups make that impossible. Two limits: groups that span
    classes are not reconsidered, and the training set is drawn before the test set.

    >>> split_per_class(["a"] * 4 + ["b"] * 2, train_size=0.5, seed=0, groups=[0, 0, 1, 2, 3, 4])
    Split(train=array([2, 3, 5]), test=array([0, 1, 4]))
    """
    check_count("number", number)
    members = _group_members(labels, groups)
    order = named_generator(seed, "split", number).permutation(len(members))
    class_sizes = Counter(label for label in labels if label is not None)
    train_sizes, test_sizes = _set_sizes(class_sizes, train_size, test_size)
    train, rest = take_groups([members[i] for i in order], labels, train_sizes)
    test = rest if test_size is None else take_groups(rest, labels, test_sizes)[0]
    return Split(_sorted_indices(train), _sorted_indices(test))


def _group_members(labels: Sequence[Hashable], groups: ArrayLike | None) -> list[Group]:
    """Return the groups of labelled photographs in order of first appearance."""
    numbers = np.arange(len(labels)) if groups is None else np.asarray(groups)
    check_shape("groups", numbers.shape, (len(labels),))
    if len(labels) and numbers.dtype.kind not in "iu":
        raise InvalidArgument(f"groups must be integers, got {numbers.dtype}.")
    members: dict[int, Group] = {}
    for index, (label, number) in enumerate(zip(labels, numbers.tolist(), strict=True)):
        if label is not None:
            members.setdefault(number, []).append(index)
    return list(members.values())


def _set_sizes(
    counts: Counter[Hashable], train_size: object, test_size: int | None
) -> tuple[dict[Hashable, int], dict[Hashable, int]]:
    """Return the numbers of training and of test photographs per class."""
    n_test = 0 if test_size is None else check_count("test_size", test_size)
    train = {}
    for label, n in counts.items():
        if isinstance(train_size, Integral):
            train[label] = check_count("train_size", train_size, least=1)
        else:
            share = check_range("train_size", train_size, above=0, most=1)
            train[label] = math.floor(share * n + 0.5)
        if train[label] + n_test > n:
            raise InvalidArgument(
                f"train_size and test_size must leave class {label!r} enough photographs, "
                f"got {train[label]} and {n_test} of {n}."
            )
    return train, dict.fromkeys(counts, n_test)


def _sorted_indices(groups: list[Group]) -> NDArray[np.int64]:
    return np.array(sorted(index for group in groups for index in group), np.int64)
