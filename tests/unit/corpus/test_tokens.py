"""Tokens from disk are the same as those from memory."""

import numpy as np
import pytest
from scipy import sparse

from supdocnade import Corpus
from supdocnade.corpus import Documents
from supdocnade.corpus import tokens as tokens_module
from supdocnade.corpus.tokens import MemoryTokens

RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(0.7, (40, 12)) * (RNG.random((40, 1)) < 0.9)
TAGS = RNG.poisson(0.3, (40, 5))
SCALES = {"whole": (1.0, 1.0), "words": (0.3, 1.0), "tags": (1.0, 0.3), "both": (0.3, 0.7)}


@pytest.fixture(params=SCALES)
def pair(request, tmp_path, monkeypatch):
    """The same documents in memory and on disk."""
    monkeypatch.setattr(tokens_module, "BLOCK_TOKENS", 30)
    words, tags = SCALES[request.param]
    corpus = Corpus.create(tmp_path / "corpus", n_words=12)
    counts = COUNTS * np.where(np.arange(40) < 20, words, 1.0)[:, None]  # Some shards are whole.
    for rows in np.array_split(np.arange(40), 4):
        corpus.append(sparse.csr_array(counts[rows]))
    options = {"annotations": TAGS * tags, "labels": np.arange(40) % 3, "n_classes": 3,
               "document_weight": RNG.random(40)}  # fmt: skip
    return Documents.from_counts(counts, **options), Documents.from_counts(corpus, **options)


def assert_same_tokens(ours, theirs):
    np.testing.assert_array_equal(ours.ids_N, theirs.ids_N)
    assert ours.ids_N.dtype == theirs.ids_N.dtype
    assert (ours.weight_N is None) == (theirs.weight_N is None)
    if ours.weight_N is not None:
        np.testing.assert_array_equal(ours.weight_N, theirs.weight_N)
        assert ours.weight_N.dtype == theirs.weight_N.dtype


def assert_same_documents(ours, theirs):
    n = len(theirs)
    assert isinstance(theirs.tokens, MemoryTokens) != isinstance(ours.tokens, MemoryTokens)
    assert (len(ours), ours.tokens.weighted) == (n, theirs.tokens.weighted)
    np.testing.assert_array_equal(ours.length_B, theirs.length_B)
    np.testing.assert_array_equal(ours.size_B, theirs.size_B)
    np.testing.assert_array_equal(ours.word_counts(), theirs.word_counts())
    np.testing.assert_array_equal(ours.class_counts(), theirs.class_counts())
    np.testing.assert_array_equal(ours.annotation_presence(), theirs.annotation_presence())
    assert ours.has_visual_words() == theirs.has_visual_words()
    rng = np.random.default_rng(1)
    for rows in (np.arange(n), np.arange(0), rng.permutation(n), rng.integers(0, n, 7)):
        assert_same_tokens(ours.tokens.gather(rows), theirs.tokens.gather(rows))
        order = rng.permutation(int(theirs.length_B[rows].sum()))
        assert_same_tokens(ours.tokens.gather(rows, order), theirs.tokens.gather(rows, order))
    blocks = list(ours.tokens.blocks())
    assert np.concatenate([rows for rows, _ in blocks]).tolist() == list(range(n))
    whole = theirs.tokens.gather(np.arange(n)).ids_N
    np.testing.assert_array_equal(np.concatenate([each.ids_N for _, each in blocks]), whole)


def test_documents_on_disk_are_those_in_memory(pair):
    theirs, ours = pair
    assert_same_documents(ours, theirs)
    assert_same_documents(ours.without_annotations(), theirs.without_annotations())
    chosen = np.random.default_rng(2).permutation(40)[:25]
    assert_same_documents(ours.take(chosen), theirs.take(chosen))
    twice = ours.take(chosen).take([3, 3, 0]).without_annotations()
    assert_same_documents(twice, theirs.take(chosen).take([3, 3, 0]).without_annotations())


def test_the_fingerprint_sees_every_part(pair):
    _, ours = pair
    others = [
        ours,
        ours.take(np.arange(40)[::-1]),
        ours.take(np.arange(39)),
        ours.without_annotations(),
        Documents.from_counts(ours.tokens.words.corpus, annotations=2 * TAGS),
        Documents.from_counts(ours.tokens.words.corpus),
    ]
    assert len({other.fingerprint() for other in others}) == len(others)
    assert ours.take(np.arange(40)).fingerprint() == ours.fingerprint()
