"""The negative log-likelihood of documents under one softmax over all words."""

from supdocnade.ops.contract import DocumentBatch, DocumentTerms, Parameters, check_call
from supdocnade.ops.dispatch import FLOATS, TENSOR_CORES, Backend, Operation

OPERATION = Operation(
    "softmax_nll",
    (
        Backend("reference", f"{__name__}.reference", ("cpu",), FLOATS[1:]),
        Backend("vectorized", f"{__name__}.vectorized", ("cpu", "cuda"), FLOATS),
        Backend("cpu", f"{__name__}.cpu", ("cpu",), FLOATS[:1], requires="numba"),
        Backend("cuda", f"{__name__}.cuda", ("cuda",), FLOATS[:1], "triton", TENSOR_CORES),
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
    name = OPERATION.choose(backend, weights.device, weights.dtype)
    terms: DocumentTerms = OPERATION.load(name)(batch, parameters, activation)
    return terms
