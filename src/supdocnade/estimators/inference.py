"""From counts to topics, classes and annotations by one pass forward.

Every step treats a document by itself: its numbers are the same alone, in any batch, in any order
and on any number of threads.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_expit, log_softmax

from supdocnade.models import DocNADENetwork, SupDocNADENetwork
from supdocnade.models.outputs import TreeOutput
from supdocnade.ops.row_products import affine, bag_activations

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
