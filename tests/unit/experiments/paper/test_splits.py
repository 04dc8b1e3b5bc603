from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from experiments.paper.splits import split_per_class
from hypothesis import given, settings
from hypothesis import strategies as st

from supdocnade.errors import InvalidArgument

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
