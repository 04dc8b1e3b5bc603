from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supdocnade.errors import InvalidArgument
from supdocnade.folders.splits import split_per_class

labelled = st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 12)))


def counts(labels, indices):
    return dict(Counter(labels[index] for index in indices))


def test_numbers_and_shares():
    labels = ["b"] * 7 + ["a"] * 10 + [None] * 3
    split = split_per_class(labels, train_size=4, seed=0)
    assert counts(labels, split.train) == {"a": 4, "b": 4}
    assert counts(labels, split.test) == {"a": 6, "b": 3}
    split = split_per_class(labels, train_size=0.5, seed=0)
    assert counts(labels, split.train) == {"a": 5, "b": 4}
    split = split_per_class(labels, train_size=3, test_size=2, seed=0)
    assert counts(labels, split.train) == {"a": 3, "b": 3}
    assert counts(labels, split.test) == {"a": 2, "b": 2}
    split = split_per_class(labels, train_size=0.29, test_size=1, seed=0)
    assert counts(labels, split.train) == {"a": 3, "b": 2}


def test_indices_are_sorted_integers():
    split = split_per_class(["a"] * 9, train_size=4, seed=1)
    for part in split:
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()
    assert sorted([*split.train, *split.test]) == list(range(9))


def test_a_seed_defines_a_sequence_of_splits():
    labels = ["a"] * 40
    drawn = {
        (seed, number): tuple(split_per_class(labels, train_size=20, seed=seed, number=number)[0])
        for seed in range(3)
        for number in range(3)
    }
    assert len(set(drawn.values())) == 9
    again = split_per_class(labels, train_size=20, seed=1, number=2)
    assert tuple(again.train) == drawn[1, 2]


def test_all_photographs_are_equally_likely_in_training():
    labels = ["a"] * 6 + ["b"] * 4
    taken = np.zeros(10)
    for number in range(2000):
        taken[split_per_class(labels, train_size=0.5, seed=0, number=number).train] += 1
    np.testing.assert_allclose(taken / 2000, 0.5, atol=0.05)


@settings(deadline=None)
@given(labelled, st.floats(0.05, 1), st.integers(0, 3))
def test_groups_are_not_split(photographs, share, seed):
    labels = [label for label, _ in photographs]
    groups = np.array([group for _, group in photographs], np.int64)
    train, test = split_per_class(labels, train_size=share, seed=seed, groups=groups)
    assert not set(groups[train]) & set(groups[test])
    known = [i for i, label in enumerate(labels) if label is not None]
    assert sorted([*train, *test]) == known


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=7), st.data())
def test_set_sizes_are_as_near_as_groups_allow(sizes, data):
    labels = ["a"] * sum(sizes)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    target = data.draw(st.integers(1, len(labels)))
    split = split_per_class(
        labels, train_size=target, seed=data.draw(st.integers(0, 3)), groups=groups
    )
    possible = [sum(some) for n in range(len(sizes) + 1) for some in combinations(sizes, n)]
    off = min(abs(total - target) for total in possible)
    assert abs(len(split.train) - target) == off
    if target + off in possible:
        assert len(split.train) == target + off


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=4),
    st.integers(0, 3),
)
def test_set_sizes_are_exact_if_single_photographs_can_fill_the_gaps(sizes, across, seed):
    """Two classes, groups within and across them, and enough single photographs."""
    labels, groups = [], []
    for group, (first, second) in enumerate(across + [(size, size) for size in sizes]):
        spans = group < len(across)
        labels += ["a"] * first + ["b"] * second
        groups += [2 * group] * first + [2 * group + (not spans)] * second
    grouped = len(labels)
    labels += ["a", "b"] * 2 * grouped
    groups += range(1000, 1000 + 4 * grouped)
    split = split_per_class(
        labels, train_size=grouped, test_size=grouped // 4, seed=seed, groups=groups
    )
    assert counts(labels, split.train) == {"a": grouped, "b": grouped}
    assert {counts(labels, split.test).get(label, 0) for label in "ab"} == {grouped // 4}


def test_groups_are_chosen_again_if_the_first_choice_leaves_a_gap():
    # Only 3 + 3 gives 6, whichever group comes first.
    for seed in range(20):
        split = split_per_class(["a"] * 8, train_size=6, seed=seed, groups=[0, 0, 1, 1, 1, 2, 2, 2])
        assert split.train.tolist() == [2, 3, 4, 5, 6, 7]


def test_a_group_across_classes_counts_in_both():
    labels = ["a", "b"] * 4
    groups = [0, 0, 1, 2, 3, 4, 5, 6]
    sides = set()
    for seed in range(30):
        train, test = split_per_class(labels, train_size=2, seed=seed, groups=groups)
        assert counts(labels, train) == counts(labels, test) == {"a": 2, "b": 2}
        sides.add(0 in train)
        assert (0 in train) == (1 in train)
    assert sides == {True, False}


def test_small_classes_and_invalid_arguments_are_errors():
    labels = ["a"] * 5 + ["b"] * 3
    with pytest.raises(InvalidArgument, match="class 'b' enough photographs, got 4 and 0 of 3"):
        split_per_class(labels, train_size=4, seed=0)
    with pytest.raises(InvalidArgument, match="class 'b' enough photographs, got 2 and 2 of 3"):
        split_per_class(labels, train_size=2, test_size=2, seed=0)
    with pytest.raises(InvalidArgument, match=r"test_size must be a whole number .*, got 0\.5"):
        split_per_class(labels, train_size=0.5, test_size=0.5, seed=0)
    for size in (0, -1, 0.0, 1.5, float("nan"), "half", True):
        with pytest.raises(InvalidArgument, match="train_size must be"):
            split_per_class(labels, train_size=size, seed=0)
    with pytest.raises(InvalidArgument, match=r"groups must have shape \(8,\), got \(7,\)"):
        split_per_class(labels, train_size=1, seed=0, groups=[0] * 7)
    with pytest.raises(InvalidArgument, match="groups must be integers, got float64"):
        split_per_class(labels, train_size=1, seed=0, groups=[0.5] * 8)
    with pytest.raises(InvalidArgument, match="number"):
        split_per_class(labels, train_size=1, seed=0, number=-1)
