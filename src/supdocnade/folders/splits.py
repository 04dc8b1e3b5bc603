"""Training and test sets, drawn by class and seed, with copies of one photograph on one side.

Scene15 holds 18 photographs twice, LabelMe one: a split that ignores it tests on what it trained
on. Photographs that belong together are a *group*; a group is never in training and test at once.
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
from supdocnade.folders.photo_folder import ImageRecord, copies
from supdocnade.seeding import named_generator

Group = list[int]
"""The places of photographs that stay together."""


class Split(NamedTuple):
    """Places of photographs in the sequence that was split, in rising order."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]


def split_per_class(
    labels: Sequence[Hashable],
    *,
    train_size: int | float,
    test_size: int | float | None = None,
    seed: int,
    number: int = 0,
    groups: ArrayLike | None = None,
) -> Split:
    """Draw training and test photographs from every class.

    Parameters
    ----------
    labels : the class of every photograph; one whose class is None is in neither set.
    train_size : an integer counts photographs of each class; a float is a share of each class,
        rounded to the nearest whole number, halves upwards.
    test_size : the same for testing; None: all the rest.
    seed, number : a seed has a sequence of splits, of which this is one.
    groups : (photographs,) integers, equal where photographs stay together; None: each is alone.

    Notes
    -----
    Groups are taken in random order, whole, as long as their classes have room. Where a class then
    misses its number, another choice among its groups comes as near to it as any can (rather above
    than below); so numbers are exact unless groups make that impossible. Two limits: groups that
    span classes keep the side that the random order gave them, and the training set is settled
    before the test set.

    >>> split_per_class(["a"] * 4 + ["b"] * 2, train_size=0.5, seed=0, groups=[0, 0, 1, 2, 3, 4])
    Split(train=array([2, 3, 5]), test=array([0, 1, 4]))
    """
    check_count("number", number)
    together = _groups(labels, groups)
    order = named_generator(seed, "split", number).permutation(len(together))
    shuffled = [together[i] for i in order]
    wanted = _wanted(Counter(label for label in labels if label is not None), train_size, test_size)
    train, rest = take_groups(shuffled, labels, wanted[0])
    test = rest if test_size is None else take_groups(rest, labels, wanted[1])[0]
    return Split(_places(train), _places(test))


def split_records(
    records: Sequence[ImageRecord],
    *,
    train_size: int | float,
    test_size: int | float | None = None,
    seed: int,
    number: int = 0,
    keep_copies_together: bool = True,
) -> Split:
    """Draw training and test photographs from every class; see `split_per_class`.

    Parameters
    ----------
    records : sorted, as every reader of this package returns them: a split depends on their order.
    keep_copies_together : files of identical content are on one side, also across classes.
    """
    return split_per_class(
        [record.label for record in records],
        train_size=train_size,
        test_size=test_size,
        seed=seed,
        number=number,
        groups=copies(records) if keep_copies_together else None,
    )


def split_scene15(
    records: Sequence[ImageRecord],
    *,
    seed: int,
    number: int = 0,
    keep_copies_together: bool = True,
) -> Split:
    """Split Scene15 as the paper does: 100 of each class for training, the rest for testing."""
    return split_records(
        records,
        train_size=100,
        seed=seed,
        number=number,
        keep_copies_together=keep_copies_together,
    )


def split_labelme(
    records: Sequence[ImageRecord],
    *,
    seed: int,
    number: int = 0,
    keep_copies_together: bool = True,
) -> Split:
    """Split LabelMe as the paper does: of each class 100 for training and 100 for testing.

    Of the whole 2,688 photographs, others are left out.
    """
    return split_records(
        records,
        train_size=100,
        test_size=100,
        seed=seed,
        number=number,
        keep_copies_together=keep_copies_together,
    )


def split_uiuc_sports(
    records: Sequence[ImageRecord],
    *,
    seed: int,
    number: int = 0,
    keep_copies_together: bool = True,
) -> Split:
    """Split UIUC-Sports as the paper does: half of each class for training, half for testing.

    Of an odd class training has one more.
    """
    return split_records(
        records,
        train_size=0.5,
        seed=seed,
        number=number,
        keep_copies_together=keep_copies_together,
    )


def _groups(labels: Sequence[Hashable], groups: ArrayLike | None) -> list[Group]:
    """Return the labelled photographs group by group, groups in order of first appearance."""
    numbers = np.arange(len(labels)) if groups is None else np.asarray(groups)
    check_shape("groups", numbers.shape, (len(labels),))
    if len(labels) and numbers.dtype.kind not in "iu":
        raise InvalidArgument(f"groups must be integers, got {numbers.dtype}.")
    together: dict[int, Group] = {}
    for place, (label, group) in enumerate(zip(labels, numbers.tolist(), strict=True)):
        if label is not None:
            together.setdefault(group, []).append(place)
    return list(together.values())


def _wanted(
    counts: Counter[Hashable], train_size: int | float, test_size: int | float | None
) -> tuple[dict[Hashable, int], dict[Hashable, int]]:
    """Return how many photographs of every class training and test get."""
    train = {label: _number("train_size", train_size, n, 1) for label, n in counts.items()}
    test = dict.fromkeys(counts, 0)
    if test_size is not None:
        test = {label: _number("test_size", test_size, n, 0) for label, n in counts.items()}
        if not _is_count(train_size) and not _is_count(test_size):
            if train_size + test_size > 1 + 1e-9:
                raise InvalidArgument(
                    "train_size and test_size must be shares of at most 1 together, "
                    f"got {train_size} and {test_size}."
                )
            # Both may have been rounded up.
            test = {label: min(n, counts[label] - train[label]) for label, n in test.items()}
    for label, n in counts.items():
        if train[label] + test[label] > n:
            raise InvalidArgument(
                f"train_size and test_size must leave class {label!r} enough photographs, "
                f"got {train[label]} and {test[label]} of {n}."
            )
    return train, test


def _is_count(size: object) -> bool:
    return isinstance(size, Integral)


def _number(name: str, size: int | float, n: int, least: int) -> int:
    if _is_count(size):
        return check_count(name, size, least=least)
    return math.floor(check_range(name, size, above=0, most=1) * n + 0.5)


def take_groups(
    groups: list[Group], labels: Sequence[Hashable], wanted: dict[Hashable, int]
) -> tuple[list[Group], list[Group]]:
    """Return the groups that give every class its wanted number, and the others.

    Parameters
    ----------
    groups : places of photographs that stay together, in the order in which they are tried.
    labels : the class of every photograph.
    wanted : photographs of every class.
    """
    room = dict(wanted)
    needs = [Counter(labels[place] for place in group) for group in groups]
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
    inside = [group for group, choice in zip(groups, taken, strict=True) if choice]
    outside = [group for group, choice in zip(groups, taken, strict=True) if not choice]
    return inside, outside


def _nearest_sum(sizes: list[int], target: int) -> list[bool]:
    """Choose sizes whose sum is as near to `target` as any, earlier ones rather than later ones.

    >>> _nearest_sum([2, 3, 3, 2], 6)
    [False, True, True, False]
    """
    # Bit s of reach[k] is set if the sizes left after k large ones can add up to s. Single
    # photographs come last: any number of them can be had.
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


def _places(groups: list[Group]) -> NDArray[np.int64]:
    return np.array(sorted(place for group in groups for place in group), np.int64)
