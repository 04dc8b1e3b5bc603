"""Words that occur in the same documents share subtrees."""

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from supdocnade import DocNADE
from supdocnade.corpus.clustered_tree import clustered_tree, order_leaves, word_vectors
from supdocnade.corpus.disk import Corpus
from supdocnade.corpus.documents import Documents
from supdocnade.model.network import random_tree


def planted_counts(n_groups=2, n_words=16, n_documents=80, seed=0):
    """Return counts of documents that each have words of one group, and the groups of the words.

    The words of a group are dispersed over the vocabulary, and differ in frequency.
    """
    rng = np.random.default_rng(seed)
    group_K = rng.permutation(np.arange(n_words) % n_groups)
    rate_K = rng.uniform(0.5, 3.0, n_words)
    of_document = np.arange(n_documents) % n_groups
    return rng.poisson(np.where(of_document[:, None] == group_K, rate_K, 0.0)), group_K


@pytest.mark.parametrize(("n_groups", "n_words"), [(2, 16), (2, 10), (4, 32), (8, 400)])
def test_groups_that_never_occur_together_have_subtrees_of_their_own(n_groups, n_words):
    counts, group_K = planted_counts(n_groups, n_words)
    tree = clustered_tree(Documents.from_counts(counts), seed=0)
    group_of_leaf = group_K[np.argsort(tree.leaf_of_word_K)]
    assert (np.diff(group_of_leaf) != 0).sum() == n_groups - 1
    assert (np.bincount(group_of_leaf) == n_words // n_groups).all()


@pytest.mark.parametrize("n_words", [1, 2, 3, 7])
def test_every_word_has_a_leaf_also_without_documents(n_words):
    for counts in (np.zeros((0, n_words)), np.zeros((2, n_words)), np.eye(n_words)):
        tree = clustered_tree(Documents.from_counts(counts), seed=1)
        assert sorted(tree.leaf_of_word_K) == list(range(n_words))


def test_vectors_are_those_of_a_correspondence_analysis():
    counts = np.random.default_rng(0).poisson(1.0, (200, 30)) + np.eye(200, 30)
    documents = Documents.from_counts(counts)
    vectors_KE = word_vectors(documents, documents.word_counts(), seed=0)
    total = counts / counts.sum()
    expected = total.sum(axis=1, keepdims=True) @ total.sum(axis=0, keepdims=True)
    _, values, axes = np.linalg.svd((total - expected) / np.sqrt(expected), full_matrices=False)
    by_hand = axes.T * values
    by_hand /= np.linalg.norm(by_hand, axis=1, keepdims=True)
    # The axes may be rotated: only products of vectors are compared.
    np.testing.assert_allclose(vectors_KE @ vectors_KE.T, by_hand @ by_hand.T, atol=1e-10)


def test_a_weight_counts_as_copies_of_a_document():
    rng = np.random.default_rng(0)
    counts, weight = rng.poisson(0.5, (60, 20)), rng.integers(0, 3, 60)
    weighted = Documents.from_counts(counts, document_weight=weight)
    repeated = Documents.from_counts(np.repeat(counts, weight, axis=0))
    first, second = (word_vectors(each, each.word_counts(), 0) for each in (weighted, repeated))
    np.testing.assert_allclose(first @ first.T, second @ second.T, atol=1e-6)


def test_halves_hold_similar_directions_whatever_the_lengths_of_other_axes():
    angle_K = np.radians([0, 10, 180, 190, 5, 185, 175])
    vectors_KE = np.stack([np.cos(angle_K), np.sin(angle_K)], axis=1)
    words_K = order_leaves(vectors_KE, np.ones(7)).tolist()
    assert {0, 1, 4} in ({*words_K[:3]}, {*words_K[4:]})


def test_the_number_of_threads_and_the_place_of_documents_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("supdocnade.corpus.clustered_tree.BLOCK_TOKENS", 4096)
    counts = sparse.csr_array(np.random.default_rng(0).poisson(0.03, (2000, 700)))
    tags = np.random.default_rng(1).integers(0, 2, (2000, 5))
    corpus = Corpus.create(tmp_path / "corpus", n_words=700)
    corpus.append(counts)
    trees = []
    for given, n_threads in ((counts, 1), (counts, 2), (counts, 3), (corpus, 2)):
        documents = Documents.from_counts(given, annotations=tags)
        with threadpool_limits(n_threads):
            trees.append(clustered_tree(documents, seed=0).leaf_of_word_K)
    assert len(trees[0]) == 705
    for tree in trees[1:]:
        np.testing.assert_array_equal(tree, trees[0])


def test_a_model_has_the_tree_of_its_documents(tmp_path):
    counts, _ = planted_counts(4, 32)
    settings = {"n_topics": 4, "max_epochs": 2, "random_state": 5}
    model = DocNADE(tree="clustered", **settings).fit(counts)
    network = model.network_
    expected = clustered_tree(Documents.from_counts(counts), seed=5).leaf_of_word_K
    np.testing.assert_array_equal(network.output.tree.leaf_of_word_K, expected)
    every_word = np.eye(32, dtype=int)
    assert np.exp(model.log_prob(every_word)).sum() == pytest.approx(1.0, abs=1e-6)
    model.save(tmp_path / "model")
    loaded = DocNADE.load(tmp_path / "model")
    assert loaded.tree == "clustered"
    np.testing.assert_array_equal(loaded.log_prob(counts), model.log_prob(counts))
    # The default is the paper's, and other outputs have no tree.
    plain = DocNADE(**settings).fit(counts).network_
    leaves = random_tree(plain.config, 5).leaf_of_word_K
    np.testing.assert_array_equal(plain.output.tree.leaf_of_word_K, leaves)
    DocNADE(tree="clustered", output="softmax", **settings).fit(counts)
