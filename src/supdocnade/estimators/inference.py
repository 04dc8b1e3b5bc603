"""From counts to topics, classes and annotations by one pass forward.

Every step treats a document by itself: its numbers are the same alone, in any batch, in any order
and on any number of threads.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_expit, log_softmax

from supdocnade.likelihood.cpu.row_products import affine, bag_activations
from supdocnade.model.network import DocNADENetwork, SupDocNADENetwork
from supdocnade.model.outputs import TreeOutput

ROWS = 4096
"""Documents whose annotations are computed at a time, which bounds the memory."""

Floats = NDArray[np.float64]


def representations(network: DocNADENetwork, counts: sparse.csr_array) -> NDArray[np.float32]:
    """Return h_y(v) of every document, (B, H)."""
    W_KH, c_H = network.word_embedding, network.hidden_bias
    return bag_activations(
        counts, W_KH.detach().numpy(), c_H.detach().numpy(), network.config.activation
    )


def class_log_proba(network: SupDocNADENetwork, hidden_BH: NDArray[np.float32]) -> Floats:
    """Return log p(y | v), (B, C)."""
    U_CH, d_C = network.label_weight.detach().numpy(), network.label_bias.detach().numpy()
    log_p_BC: Floats = log_softmax(affine(hidden_BH, U_CH, d_C).astype(np.float64), axis=1)
    return log_p_BC


def annotation_log_proba(network: DocNADENetwork, hidden_BH: NDArray[np.float32]) -> Floats:
    """Return log p(next word = a | v) for every annotation word, (B, A)."""
    first, last = network.config.n_visual_words, network.config.n_words
    log_p_BA = np.empty((len(hidden_BH), last - first))
    for start in range(0, len(hidden_BH), ROWS):
        rows = slice(start, start + ROWS)
        log_p_BA[rows] = _word_log_proba(network, hidden_BH[rows], np.arange(first, last))
    return log_p_BA


def _word_log_proba(
    network: DocNADENetwork, hidden_BH: NDArray[np.float32], words: NDArray[np.int64]
) -> Floats:
    V_TH, b_T = network.node_weight.detach().numpy(), network.node_bias.detach().numpy()
    if not isinstance(network.output, TreeOutput):
        log_p_BK: Floats = log_softmax(affine(hidden_BH, V_TH, b_T).astype(np.float64), axis=1)
        return log_p_BK[:, words]
    nodes_KL, signs_KL = network.output.tree.paths
    nodes_XL, signs_XL = nodes_KL[words], signs_KL[words]
    # Only the nodes that lead to the words asked for are computed.
    used = np.unique(nodes_XL[signs_XL != 0])
    z_BR = affine(hidden_BH, np.ascontiguousarray(V_TH[used]), b_T[used]).astype(np.float64)
    # A table of log p(left), log p(right) and log 1, the last for steps past the end of a path.
    table = np.hstack([log_expit(-z_BR), log_expit(z_BR), np.zeros((len(hidden_BH), 1))])
    places_XL = np.searchsorted(used, nodes_XL)
    columns_XL = np.where(signs_XL > 0, places_XL + len(used), places_XL)
    columns_XL = np.where(signs_XL == 0, 2 * len(used), columns_XL)
    log_p_BX = np.zeros((len(hidden_BH), len(words)))
    for step in range(columns_XL.shape[1]):
        log_p_BX += table[:, columns_XL[:, step]]
    return log_p_BX


# What the class of a document says of its annotations.
#
# The paper ranks annotations by p(a | v). A document's class says something of them, too: the score
#
#     log p(a | v) + α log Σ_c p(c | v) share(a | c)
#
# adds the share that an annotation has among all annotations of a class, averaged over the classes
# that the document may be of. α = 0 is the paper's ranking.


def class_tag_shares(
    annotations: sparse.csr_array, label_N: NDArray[np.integer], n_classes: int
) -> Floats:
    """Return the share of every annotation among all those of a class, (classes, annotations).

    Add-one smoothing, shared by all annotations: those of no document of a class stay possible, and
    a class of which no annotation is known says nothing.

    Parameters
    ----------
    annotations : (documents, annotations) counts.
    label_N : (documents,) class numbers; below 0: not known.

    >>> class_tag_shares(sparse.csr_array([[1, 0], [1, 1], [0, 1]]), np.array([0, 0, -1]), 2)
    array([[0.625, 0.375],
           [0.5  , 0.5  ]])
    """
    known = np.flatnonzero(label_N >= 0)
    member_NC = np.eye(n_classes)[label_N[known]]
    share_CA: Floats = member_NC.T @ annotations[known] + 1 / annotations.shape[1]
    share_CA /= share_CA.sum(axis=1, keepdims=True)
    return share_CA


def add_classes(log_p_BA: Floats, proba_BC: Floats, share_CA: Floats, weight: float) -> Floats:
    """Return log p(a | v) + weight · log Σ_c p(c | v) share(a | c), (B, A).

    Parameters
    ----------
    log_p_BA : (documents, annotations) log p(a | v).
    proba_BC : (documents, classes) p(c | v).
    share_CA : of `class_tag_shares`.
    """
    # Class by class: a product of matrices rounds a document alone and among others differently.
    mixed_BA = np.zeros_like(log_p_BA)
    for proba_B, share_A in zip(proba_BC.T, share_CA, strict=True):
        mixed_BA += proba_B[:, None] * share_A
    scores_BA: Floats = log_p_BA + weight * np.log(mixed_BA)
    return scores_BA
