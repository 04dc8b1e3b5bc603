"""Topic models beside each other, on TagMyNews, 20 Newsgroups and bags of LabelMe photographs.

python -m experiments.peers [SEED ...]

All models have 50 topics, except `DocNADE()` and `SupDocNADE()` with default arguments. The
settings of the grids of `MODELS` are chosen with seed 0, on a held-out fifth of the training
part, which is the same for all models: by accuracy if documents have classes, otherwise by
perplexity. At most `N_CHOICE` documents are used for this choice. Then every model learns from the
training part, and is measured on the test part:

- perplexity by document completion: half of the words of a document are given, and the others are
  predicted, each by itself. All models predict the same words.
- NPMI and c_v of the ten top words of a topic, with co-occurrences counted in the test documents,
  and the share of different words among all top words.
- accuracy: of a logistic regression on the topics, C chosen on the held-out fifth of the documents
  whose labels the topic model has seen, too; and of the model's own classes.
- CPU seconds of one thread for the fit and for the topics of the test documents.

On the held-out fifth of TagMyNews, `SupDocNADE.for_texts` is also measured with other λ.

Gensim and tomotopy are left out where they are not installed. ProdLDA is written here: the packages
that have it need language models and other versions of torch or scikit-learn. Fits run in one
process per core, at most LOKY_MAX_CPU_COUNT, if that is set. A run that was stopped continues with
what is missing.
"""

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, partial, reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, log_softmax
from sklearn.decomposition import NMF, LatentDirichletAllocation
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.common import read_results, write_results
from experiments.data import Bags, class_slda, newsgroups, tag_my_news
from supdocnade import DocNADE, SupDocNADE
from supdocnade.baselines import MMLDA, SLDA, ReplicatedSoftmax
from supdocnade.metrics import (
    NORMAL_95,
    npmi_coherence,
    presence_correlation,
    split_words,
    top_ranked,
)
from supdocnade.model.inference import word_log_proba
from supdocnade.model.topic_rotation import find_rotation

N_TOPICS, N_WORDS, N_CHOICE = 50, 10, 3000
SEEDS = (0, 1, 2)
WEIGHTS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
COMMAND = "python -m experiments.peers"

Floats = NDArray[np.floating]
Place = tuple[str, ...]
Task = Callable[[], Any]


class Fitted(NamedTuple):
    """Outputs of a fitted topic model."""

    word_scores: Floats
    """(topics, words)."""
    transform: Callable[[sparse.csr_array], Floats]
    """Returns (documents, topics)."""
    predict_words: Callable[[sparse.csr_array], Floats] | None = None
    """Returns the log-probability of every next word, (documents, words)."""
    predict: Callable[[sparse.csr_array], NDArray[Any]] | None = None


def fit_docnade(train: Bags, seed: int, kind: Any, **settings: Any) -> Fitted:
    """Fit one of our models, with default arguments if no settings are given."""
    make = partial(kind.for_texts, train.counts, N_TOPICS) if settings.pop("texts", 0) else kind
    model = make(n_jobs=1, random_state=seed, **settings).fit(train.counts, train.labels)
    hidden_BH = model.transform(train.counts)
    topics_BR = find_rotation(hidden_BH).rotate(hidden_BH)
    words_K = np.arange(train.counts.shape[1])
    return Fitted(
        presence_correlation(topics_BR, [train.counts]),
        model.transform,
        lambda X: word_log_proba(model.network_.arrays(), model.transform(X), words_K),
        getattr(model, "predict", None),
    )


def fit_dirichlet(train: Bags, seed: int, kind: Any, **settings: Any) -> Fitted:
    model = kind(N_TOPICS, n_jobs=1, random_state=seed, **settings).fit(train.counts, train.labels)

    def predict_words(X: sparse.csr_array) -> Floats:
        expected_BH = model.transform(X) * np.asarray(X.sum(axis=1))[:, None]
        return mix(expected_BH + model.topic_prior, model.components_)

    return Fitted(model.components_, model.transform, predict_words, model.predict)


def fit_replicated_softmax(train: Bags, seed: int, **settings: Any) -> Fitted:
    model = ReplicatedSoftmax(N_TOPICS, random_state=seed, **settings).fit(train.counts)

    def predict_words(X: sparse.csr_array) -> Floats:
        # One step of mean field: the expected topics of the words that are given.
        size_B1 = np.asarray(X.sum(axis=1))[:, None]
        hidden_BH = expit(X @ model.components_.T + size_B1 * model.topic_bias_)
        return np.asarray(log_softmax(hidden_BH @ model.components_ + model.word_bias_, axis=1))

    return Fitted(model.components_, model.transform, predict_words)


def fit_lda(train: Bags, seed: int, **settings: Any) -> Fitted:
    lda = LatentDirichletAllocation(N_TOPICS, max_iter=20, random_state=seed, **settings)
    lda.fit(train.counts)
    return Fitted(lda.components_, lda.transform, lambda X: mix(lda.transform(X), lda.components_))


def fit_nmf(train: Bags, seed: int) -> Fitted:
    weigh = TfidfTransformer().fit(train.counts)
    nmf = NMF(N_TOPICS, init="nndsvda", max_iter=400, random_state=seed)
    nmf.fit(weigh.transform(train.counts))
    return Fitted(nmf.components_, lambda X: nmf.transform(weigh.transform(X)))


def fit_tomotopy(train: Bags, seed: int, **settings: Any) -> Fitted:
    import tomotopy

    lda = tomotopy.LDAModel(k=N_TOPICS, seed=seed, **settings)
    for words in word_lists(train.counts):
        lda.add_doc(words)
    lda.train(200, workers=1)
    columns = [int(word) for word in lda.used_vocabs]
    known_HK = np.array([lda.get_topic_word_dist(topic) for topic in range(N_TOPICS)])
    beta_HK = np.full((N_TOPICS, train.counts.shape[1]), known_HK.min())
    beta_HK[:, columns] = known_HK

    def transform(X: sparse.csr_array) -> Floats:
        # A document without words cannot be made.
        shares_BH = np.full((X.shape[0], N_TOPICS), 1 / N_TOPICS)
        full = np.flatnonzero(X.sum(axis=1) > 0)
        documents = [lda.make_doc(words) for words in word_lists(X[full])]
        shares_BH[full] = lda.infer(documents, workers=1)[0]
        return shares_BH

    return Fitted(beta_HK, transform, lambda X: mix(transform(X), beta_HK))


def fit_gensim(train: Bags, seed: int, **settings: Any) -> Fitted:
    LdaModel = importlib.import_module("gensim.models").LdaModel
    names = {word: str(word) for word in range(train.counts.shape[1])}
    lda = LdaModel(pairs(train.counts), N_TOPICS, names, passes=10, random_state=seed, **settings)

    def transform(X: sparse.csr_array) -> Floats:
        return np.asarray(lda.inference(pairs(X))[0])

    return Fitted(lda.get_topics(), transform, lambda X: mix(transform(X), lda.get_topics()))


def mix(topics_BH: Floats, words_HK: Floats) -> Floats:
    """Return the log-probability of words by topic shares and topics, neither normalised."""
    shares_BH = topics_BH / topics_BH.sum(axis=1, keepdims=True)
    return np.asarray(np.log(shares_BH @ (words_HK / words_HK.sum(axis=1, keepdims=True))))


def word_lists(counts: sparse.csr_array) -> list[list[str]]:
    return [
        np.repeat(counts.indices[a:b], counts.data[a:b]).astype(str).tolist()
        for a, b in zip(counts.indptr[:-1], counts.indptr[1:], strict=True)
    ]


def pairs(counts: sparse.csr_array) -> list[list[tuple[int, int]]]:
    return [
        list(zip(counts.indices[a:b].tolist(), counts.data[a:b].tolist(), strict=True))
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
            torch.nn.BatchNorm1d(size) for size in (N_TOPICS, N_TOPICS, n_words)
        )
        for norm in self.norms:
            norm.weight.requires_grad = False
        self.dropout = torch.nn.Dropout(0.2)
        self.beta = torch.nn.Linear(N_TOPICS, n_words, bias=False)
        # Laplace approximation of a symmetric Dirichlet prior with parameter 1.
        self.prior_variance = 1 - 1 / N_TOPICS

    def encode(self, counts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and log-variance of the posterior of every document."""
        hidden = self.encoder(counts)
        return self.norms[0](self.mean(hidden)), self.norms[1](self.log_variance(hidden))

    def word_log_proba(self, shares: torch.Tensor) -> torch.Tensor:
        """Return the log-probability of every word, given the shares of topics."""
        return torch.log_softmax(self.norms[2](self.beta(self.dropout(shares))), dim=1)

    def bound(self, counts: torch.Tensor) -> torch.Tensor:
        """Return the evidence lower bound of every document, with one sample."""
        mean, log_variance = self.encode(counts)
        noise = torch.randn_like(mean)
        sample = torch.softmax(mean + noise * torch.exp(log_variance / 2), dim=1)
        log_p = self.word_log_proba(sample)
        variance, prior = log_variance.exp(), self.prior_variance
        divergence = (variance / prior + mean**2 / prior - 1 + np.log(prior) - log_variance) / 2
        bound: torch.Tensor = (counts * log_p).sum(dim=1) - divergence.sum(dim=1)
        return bound


def fit_prodlda(train: Bags, seed: int, epochs: int) -> Fitted:
    torch.manual_seed(seed)
    X = torch.tensor(train.counts.toarray(), dtype=torch.float32)
    model = ProdLDA(X.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.99, 0.999))
    for _ in range(epochs):
        for rows in torch.randperm(len(X))[: len(X) // 200 * 200].reshape(-1, 200):
            optimizer.zero_grad()
            torch.autograd.backward(-model.bound(X[rows]).mean())
            optimizer.step()
    model.eval()

    @torch.no_grad()
    def transform(counts: sparse.csr_array) -> Floats:
        mean, _ = model.encode(torch.tensor(counts.toarray(), dtype=torch.float32))
        return torch.softmax(mean, dim=1).numpy()

    @torch.no_grad()
    def predict_words(counts: sparse.csr_array) -> Floats:
        log_p: Floats = model.word_log_proba(torch.tensor(transform(counts))).numpy()
        return log_p.astype(np.float64)

    topic_words = model.word_log_proba(torch.eye(N_TOPICS)).detach().numpy()
    return Fitted(topic_words, transform, predict_words)


class Model(NamedTuple):
    """How a model is fitted, and the settings that are tried, the default first."""

    fit: Callable[..., Fitted]
    grid: Sequence[dict[str, Any]] = ({},)
    needs_classes: bool = False


PRIORS = (1.0, 0.3)

MODELS: dict[str, Model] = {
    "DocNADE.for_texts": Model(partial(fit_docnade, kind=DocNADE, texts=1)),
    "SupDocNADE.for_texts": Model(
        partial(fit_docnade, kind=SupDocNADE, texts=1), needs_classes=True
    ),
    "NMF of tf-idf, scikit-learn": Model(fit_nmf),
    "LDA, scikit-learn": Model(fit_lda, [{"doc_topic_prior": a} for a in (1 / N_TOPICS, 0.3, 1.0)]),
    "LDA, tomotopy": Model(fit_tomotopy, [{"alpha": a} for a in (0.1, 0.3)]),
    "SLDA": Model(
        partial(fit_dirichlet, kind=SLDA),
        [{"topic_prior": a, "penalty": p} for a in PRIORS for p in (0.01, 1.0)],
        True,
    ),
    "MMLDA": Model(
        partial(fit_dirichlet, kind=MMLDA),
        [{"topic_prior": a, "cost": c, "max_iter": 100} for a in PRIORS for c in (0.3, 3.0)],
        True,
    ),
    "ReplicatedSoftmax": Model(
        fit_replicated_softmax,
        [{"learning_rate": r, "max_epochs": e} for r in (1e-2, 3e-3) for e in (20, 60)],
    ),
    "DocNADE()": Model(partial(fit_docnade, kind=DocNADE)),
    "SupDocNADE()": Model(partial(fit_docnade, kind=SupDocNADE), needs_classes=True),
    "LDA, gensim": Model(fit_gensim, [{"alpha": each} for each in ("symmetric", "auto")]),
    "ProdLDA": Model(fit_prodlda, [{"epochs": each} for each in (20, 80, 320)]),
}


def c_v(words_HX: NDArray[np.integer], counts: sparse.csr_array) -> Floats:
    """Return the coherence c_v of every topic (Röder, Both and Hinneburg 2015), (topics,).

    Co-occurrences are counted in whole documents: bags have no order of words in which a window
    could slide. It equals gensim's if the window is as long as the longest document.
    """
    present = sparse.csc_array(counts > 0).astype(np.float64)
    found = []
    for words_X in words_HX:
        joint = (present[:, words_X].T @ present[:, words_X]).toarray() / counts.shape[0]
        p_X = np.diag(joint)
        with np.errstate(divide="ignore", invalid="ignore"):
            npmi_XX = np.log((joint + 1e-12) / (p_X[:, None] * p_X)) / -np.log(joint + 1e-12)
        npmi_XX[~np.isfinite(npmi_XX)] = 0.0
        total_X = npmi_XX.sum(axis=0)
        scale_X = np.linalg.norm(npmi_XX, axis=1) * np.linalg.norm(total_X)
        found.append(np.mean(npmi_XX @ total_X / np.maximum(scale_X, 1e-12)))
    return np.array(found)


def completion(fitted: Fitted, test: sparse.csr_array) -> tuple[float, float]:
    """Return the perplexity by document completion, and half of its 95 % interval."""
    assert fitted.predict_words is not None, "checked"
    given, others = split_words(test, np.random.default_rng(0))
    log_p_B = np.concatenate(
        [
            others[rows].multiply(fitted.predict_words(given[rows])).sum(axis=1)
            for rows in np.array_split(np.arange(test.shape[0]), max(test.shape[0] // 1000, 1))
        ]
    )
    size_B = np.asarray(others.sum(axis=1))
    mean = log_p_B.sum() / size_B.sum()
    error = np.sqrt(((log_p_B - mean * size_B) ** 2).sum()) / size_B.sum()
    value = float(np.exp(-mean))
    return value, float(NORMAL_95 * error * value)


def logistic_accuracy(fitted: Fitted, fit: Bags, held: Bags, train: Bags, test: Bags) -> float:
    """Return the accuracy on the test part; C is chosen on the held-out part."""
    topics = {id(bags): fitted.transform(bags.counts) for bags in (fit, held, train, test)}

    def score(C: float, known: Bags, unseen: Bags) -> float:
        made = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=C))
        made.fit(topics[id(known)], known.labels)
        return float(made.score(topics[id(unseen)], unseen.labels))

    return score(max((0.01, 0.1, 1.0), key=lambda C: score(C, fit, held)), train, test)


def score_settings(corpus: str, name: str, index: int) -> float:
    """Return the score on held-out documents of settings of a grid, larger for better ones."""
    fit, held = (select(each, slice(N_CHOICE)) for each in load_corpora()[corpus][:2])
    fitted = MODELS[name].fit(fit, 0, **MODELS[name].grid[index])
    if fitted.predict is not None:
        return float((fitted.predict(held.counts) == held.labels).mean())
    if len(set(fit.labels)) > 1:
        return logistic_accuracy(fitted, fit, held, fit, held)
    return -completion(fitted, held.counts)[0]


def measure(fitted: Fitted, fit: Bags, held: Bags, train: Bags, test: Bags) -> dict[str, Any]:
    record: dict[str, Any] = {}
    started = time.process_time()
    fitted.transform(test.counts)
    record["inference seconds"] = round(time.process_time() - started, 3)
    if fitted.predict_words is not None:
        record["perplexity"] = completion(fitted, test.counts)
    words_HX = top_ranked(fitted.word_scores, N_WORDS)
    for name, values_H in (
        ("NPMI", npmi_coherence(words_HX, test.counts)),
        ("c_v", c_v(words_HX, test.counts)),
    ):
        error = values_H.std(ddof=1) / np.sqrt(len(values_H))
        record[name] = float(values_H.mean()), float(NORMAL_95 * error)
    record["diversity"] = len(np.unique(words_HX)) / words_HX.size
    if len(set(train.labels)) > 1:
        found = {"logistic": logistic_accuracy(fitted, fit, held, train, test)}
        if fitted.predict is not None:
            found["own"] = float((fitted.predict(test.counts) == test.labels).mean())
        for name, share in found.items():
            half = NORMAL_95 * np.sqrt(share * (1 - share) / test.counts.shape[0])
            record[f"{name} accuracy"] = share, float(half)
    return record


@cache
def load_corpora() -> dict[str, tuple[Bags, Bags, Bags, Bags]]:
    """Return of every corpus the parts of `measure`, without documents of fewer than two words.

    They are four fifths and the held-out fifth of the training part, this part, and the test part.
    """
    corpora = {}
    for name, parts in (
        ("TagMyNews", tag_my_news()[::2]),
        ("20 Newsgroups", newsgroups()),
        ("LabelMe bags", class_slda()),
    ):
        train, test = (select(each, np.asarray(each.counts.sum(axis=1)) > 1) for each in parts)
        order = np.random.default_rng(0).permutation(len(train.labels))
        cut = len(order) // 5
        corpora[name] = select(train, order[cut:]), select(train, order[:cut]), train, test
    return corpora


def select(bags: Bags, rows: NDArray[Any] | slice) -> Bags:
    return Bags(bags.counts[rows], bags.labels[rows])


def measure_weight(weight: str, seed: int) -> list[float]:
    """Return perplexity and accuracy on the held-out fifth for a λ; of DocNADE for "none"."""
    fit, held, _, _ = load_corpora()["TagMyNews"]
    if weight == "none":
        plain = DocNADE.for_texts(fit.counts, N_TOPICS, n_jobs=1, random_state=seed)
        return [plain.fit(fit.counts).perplexity(held.counts, average="corpus"), np.nan]
    model = SupDocNADE.for_texts(
        fit.counts, N_TOPICS, generative_weight=float(weight), n_jobs=1, random_state=seed
    ).fit(fit.counts, fit.labels)
    perplexity = model.perplexity(held.counts, average="corpus")
    return [perplexity, model.score(held.counts, held.labels)]


def measure_model(corpus: str, name: str, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Fit a model to the training part, and measure it on the test part."""
    fit, held, train, test = load_corpora()[corpus]
    model = MODELS[name]
    # The first fit compiles, which does not count.
    model.fit(select(train, slice(200)), seed, **settings).transform(held.counts)
    started = time.process_time()
    fitted = model.fit(train, seed, **settings)
    seconds = round(time.process_time() - started, 1)
    measured = measure(fitted, fit, held, train, test)
    return {"settings": settings, "fit seconds": seconds, **measured}


def fill(results: dict[str, Any], tasks: dict[Place, Task]) -> None:
    """Compute the tasks whose places in the results are empty, in one process per core."""
    missing = {
        place: task for place, task in tasks.items() if place[-1] not in find(results, place[:-1])
    }
    workers = Parallel(n_jobs=-1, return_as="generator_unordered")
    for place, value in workers(delayed(compute)(*each) for each in missing.items()):
        find(results, place[:-1])[place[-1]] = value
        print(*place, value, flush=True)
        write_results("peers", COMMAND, results)


def find(results: dict[str, Any], place: Place) -> Any:
    """Return what is at a place, made if it is not there."""
    return reduce(lambda record, key: record.setdefault(key, {}), place, results)


def compute(place: Place, task: Task) -> tuple[Place, Any]:
    torch.set_num_threads(1)
    return place, task()


def main() -> None:
    torch.set_num_threads(1)
    results: dict[str, Any] = {"topics": N_TOPICS, "words": N_WORDS}
    results |= {name: read_results("peers").get(name, {}) for name in ("corpora", "weights")}
    absent = [each for each in ("gensim", "tomotopy") if not importlib.util.find_spec(each)]
    compared = [
        (corpus, name)
        for name, model in reversed(MODELS.items())  # The slow ones begin.
        for corpus, parts in load_corpora().items()
        if name.partition("LDA, ")[2] not in absent
        and (len(set(parts[0].labels)) > 1 or not model.needs_classes)
    ]
    scores: dict[Place, Task] = {
        ("corpora", corpus, name, "scores", str(index)): partial(
            score_settings, corpus, name, index
        )
        for corpus, name in compared
        for index in range(len(MODELS[name].grid))
        if len(MODELS[name].grid) > 1
    }
    fill(results, scores)
    runs: dict[Place, Task] = {}
    for seed in map(int, sys.argv[1:] or SEEDS):
        for corpus, name in compared:
            place = ("corpora", corpus, name)
            found = find(results, (*place, "scores"))
            best = max(found, key=lambda index: found[index], default="0")
            runs[*place, "runs", str(seed)] = partial(
                measure_model, corpus, name, MODELS[name].grid[int(best)], seed
            )
        for weight in ("none", *map(str, WEIGHTS)):
            runs["weights", str(seed), weight] = partial(measure_weight, weight, seed)
    fill(results, runs)


if __name__ == "__main__":
    # In the processes of the pool, `__main__` is another module.
    importlib.import_module("experiments.peers").main()
