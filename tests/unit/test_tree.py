import numpy as np
import pytest

from supdocnade.errors import InvalidArgument
from supdocnade.tree import WordTree


def word_probabilities(tree: WordTree, node_bias: np.ndarray) -> np.ndarray:
    """p(v) as the product of the decisions on its path, with no hidden units."""
    nodes, signs = tree.paths
    right = 1 / (1 + np.exp(-np.append(node_bias, 0.0)))
    steps = np.where(signs > 0, right[nodes], np.where(signs < 0, 1 - right[nodes], 1.0))
    return steps.prod(axis=1)


def test_tree_of_five_leaves_by_hand():
    # The root splits 0 1 2 | 3 4, then 0 1 | 2 and 3 | 4, then 0 | 1: nodes 2, 1, 3, 0.
    nodes, signs = WordTree(np.arange(5)).paths
    assert nodes.tolist() == [[2, 1, 0], [2, 1, 0], [2, 1, 0], [2, 3, 0], [2, 3, 0]]
    assert signs.tolist() == [[-1, -1, -1], [-1, -1, 1], [-1, 1, 0], [1, -1, 0], [1, 1, 0]]


@pytest.mark.parametrize("n_words", [1, 2, 3, 4, 5, 31, 32, 33, 1160])
def test_paths_are_a_complete_balanced_code(n_words):
    tree = WordTree.random(n_words, np.random.default_rng(0))
    nodes, signs = tree.paths
    lengths = (signs != 0).sum(axis=1)
    assert (2.0**-lengths).sum() == 1.0
    assert lengths.max() == tree.depth == int(np.ceil(np.log2(n_words)))
    assert lengths.max() - lengths.min() <= 1
    assert len(np.unique(nodes[signs != 0])) == tree.n_nodes == n_words - 1
    codes = {(*n[s != 0], *s[s != 0]) for n, s in zip(nodes, signs, strict=True)}
    assert len(codes) == n_words


@pytest.mark.parametrize("n_words", [2, 7, 100])
def test_log_odds_make_the_tree_the_smoothed_unigram(n_words):
    rng = np.random.default_rng(1)
    tree = WordTree.random(n_words, rng)
    counts = rng.integers(0, 50, n_words)
    expected = (counts + 0.5) / (counts + 0.5).sum()
    np.testing.assert_allclose(word_probabilities(tree, tree.log_odds(counts)), expected)


def test_random_probabilities_of_all_words_sum_to_one():
    rng = np.random.default_rng(2)
    tree = WordTree.random(37, rng)
    assert word_probabilities(tree, rng.normal(size=36)).sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("leaves", "message"),
    [
        ([0, 0, 2], "permutation of 0 .. 2"),
        ([0, 1, 3], "permutation of 0 .. 2"),
        ([-1, 0, 1], "permutation of 0 .. 2"),
        ([], "1 to 16777216 entries, got 0"),
        ([[0, 1]], "one-dimensional"),
        ([0.0, 1.0], "array of integers"),
    ],
)
def test_anything_but_a_permutation_is_refused(leaves, message):
    array = np.array(leaves, dtype=None if leaves else int)
    with pytest.raises(InvalidArgument, match=message):
        WordTree(array)


def test_counts_of_another_vocabulary_are_refused():
    with pytest.raises(InvalidArgument, match=r"counts must have shape \(3,\), got \(2,\)"):
        WordTree(np.arange(3)).log_odds([1.0, 2.0])
