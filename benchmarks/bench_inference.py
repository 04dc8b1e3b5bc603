"""Benchmark of inference from counts, compared with a sparse product and with other libraries.

python -m benchmarks.bench_inference
"""

from copy import copy

import numpy as np
import tomotopy
import torch
from scipy import sparse
from sklearn.decomposition import LatentDirichletAllocation

from benchmarks.common import alternate, print_table, write_results
from supdocnade import SupDocNADE

N_DOCUMENTS, N_WORDS, N_TOPICS, LENGTH, N_CLASSES = 10_000, 1160, 200, 961, 8

PEER_DOCUMENTS = 100
"""Documents for the other libraries, which are compared per document."""

PEER_TRAINING = 200
"""Documents on which they are fitted; the quality of the fit does not affect the time."""


def draw() -> tuple[sparse.csr_array, np.ndarray]:
    """Return counts with long-tailed word frequencies, as in real corpora, and classes."""
    rng = np.random.default_rng(0)
    frequency = rng.gamma(0.5, size=(N_CLASSES, N_WORDS))
    frequency /= frequency.sum(axis=1, keepdims=True)
    labels = np.arange(N_DOCUMENTS) % N_CLASSES
    counts = [rng.multinomial(LENGTH, frequency[label]) for label in labels]
    return sparse.csr_array(np.array(counts)), labels


def main() -> None:
    X, labels = draw()
    model = SupDocNADE(N_TOPICS, max_epochs=1, random_state=0).fit(X[:640], labels[:640])
    alone = copy(model).set_params(n_jobs=1)
    W_KH = model.components_.T.copy()
    X_float = sparse.csr_matrix(X, dtype=np.float32)
    few = X[:PEER_DOCUMENTS]
    threads = torch.get_num_threads()
    # All but the product, which has one thread, use torch's number of threads.
    lda = LatentDirichletAllocation(N_TOPICS, max_iter=2, n_jobs=threads, random_state=0).fit(
        X[:PEER_TRAINING]
    )
    gibbs = tomotopy.LDAModel(k=N_TOPICS, seed=0)
    for document in X[:PEER_TRAINING]:
        gibbs.add_doc(_words(document))
    gibbs.train(20, workers=1)
    unseen = [gibbs.make_doc(_words(document)) for document in few]

    timings = alternate(
        {
            "sparse product X · W (scipy)": lambda: X_float @ W_KH,
            "transform": lambda: model.transform(X),
            "transform and predict_proba": lambda: (model.transform(X), model.predict_proba(X)),
            "predict_proba": lambda: model.predict_proba(X),
            "predict_proba, one thread": lambda: alone.predict_proba(X),
            "scikit-learn LDA transform": lambda: lda.transform(few),
            "tomotopy LDA infer": lambda: gibbs.infer(unseen, workers=threads),
        }
    )
    ms = {
        name: 1e3 * timing.median / (PEER_DOCUMENTS if "LDA" in name else N_DOCUMENTS)
        for name, timing in timings.items()
    }
    base = ms["sparse product X · W (scipy)"]
    print_table(
        f"{N_DOCUMENTS} documents × {LENGTH} words, {N_WORDS} words, {N_TOPICS} topics",
        ["what", "µs/document", "over the product"],
        [[name, f"{1e3 * value:.1f}", f"{value / base:.2f}"] for name, value in ms.items()],
    )
    ours = ms["predict_proba"]
    write_results(
        "inference",
        {
            "ms_per_document": ms,
            "predict_proba_over_sparse_product": ours / base,
            "predict_proba_one_thread_over_sparse_product": ms["predict_proba, one thread"] / base,
            "features_and_class_over_sparse_product": ms["transform and predict_proba"] / base,
            "sklearn_lda_over_predict_proba": ms["scikit-learn LDA transform"] / ours,
            "tomotopy_infer_over_predict_proba": ms["tomotopy LDA infer"] / ours,
        },
    )


def _words(document: sparse.csr_array) -> list[str]:
    ids, counts = document.indices, document.data
    return [str(word) for word in np.repeat(ids, counts)]


if __name__ == "__main__":
    main()
