import numpy as np
import pytest
from experiments.peers import Fitted, c_v, completion, mix
from scipy import sparse

from supdocnade.metrics import npmi_coherence

RANDOM = np.random.default_rng(0)
COUNTS = sparse.csr_array(RANDOM.poisson(RANDOM.gamma(0.3, 1, (200, 12))))
WORDS_HX = np.array([[0, 3, 5, 7], [1, 2, 8, 11]])


def test_words_that_always_meet_are_coherent():
    together = sparse.csr_array([[1, 1, 0, 0], [2, 1, 0, 0], [0, 0, 1, 2], [0, 0, 3, 1]])
    assert c_v(np.array([[0, 1], [2, 3]]), together) == pytest.approx([1, 1])
    assert c_v(np.array([[0, 2]]), together)[0] < 0.9


def test_coherence_is_that_of_gensim():
    models = pytest.importorskip("gensim.models")
    texts = [np.repeat(np.arange(12), row).astype(str).tolist() for row in COUNTS.toarray()]
    texts = [text or ["none"] for text in texts]
    dictionary = pytest.importorskip("gensim.corpora").Dictionary(texts)
    for name, ours in (("c_v", c_v), ("c_npmi", npmi_coherence)):
        theirs = models.CoherenceModel(
            topics=WORDS_HX.astype(str).tolist(), texts=texts, dictionary=dictionary,
            coherence=name, window_size=1000, processes=1,
        )  # fmt: skip
        found = theirs.get_coherence_per_topic()
        np.testing.assert_allclose(ours(WORDS_HX, COUNTS), found, atol=1e-4)


def test_completion_by_equal_probabilities_has_the_number_of_words_as_perplexity():
    fitted = Fitted(
        np.ones((2, 12)), np.zeros, lambda X: mix(np.ones((X.shape[0], 2)), np.ones((2, 12)))
    )
    value, half = completion(fitted, COUNTS)
    assert value == pytest.approx(12)
    assert half == pytest.approx(0, abs=1e-6)
