"""Trees over the vocabulary whose subtrees hold words of the same documents.

The tree keeps its rule (`tree.py`); only the words at its leaves are chosen. Words become vectors,
and from the root on every set of words is divided into two halves of similar words.

The vectors are those of a correspondence analysis: the singular vectors of the counts x_dw, divided
by the roots of the sizes of document and word, without the first one, which holds the frequencies.
They are computed by products with blocks of documents, so that neither all documents nor a table of
pairs of words must fit into memory.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.corpus.documents import Documents
from supdocnade.corpus.tokens import BLOCK_TOKENS, split_blocks
from supdocnade.seeding import named_generator
from supdocnade.threads import one_blas_thread
from supdocnade.tree import WordTree

N_COMPONENTS = 100
"""Length of the vectors of words."""
N_PASSES = 6
"""Passes over the documents. Each brings the vectors nearer to the singular vectors."""
N_ROUNDS = 20
"""Rounds of 2-means at a node."""


def clustered_tree(documents: Documents, seed: int) -> WordTree:
    """Return a tree in which words that occur in the same documents share subtrees.

    Words and annotation words are treated alike. The tree depends on the documents and the seed,
    which starts the search for singular vectors, but not on the number of threads, nor on whether
    the documents are in memory or on disk.
    """
    counts_K = documents.word_counts()
    with one_blas_thread():
        vectors_KE = word_vectors(documents, counts_K, seed)
        words_K = order_leaves(vectors_KE, np.sqrt(counts_K + 0.5))
    leaf_of_word_K = np.empty(len(words_K), np.int32)
    leaf_of_word_K[words_K] = np.arange(len(words_K))
    return WordTree(leaf_of_word_K)


def word_vectors(
    documents: Documents, counts_K: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    """Return a vector of length 1 for every word, similar for words of the same documents, (K, E).

    Words that do not occur have zeros.

    Parameters
    ----------
    counts_K : weighted counts of the words.
    """
    n_words = documents.n_words
    scale_K1 = 1 / np.sqrt(np.where(counts_K > 0, counts_K, 1.0))[:, None]
    first_K1 = np.sqrt(counts_K / max(counts_K.sum(), 1.0))[:, None]
    drawn = named_generator(seed, "word vectors")
    vectors_KE = drawn.standard_normal((n_words, min(N_COMPONENTS, n_words)))
    for _ in range(N_PASSES):
        basis_KE = np.linalg.qr(vectors_KE)[0]
        scaled_KE, vectors_KE = scale_K1 * basis_KE, np.zeros_like(basis_KE)
        for block_BK in _weighted_blocks(documents):
            vectors_KE += block_BK.T @ (block_BK @ scaled_KE)
        vectors_KE *= scale_K1
        # The first singular vector is known: it is removed.
        vectors_KE -= first_K1 @ (first_K1.T @ vectors_KE)
    # The values are squares of singular values: their roots are the lengths of the axes.
    values_E, axes_EE = np.linalg.eigh(basis_KE.T @ vectors_KE)
    found_KE: NDArray[np.float64] = basis_KE @ (axes_EE * np.sqrt(np.maximum(values_E, 0.0)))
    norm_K1 = np.linalg.norm(found_KE, axis=1, keepdims=True)
    found_KE /= np.where(norm_K1 > 0, norm_K1, 1.0)
    return found_KE


def _weighted_blocks(documents: Documents) -> Iterator[sparse.csr_array]:
    """Yield all documents as counts, divided by the roots of their sizes, some at a time."""
    for rows_B in split_blocks(documents.length_B, BLOCK_TOKENS):
        ids_N, weight_N = documents.tokens.gather(rows_B)
        length_B, size_B = documents.length_B[rows_B], documents.size_B[rows_B]
        factor_B = 1 / np.sqrt(np.where(size_B > 0, size_B, 1.0))
        if documents.document_weight_B is not None:
            factor_B *= np.sqrt(documents.document_weight_B[rows_B])
        values_N = np.repeat(factor_B, length_B)
        if weight_N is not None:
            values_N *= weight_N
        ends_B1 = np.concatenate([[0], np.cumsum(length_B)])
        shape = (len(rows_B), documents.n_words)
        block = sparse.csr_array((values_N, ids_N, ends_B1), shape=shape)
        block.sum_duplicates()
        yield block


def order_leaves(
    vectors_KE: NDArray[np.float64], weight_K: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the word of every leaf, (K,): both halves below every node hold similar words.

    Parameters
    ----------
    vectors_KE : a vector of length 1 per word; similar words have similar directions.
    weight_K : positive weights of the words in the centres of the halves.
    """
    words_K = np.arange(len(vectors_KE))
    nodes = [(0, len(words_K))]
    while nodes:
        lo, hi = nodes.pop()
        if hi - lo <= 2:
            continue
        mid = (lo + hi + 1) // 2  # The rule of `tree.py`.
        words_N = words_K[lo:hi]
        words_K[lo:hi] = words_N[_halve(vectors_KE[words_N], weight_K[words_N], mid - lo)]
        nodes += [(lo, mid), (mid, hi)]
    return words_K


def _halve(
    vectors_NE: NDArray[np.float64], weight_N: NDArray[np.float64], n_left: int
) -> NDArray[np.int64]:
    """Return an order of vectors in which the first `n_left` are similar, and so are the others.

    Starts with the projections on the first principal axis, then runs 2-means on directions with
    halves of fixed sizes.
    """
    order_N = np.argsort(_principal_scores(vectors_NE, weight_N), kind="stable")
    weighted_NE = weight_N[:, None] * vectors_NE
    for _ in range(N_ROUNDS):
        left_E, right_E = (
            weighted_NE[part].sum(axis=0) for part in (order_N[:n_left], order_N[n_left:])
        )
        axis_E = _direction(right_E) - _direction(left_E)
        before_N, order_N = order_N, np.argsort(vectors_NE @ axis_E, kind="stable")
        if set(before_N[:n_left].tolist()) == set(order_N[:n_left].tolist()):
            break
    return order_N


def _principal_scores(
    vectors_NE: NDArray[np.float64], weight_N: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the projections of vectors on the first principal axis of the weighted vectors."""
    centred_NE = vectors_NE - np.average(vectors_NE, axis=0, weights=weight_N)
    scaled_NE = np.sqrt(weight_N)[:, None] * centred_NE
    # The smaller of the two Gram matrices has the same axis.
    if len(scaled_NE) >= scaled_NE.shape[1]:
        axis_E = np.linalg.eigh(scaled_NE.T @ scaled_NE)[1][:, -1]
    else:
        axis_E = scaled_NE.T @ np.linalg.eigh(scaled_NE @ scaled_NE.T)[1][:, -1]
    scores_N: NDArray[np.float64] = centred_NE @ axis_E
    return scores_N


def _direction(vector_E: NDArray[np.float64]) -> NDArray[np.float64]:
    return vector_E / max(float(np.linalg.norm(vector_E)), 1e-12)
