"""Inference with a fitted network: topics, classes and annotations of documents, in numpy.

Every document is computed by itself: its numbers do not depend on the other rows of a batch, on
their order or on the number of threads. A library's matrix product rounds a row differently in a
batch of one than in a batch of a thousand, so the products here are our own.
"""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_expit, log_softmax

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.jit import kernel
from supdocnade.likelihood.cpu.prefix_sums import ACTIVATION_CODES, RELU, TANH, sigmoid, tanh
from supdocnade.model.config import DocNADEConfig, SupDocNADEConfig
from supdocnade.schema import array, stored
from supdocnade.threads import SMALL_WORK, even_ranges, n_threads, run_parts
from supdocnade.tree import WordTree

BLOCK_ROWS = 4096
"""Documents whose annotations are computed at a time, which bounds the memory."""

Floats = NDArray[np.float64]
Float32s = NDArray[np.float32]
Number = TypeVar("Number", np.float32, np.float64)

_ZERO = np.float32(0)


@kernel
def write_bag_activations(
    first: int, last: int, indptr: Any, indices: Any, data: Any, table_KH: Any, bias_RH: Any,
    activation: int, out_BH: Any,
) -> None:  # fmt: skip
    """Write the rows `first:last` of g(bias + Σ_k x_k table[k]); one bias, or one per row."""
    a_H = np.empty(bias_RH.shape[1], np.float32)
    for d in range(first, last):
        a_H[:] = bias_RH[d if bias_RH.shape[0] > 1 else 0]
        for p in range(indptr[d], indptr[d + 1]):
            word, x = indices[p], data[p]
            for j in range(a_H.size):
                a_H[j] += x * table_KH[word, j]
        if activation == RELU:
            for j in range(a_H.size):
                out_BH[d, j] = _ZERO if a_H[j] <= _ZERO else a_H[j]
        elif activation == TANH:
            for j in range(a_H.size):
                out_BH[d, j] = tanh(a_H[j])
        else:
            for j in range(a_H.size):
                out_BH[d, j] = sigmoid(a_H[j])


@kernel
def write_affine(
    first: int, last: int, rows_BH: Any, table_TH: Any, bias_T: Any, out_BT: Any
) -> None:
    """Write the rows `first:last` of rows · tableᵀ + bias."""
    for d in range(first, last):
        for t in range(table_TH.shape[0]):
            total = _ZERO
            for j in range(table_TH.shape[1]):
                total += rows_BH[d, j] * table_TH[t, j]
            out_BT[d, t] = total + bias_T[t]


@dataclass(frozen=True, eq=False)
class NetworkArrays:
    """Parameters of a network as arrays, named as in `DocNADENetwork`."""

    config: SupDocNADEConfig | DocNADEConfig
    parameters: dict[str, Float32s] = array(dtype=np.float32)
    """`word_embedding` (K, H), `hidden_bias` (H,), `node_weight` (T, H), `node_bias` (T,); with
    global features `global_weight` (H, F); with logistic outputs `tag_weight` (A, H), `tag_bias`
    (A,); with classes `label_weight` (C, H), `label_bias` (C,)."""
    tree: WordTree | None = stored()
    """None with another output."""

    def __post_init__(self) -> None:
        config = self.config
        if (self.tree is None) != (config.output != "tree"):
            raise InvalidArgument("a tree must come with output 'tree', and with it alone.")
        n_rows = config.n_words if self.tree is None else config.n_words - 1
        if callable(config.output):
            n_rows = config.output(config.n_words).n_rows
        n_topics = config.n_topics
        shapes: dict[str, tuple[int, ...]] = {
            "word_embedding": (config.n_words, n_topics),
            "hidden_bias": (n_topics,),
            "node_weight": (n_rows, n_topics),
            "node_bias": (n_rows,),
        }
        if config.n_global_features:
            shapes["global_weight"] = (n_topics, config.n_global_features)
        if config.n_tag_outputs:
            shapes["tag_weight"] = (config.n_tag_outputs, n_topics)
            shapes["tag_bias"] = (config.n_tag_outputs,)
        if isinstance(config, SupDocNADEConfig):
            shapes["label_weight"] = (config.n_classes, n_topics)
            shapes["label_bias"] = (config.n_classes,)
        if self.parameters.keys() != shapes.keys():
            raise InvalidArgument(
                f"its arrays are {sorted(self.parameters)}, expected {sorted(shapes)}."
            )
        ordered = {name: self.parameters[name] for name in shapes}
        object.__setattr__(self, "parameters", ordered)
        for name, shape in shapes.items():
            check_shape(name, ordered[name].shape, shape)
            if ordered[name].dtype != np.float32:
                raise InvalidArgument(f"{name} must be float32, got {ordered[name].dtype}.")

    def __getitem__(self, name: str) -> Float32s:
        """Return a parameter."""
        return self.parameters[name]

    @property
    def n_classes(self) -> int:
        """The number of classes, 0 for DocNADE."""
        return getattr(self.config, "n_classes", 0)

    @property
    def several_labels(self) -> bool:
        """True if a document may have several labels, each with a logistic output."""
        return getattr(self.config, "class_output", "softmax") == "sigmoid"

    @property
    def components(self) -> Float32s:
        """W as topics × joint vocabulary: words first, then annotations if they are words."""
        return self["word_embedding"].T.copy()


def bag_activations(
    counts: sparse.csr_array, table_KH: Float32s, bias: Float32s, activation: str
) -> Float32s:
    """Return g(bias + Σ_k x_k table[k]) for every row x of counts, (rows, H).

    Parameters
    ----------
    counts : (rows, words) of at most K words, its indices sorted within each row.
    bias : (H,), or (rows, H).
    activation : g, "relu", "tanh" or "sigmoid".
    """
    assert counts.shape[1] <= len(table_KH), "a word without a row would be read out of bounds"
    bias_RH = bias.reshape(-1, table_KH.shape[1])
    out_BH = np.empty((counts.shape[0], bias_RH.shape[1]), np.float32)
    # The kernels are compiled for one integer type, whatever the matrix has.
    indptr = counts.indptr.astype(np.int64, copy=False)
    indices = counts.indices.astype(np.int64, copy=False)
    data = counts.data.astype(np.float32, copy=False)
    code = ACTIVATION_CODES[activation]

    def write_part(part: tuple[int, int]) -> None:
        write_bag_activations(*part, indptr, indices, data, table_KH, bias_RH, code, out_BH)

    small = data.size * bias_RH.shape[1] < SMALL_WORK
    work = indptr + np.arange(len(indptr))  # An empty row counts as one word.
    run_parts(write_part, even_ranges(work, n_threads()), small=small)
    return out_BH


def affine(
    rows_BH: NDArray[Number], table_TH: NDArray[Number], bias_T: NDArray[Number]
) -> NDArray[Number]:
    """Return rows · tableᵀ + bias, (B, T), of the type of the rows."""
    out_BT = np.empty((len(rows_BH), len(table_TH)), rows_BH.dtype)

    def write_part(part: tuple[int, int]) -> None:
        write_affine(*part, rows_BH, table_TH, bias_T, out_BT)

    small = out_BT.size * table_TH.shape[1] < SMALL_WORK
    run_parts(write_part, even_ranges(np.arange(len(rows_BH) + 1), n_threads()), small=small)
    return out_BT


def topic_features(
    network: NetworkArrays, counts: sparse.csr_array, global_features_BF: Float32s | None = None
) -> Float32s:
    """Return h_y(v) of every document, (B, H).

    Parameters
    ----------
    counts : (documents, words) with sorted indices.
    global_features_BF : for a network that has them, and only for such a network.
    """
    bias = network["hidden_bias"]
    shape = None if global_features_BF is None else global_features_BF.shape
    if network.config.n_global_features:
        expected = counts.shape[0], network.config.n_global_features
        if global_features_BF is None or shape != expected:
            raise InvalidArgument(f"global_features must have shape {expected}, got {shape}.")
        bias = affine(global_features_BF, network["global_weight"], bias)
    elif shape is not None:
        raise InvalidArgument("global_features must be None for this network, got some.")
    table_KH, activation = network["word_embedding"], network.config.activation
    if not callable(activation):
        return bag_activations(counts, table_KH, bias, activation)
    import torch

    a_BH = counts.astype(np.float32) @ table_KH[: counts.shape[1]] + bias
    with torch.no_grad():
        hidden_BH: Float32s = activation(torch.from_numpy(a_BH)).numpy()
    return hidden_BH


def class_log_proba(network: NetworkArrays, hidden_BH: Float32s) -> Floats:
    """Return log p(y | v) of every class, or of every label if documents have several, (B, C)."""
    logits_BC = affine(hidden_BH, network["label_weight"], network["label_bias"]).astype(np.float64)
    return np.asarray(
        log_expit(logits_BC) if network.several_labels else log_softmax(logits_BC, axis=1)
    )


def annotation_log_proba(
    network: NetworkArrays, hidden_BH: Float32s, *, normalize: bool = False
) -> Floats:
    """Return log p(next word = a | v), or log p(a | v), of every annotation, (B, A).

    Parameters
    ----------
    normalize : divide by the mass of all annotations, so that probabilities sum to 1.
    """
    first, last = network.config.n_visual_words, network.config.n_words
    log_p_BA = np.empty((len(hidden_BH), network.config.n_annotation_words))
    for start in range(0, len(hidden_BH), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        if network.config.n_tag_outputs:
            log_p_BA[rows] = log_expit(annotation_log_odds(network, hidden_BH[rows]))
        else:
            log_p_BA[rows] = word_log_proba(network, hidden_BH[rows], np.arange(first, last))
    if normalize and log_p_BA.shape[1]:
        log_p_BA -= np.logaddexp.reduce(log_p_BA, axis=1, keepdims=True)
    return log_p_BA


def annotation_log_odds(network: NetworkArrays, hidden_BH: Float32s) -> Floats:
    """Return log p(a | v) / (1 - p(a | v)) of every logistic output, (B, A)."""
    logits_BA = affine(hidden_BH, network["tag_weight"], network["tag_bias"])
    return logits_BA.astype(np.float64)


def word_log_proba(network: NetworkArrays, hidden_BH: Float32s, words: NDArray[np.int64]) -> Floats:
    """Return log p(next word | hidden units) of some words, (B, words)."""
    V_TH, b_T = network["node_weight"], network["node_bias"]
    if callable(network.config.output):
        import torch

        from supdocnade.likelihood.contract import Parameters

        names = "word_embedding", "hidden_bias", "node_weight", "node_bias"
        parameters = Parameters(*(torch.from_numpy(network[name]) for name in names))
        layer, hidden = network.config.output(network.config.n_words), torch.from_numpy(hidden_BH)
        with torch.no_grad():
            log_p = layer.log_prob(hidden, parameters, torch.from_numpy(words))
        return np.asarray(log_p.numpy(), np.float64)
    if network.tree is None:
        log_p_BK: Floats = log_softmax(affine(hidden_BH, V_TH, b_T).astype(np.float64), axis=1)
        return log_p_BK[:, words]
    nodes_KL, signs_KL = network.tree.paths
    nodes_XL, signs_XL = nodes_KL[words], signs_KL[words]
    # Only the nodes on the paths to these words are computed.
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


def sample_documents(
    network: NetworkArrays,
    length_B: NDArray[np.int64],
    generator: np.random.Generator,
    global_features_BF: Float32s | None = None,
) -> sparse.csr_array:
    """Draw documents from p(v), word after word; return their counts, (B, K).

    Parameters
    ----------
    length_B : number of words of every document.
    global_features_BF : as for `topic_features`.
    """
    n_words = network.config.n_words
    ids_BD = np.zeros((len(length_B), max(length_B, default=0)), np.int64)
    for position in range(ids_BD.shape[1]):
        rows_R = np.flatnonzero(length_B > position)
        ends_R1 = position * np.arange(len(rows_R) + 1)
        drawn_N = ids_BD[rows_R, :position].ravel()
        before = sparse.csr_array(
            (np.ones(len(drawn_N), np.float32), drawn_N, ends_R1), shape=(len(rows_R), n_words)
        )
        features = None if global_features_BF is None else global_features_BF[rows_R]
        hidden_RH = topic_features(network, before, features)
        up_to_RK = np.exp(word_log_proba(network, hidden_RH, np.arange(n_words))).cumsum(axis=1)
        drawn_R1 = generator.random((len(rows_R), 1)) * up_to_RK[:, -1:]
        ids_BD[rows_R, position] = (up_to_RK <= drawn_R1).sum(axis=1)
    document_N = np.repeat(np.arange(len(length_B)), length_B)
    places = document_N, ids_BD[np.arange(ids_BD.shape[1]) < length_B[:, None]]
    ones_N = np.ones(len(document_N), np.int64)
    return sparse.csr_array((ones_N, places), shape=(len(length_B), n_words))
