import numpy as np
import pytest

from supdocnade.cuda.tree_bands import LEVELS, SLOTS, Bands
from supdocnade.tree import WordTree


@pytest.mark.parametrize("n_words", [2, 3, 5, 16, 17, 33, 256, 257, 1160, 5000])
def test_the_tables_lead_every_word_along_its_path(n_words):
    tree = WordTree.random(n_words, np.random.default_rng(n_words))
    bands = Bands(tree)
    nodes_KL, signs_KL = tree.paths
    for word in range(0, n_words, max(n_words // 200, 1)):
        key = int(bands.key_of_word_K[word])
        passed = []
        for band in range(bands.n_bands):
            prefix = key >> LEVELS * (bands.n_bands - band)
            turns = (key >> LEVELS * (bands.n_bands - 1 - band)) % SLOTS
            for level in range(LEVELS):
                slot = (turns | SLOTS) >> (LEVELS - level)
                node = bands.node_of_slot[(bands.first_prefix[band] + prefix) * SLOTS + slot]
                if node >= 0:
                    right = (turns >> (LEVELS - 1 - level)) & 1
                    passed.append((node, 1 if right else -1))
        used = signs_KL[word] != 0
        expected = zip(nodes_KL[word][used], signs_KL[word][used], strict=True)
        assert passed == list(expected)
        assert bands.word_of_key[key] == word


@pytest.mark.parametrize("n_words", [2, 37, 1160])
def test_keys_sort_words_by_their_leaves(n_words):
    tree = WordTree.random(n_words, np.random.default_rng(0))
    by_key = np.argsort(Bands(tree).key_of_word_K)
    np.testing.assert_array_equal(by_key, np.argsort(tree.leaf_of_word_K))
