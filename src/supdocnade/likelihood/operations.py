"""The negative log-likelihood of documents under the tree of binary decisions."""

from typing import NamedTuple

from torch import Tensor

from supdocnade.checks import check_shape
from supdocnade.likelihood.contract import (
    FLOATS,
    TENSOR_CORES,
    Backend,
    DocumentBatch,
    DocumentTerms,
    Operation,
    Parameters,
    check_call,
)
from supdocnade.tree import WordTree

_HERE = "supdocnade.likelihood"

TREE_NLL = Operation(
    "tree_nll",
    (
        Backend("reference", f"{_HERE}.reference", ("cpu",), FLOATS[1:]),
        Backend("vectorized", f"{_HERE}.vectorized", ("cpu", "cuda"), FLOATS),
        Backend("cpu", f"{_HERE}.cpu.tree", ("cpu",), FLOATS[:1], requires="numba"),
        Backend("cuda", f"{_HERE}.cuda.tree", ("cuda",), FLOATS[:1], "triton", TENSOR_CORES),
    ),
    automatic=("cpu", "cuda", "vectorized"),
)


def tree_nll(
    batch: DocumentBatch,
    parameters: Parameters,
    tree: WordTree,
    *,
    activation: str = "relu",
    backend: str = "auto",
) -> DocumentTerms:
    """Return the weighted negative log-likelihood of every document, and its summary.

    A document of D words costs O(D · H · log K): the activations are prefix sums, and the
    probability of a word is the product of the decisions on its path.

    Parameters
    ----------
    batch : tokens, offsets and weights (`DocumentBatch`).
    parameters : W (K × H), c (H), V (K - 1 × H) and b (K - 1).
    tree : which word sits at which leaf.
    activation : g, one of "relu" (the paper's), "tanh", "sigmoid".
    backend : "reference" (Algorithm 1 as loops, float64), "vectorized" (plain torch), "cpu" (fused,
        float32), "cuda" (fused, float32 on a GPU), or "auto".

    Returns
    -------
    DocumentTerms : `nll_B` and `summary_BH`, differentiable with respect to all parameters. Above
        `SPARSE_ROWS` words the gradients of W and V are sparse tensors of the rows touched.
    """
    weights = parameters.word_embedding_KH
    check_shape("word_embedding", weights.shape[:1], (tree.n_words,))
    check_call(batch, parameters, tree.n_nodes, activation)
    name = TREE_NLL.choose(backend, weights.device, weights.dtype)
    terms: DocumentTerms = TREE_NLL.load(name)(batch, parameters, tree, activation)
    return terms


# The negative log-likelihood of documents under one softmax over all words.

SOFTMAX_NLL = Operation(
    "softmax_nll",
    (
        Backend("reference", f"{_HERE}.reference", ("cpu",), FLOATS[1:]),
        Backend("vectorized", f"{_HERE}.vectorized", ("cpu", "cuda"), FLOATS),
        Backend("cpu", f"{_HERE}.cpu.softmax", ("cpu",), FLOATS[:1], requires="numba"),
        Backend(
            "cuda",
            f"{_HERE}.cuda.softmax",
            ("cuda",),
            FLOATS[:1],
            "triton",
            TENSOR_CORES,
        ),
    ),
    automatic=("cpu", "cuda", "vectorized"),
)


def softmax_nll(
    batch: DocumentBatch,
    parameters: Parameters,
    *,
    activation: str = "relu",
    backend: str = "auto",
) -> DocumentTerms:
    """Return the weighted negative log-likelihood of every document, and its summary.

    The contract of `tree_nll`, with p(v | h) = softmax(b + V h)_v, the paper's equation 2: V has a
    row for every word, and a document of D words costs O(D · H · K).

    Parameters
    ----------
    batch : tokens, offsets and weights (`DocumentBatch`).
    parameters : W (K × H), c (H), V (K × H) and b (K).
    activation : g, one of "relu" (the paper's), "tanh", "sigmoid".
    backend : "reference" (Algorithm 1 as loops, float64), "vectorized" (plain torch), "cpu" (in
        bounded memory, float32), "cuda" (in bounded memory, float32 on a GPU), or "auto".

    Returns
    -------
    DocumentTerms : `nll_B` and `summary_BH`, differentiable with respect to all parameters. Above
        `SPARSE_ROWS` words the gradient of W is a sparse tensor of the rows touched.
    """
    weights = parameters.word_embedding_KH
    check_call(batch, parameters, len(weights), activation)
    name = SOFTMAX_NLL.choose(backend, weights.device, weights.dtype)
    terms: DocumentTerms = SOFTMAX_NLL.load(name)(batch, parameters, activation)
    return terms


# Adam's update of some rows of a table, in place.

ROW_ADAM = Operation(
    "row_adam",
    (
        Backend("vectorized", f"{_HERE}.vectorized", ("cpu", "cuda"), FLOATS),
        Backend("cpu", f"{_HERE}.cpu.adam", ("cpu",), FLOATS[:1], requires="numba"),
        Backend(
            "cuda",
            f"{_HERE}.cuda.adam",
            ("cuda",),
            FLOATS[:1],
            "triton",
            capability=TENSOR_CORES,
        ),
    ),
    automatic=("cpu", "cuda", "vectorized"),
)


class AdamRates(NamedTuple):
    """The numbers of Adam (Kingma and Ba 2015); those that change lie where the table is."""

    learning_rate: float | Tensor
    beta1: float
    beta2: float
    epsilon: float
    step: int | Tensor
    """Updates of the whole table so far, this one included: it corrects the moments' bias."""


def row_adam(
    table_KH: Tensor,
    mean_KH: Tensor,
    square_KH: Tensor,
    rows_R: Tensor,
    gradient_RH: Tensor,
    rates: AdamRates,
    *,
    backend: str = "auto",
) -> None:
    """Update the given rows of a table and of its two moments; leave all other rows alone.

    Dense Adam also moves rows without a gradient, by their decaying moments. This does not: a row's
    moments decay only when it is touched, and the bias correction counts updates of the table.

    Parameters
    ----------
    rows_R : the rows to update, none of them twice. `cuda` passes over those that repeat the one
        before them, and over -1: recorded calls of the fused operations fill up their lists so.
    gradient_RH : their gradients.
    """
    name = ROW_ADAM.choose(backend, table_KH.device, table_KH.dtype)
    ROW_ADAM.load(name)(table_KH, mean_KH, square_KH, rows_R, gradient_RH, rates)
