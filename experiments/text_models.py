"""20 Newsgroups and TagMyNews: DocNADE and SupDocNADE beside LDA and ProdLDA.

python -m experiments.text_models

All models learn 50 topics from the training part, with the settings of `supdocnade topics` or those
that the other programs recommend; none of them is tuned. Perplexity is per word over the test part:
that of DocNADE is exact for one random order, those of scikit-learn's LDA and of ProdLDA are
bounds, and tomotopy has none. Coherence (NPMI of ten words) is counted in the test part. TagMyNews
has classes: the accuracy is that of a logistic regression on the topics, or of SupDocNADE's own
classes, and the retrieval precision is that of `experiments.tmn`. Seconds of training are CPU time
on one thread, only to be compared with each other. ProdLDA is written here: the packages that have
it need language models and other versions of torch or scikit-learn. A run that was stopped
continues with the models that are missing.
"""

import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.common import lda_log_prob_bound, read_results, write_results
from experiments.data import Bags, newsgroups, tag_my_news
from experiments.tmn import retrieval_precision
from supdocnade import DocNADE, SupDocNADE
from supdocnade.metrics import npmi_coherence, presence_correlation, top_ranked
from supdocnade.model.topic_rotation import find_rotation

N_TOPICS, N_WORDS, SEED = 50, 10, 0
DOCNADE: dict[str, Any] = {
    "activation": "sigmoid",
    "learning_rate": 3e-3,
    "max_epochs": 20,
    "n_jobs": 1,
    "random_state": SEED,
}

Floats = NDArray[np.floating]


class Fitted(NamedTuple):
    """Outputs of a fitted topic model."""

    word_scores: Floats
    """(topics, words)."""
    transform: Callable[[sparse.csr_array], Floats]
    """Returns (documents, topics)."""
    log_prob: Callable[[sparse.csr_array], float] | None = None
    """Returns the log-likelihood of documents, or a bound of it."""
    predict: Callable[[sparse.csr_array], NDArray[Any]] | None = None


def fit_docnade(train: Bags) -> Fitted:
    return _read(DocNADE(N_TOPICS, **DOCNADE).fit(train.counts), train)


def fit_supdocnade(train: Bags) -> Fitted:
    model = SupDocNADE(N_TOPICS, generative_weight=1.0, **DOCNADE).fit(train.counts, train.labels)
    return _read(model, train)._replace(predict=model.predict)


def _read(model: DocNADE | SupDocNADE, train: Bags) -> Fitted:
    hidden_BH = model.transform(train.counts)
    rotated_BR = find_rotation(hidden_BH).rotate(hidden_BH)
    scores_RK = presence_correlation(rotated_BR, [train.counts])
    return Fitted(scores_RK, model.transform, lambda X: float(model.log_prob(X).sum()))


def fit_lda(train: Bags) -> Fitted:
    lda = LatentDirichletAllocation(N_TOPICS, max_iter=20, random_state=SEED).fit(train.counts)
    return Fitted(lda.components_, lda.transform, lambda X: lda_log_prob_bound(lda, X))


def fit_tomotopy(train: Bags) -> Fitted:
    import tomotopy

    lda = tomotopy.LDAModel(k=N_TOPICS, seed=SEED)
    for words in _word_lists(train.counts):
        lda.add_doc(words)
    lda.train(500, workers=1)
    scores = np.zeros((N_TOPICS, train.counts.shape[1]))
    columns = [int(word) for word in lda.used_vocabs]
    for topic in range(N_TOPICS):
        scores[topic, columns] = lda.get_topic_word_dist(topic)

    def transform(counts: sparse.csr_array) -> Floats:
        documents = [lda.make_doc(words) for words in _word_lists(counts)]
        return np.array(lda.infer(documents, workers=1)[0])

    return Fitted(scores, transform)


def _word_lists(counts: sparse.csr_array) -> list[list[str]]:
    return [
        np.repeat(counts.indices[a:b], counts.data[a:b]).astype(str).tolist()
        for a, b in zip(counts.indptr[:-1], counts.indptr[1:], strict=True)
    ]


class ProdLDA(torch.nn.Module):
    """Autoencoding variational inference for topic models (Srivastava and Sutton, 2017)."""

    def __init__(self, n_words: int, n_hidden: int = 100):
        super().__init__()
        self.encoder = torch.nn.Sequential(
            torch.nn.Linear(n_words, n_hidden), torch.nn.Softplus(),
            torch.nn.Linear(n_hidden, n_hidden), torch.nn.Softplus(), torch.nn.Dropout(0.2),
        )  # fmt: skip
        self.mean = torch.nn.Linear(n_hidden, N_TOPICS)
        self.log_variance = torch.nn.Linear(n_hidden, N_TOPICS)
        self.norms = torch.nn.ModuleList(
            torch.nn.BatchNorm1d(size, affine=False) for size in (N_TOPICS, N_TOPICS, n_words)
        )
        self.beta = torch.nn.Linear(N_TOPICS, n_words, bias=False)
        # Laplace approximation of a symmetric Dirichlet prior with parameter 1.
        self.prior_variance = 1 - 1 / N_TOPICS

    def encode(self, counts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and log-variance of the posterior of every document."""
        hidden = self.encoder(counts)
        return self.norms[0](self.mean(hidden)), self.norms[1](self.log_variance(hidden))

    def bound(self, counts: torch.Tensor) -> torch.Tensor:
        """Return the evidence lower bound of every document, with one sample."""
        mean, log_variance = self.encode(counts)
        noise = torch.randn_like(mean)
        theta = torch.softmax(mean + noise * torch.exp(log_variance / 2), dim=1)
        log_p = torch.log_softmax(self.norms[2](self.beta(theta)), dim=1)
        variance, prior = log_variance.exp(), self.prior_variance
        divergence = (variance / prior + mean**2 / prior - 1 + np.log(prior) - log_variance) / 2
        bound: torch.Tensor = (counts * log_p).sum(dim=1) - divergence.sum(dim=1)
        return bound


def fit_prodlda(train: Bags) -> Fitted:
    torch.manual_seed(SEED)
    X = torch.tensor(train.counts.toarray(), dtype=torch.float32)
    model = ProdLDA(X.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.99, 0.999))
    for _ in range(80):
        for rows in torch.randperm(len(X))[: len(X) // 200 * 200].reshape(-1, 200):
            optimizer.zero_grad()
            torch.autograd.backward(-model.bound(X[rows]).mean())
            optimizer.step()
    model.eval()

    @torch.no_grad()
    def transform(counts: sparse.csr_array) -> Floats:
        mean, _ = model.encode(torch.tensor(counts.toarray(), dtype=torch.float32))
        return np.asarray(torch.softmax(mean, dim=1).numpy())

    @torch.no_grad()
    def log_prob(counts: sparse.csr_array) -> float:
        return float(model.bound(torch.tensor(counts.toarray(), dtype=torch.float32)).sum())

    return Fitted(model.beta.weight.detach().numpy().T, transform, log_prob)


MODELS: dict[str, Callable[[Bags], Fitted]] = {
    "DocNADE": fit_docnade,
    "SupDocNADE": fit_supdocnade,
    "LDA, scikit-learn": fit_lda,
    "LDA, tomotopy": fit_tomotopy,
    "ProdLDA": fit_prodlda,
}


def measure(fit: Callable[[Bags], Fitted], train: Bags, test: Bags) -> dict[str, Any]:
    record: dict[str, Any] = {}
    started = time.process_time()
    fitted = fit(train)
    record["fit seconds"] = round(time.process_time() - started, 1)
    if fitted.log_prob is not None:
        record["perplexity"] = float(np.exp(-fitted.log_prob(test.counts) / test.counts.sum()))
    words_HX = top_ranked(fitted.word_scores, N_WORDS)
    record["coherence"] = float(npmi_coherence(words_HX, test.counts).mean())
    record["diversity"] = len(np.unique(words_HX)) / words_HX.size
    if len(set(train.labels)) > 1:
        known, unseen = fitted.transform(train.counts), fitted.transform(test.counts)
        record["precision"] = retrieval_precision(known, train.labels, unseen, test.labels)
        if fitted.predict is not None:
            record["accuracy"] = float((fitted.predict(test.counts) == test.labels).mean())
        else:
            classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, C=0.1))
            classifier.fit(known, train.labels)
            record["accuracy"] = float(classifier.score(unseen, test.labels))
    return record


def main() -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    corpora = {"20 Newsgroups": newsgroups(), "TagMyNews": tag_my_news()[::2]}
    found = read_results("text_models").get("corpora", {})
    for corpus, parts in corpora.items():
        full = [np.asarray(bags.counts.sum(axis=1)) > 0 for bags in parts]
        train, test = (
            Bags(bags.counts[rows], bags.labels[rows])
            for bags, rows in zip(parts, full, strict=True)
        )
        records = found.setdefault(corpus, {})
        for name, fit in MODELS.items():
            if name in records or (name == "SupDocNADE" and len(set(train.labels)) == 1):
                continue
            print(corpus, name, flush=True)
            records[name] = measure(fit, train, test)
            print("  ", records[name], flush=True)
            results = {"topics": N_TOPICS, "words": N_WORDS, "corpora": found}
            write_results("text_models", "python -m experiments.text_models", results)


if __name__ == "__main__":
    main()
