"""Random splits into training and test sets of given sizes, stratified by class.

Photographs that must stay together, such as near-duplicates, form a *group*, which is never split.
"""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supdocnade.checks import check_count, check_range, check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.seeding import named_generator

Group = list[int]
"""Numbers of photographs that stay together."""


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


def take_groups(
    groups: list[Group], labels: Sequence[Hashable], sizes: Mapping[Any, int]
) -> tuple[list[Group], list[Group]]:
    """Return groups that give each class its size, and the remaining groups.

    Groups are tried in their order. `sizes` are numbers of photographs per class.
    """
    room = dict(sizes)
    needs = [Counter(labels[index] for index in group) for group in groups]
    taken = []
    for need in needs:
        fits = all(n <= room[label] for label, n in need.items())
        taken.append(fits)
        if fits:
            for label, n in need.items():
                room[label] -= n
    for label, missing in room.items():
        if missing:
            own = [i for i, need in enumerate(needs) if list(need) == [label]]
            target = missing + sum(len(groups[i]) for i in own if taken[i])
            chosen = _nearest_sum([len(groups[i]) for i in own], target)
            for i, choice in zip(own, chosen, strict=True):
                taken[i] = choice
    selected = [group for group, choice in zip(groups, taken, strict=True) if choice]
    remaining = [group for group, choice in zip(groups, taken, strict=True) if not choice]
    return selected, remaining


def _nearest_sum(sizes: list[int], target: int) -> list[bool]:
    """Choose sizes whose sum is nearest to `target`, preferring earlier sizes.

    >>> _nearest_sum([2, 3, 3, 2], 6)
    [False, True, True, False]
    """
    # Bit s of reach[k] is set if the sizes after the first k large ones can add up to s. Single
    # photographs come last, since they can fill any gap up to their number.
    large = [i for i, size in enumerate(sizes) if size > 1]
    single = [i for i, size in enumerate(sizes) if size == 1]
    reach = [(1 << (len(single) + 1)) - 1]
    for i in reversed(large):
        reach.append(reach[-1] | reach[-1] << sizes[i])
    reach.reverse()
    sums = [s for s in range(reach[0].bit_length()) if reach[0] >> s & 1]
    left = min(sums, key=lambda s: (abs(s - target), -s))
    chosen = [False] * len(sizes)
    for k, i in enumerate(large):
        if sizes[i] <= left and reach[k + 1] >> (left - sizes[i]) & 1:
            chosen[i] = True
            left -= sizes[i]
    for i in single[:left]:
        chosen[i] = True
    return chosen


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
