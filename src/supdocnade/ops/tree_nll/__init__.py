"""The negative log-likelihood of documents under the tree of binary decisions."""

from supdocnade.ops.contract import DocumentBatch, DocumentTerms, Parameters, check_call
from supdocnade.ops.dispatch import FLOATS, TENSOR_CORES, Backend, Operation
from supdocnade.shapes import check_shape
from supdocnade.tree import WordTree

OPERATION = Operation(
    "tree_nll",
    (
        Backend("reference", f"{__name__}.reference", ("cpu",), FLOATS[1:]),
        Backend("vectorized", f"{__name__}.vectorized", ("cpu", "cuda"), FLOATS),
        Backend("cpu", f"{__name__}.cpu", ("cpu",), FLOATS[:1], requires="numba"),
        Backend("cuda", f"{__name__}.cuda", ("cuda",), FLOATS[:1], "triton", TENSOR_CORES),
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
    name = OPERATION.choose(backend, weights.device, weights.dtype)
    terms: DocumentTerms = OPERATION.load(name)(batch, parameters, tree, activation)
    return terms
