"""Train SupDocNADE on documents from known distributions and compare it with the optimum.

    python examples/planted_scenes.py

No data is needed: documents are drawn from known classes, so the best possible accuracy, tags and
likelihood are known.
"""

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from supdocnade import DocNADE, SupDocNADE
from supdocnade.metrics import f_measure, perplexity, top_ranked

N_TRAIN, N_TEST, N_TAGS = 2000, 1000, 3
SETTINGS: dict[str, Any] = {
    "n_topics": 32,
    "learning_rate": 3e-3,
    "batch_size": 50,
    "max_epochs": 20,
    "random_state": 0,
}


Floats = NDArray[np.float64]


class PlantedScenes(NamedTuple):
    """Documents drawn from known classes, with the distributions they were drawn from.

    Each class is a mixture of topics. A document first draws its class, then all its words and tags
    independently given that class, so its exact probability is a sum over classes.
    """

    counts: NDArray[np.int64]
    """(documents, visual words)."""
    tags: NDArray[np.int64]
    """(documents, tags), 0 or 1."""
    labels: NDArray[np.int64]
    """(documents,) class numbers."""
    word_probability: Floats
    """(classes, visual words)."""
    tag_probability: Floats
    """(classes, tags)."""

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.word_probability)

    def log_prob(self) -> Floats:
        """Return log p(v) of the visual words of each document in one fixed order, (documents,)."""
        by_class = self.counts @ np.log(self.word_probability).T
        total: Floats = logsumexp(by_class, axis=1) - np.log(self.n_classes)
        return total

    def class_posterior(self) -> Floats:
        """Return p(class | visual words), (documents, classes): the Bayes-optimal prediction."""
        by_class = self.counts @ np.log(self.word_probability).T
        posterior: Floats = np.exp(by_class - logsumexp(by_class, axis=1, keepdims=True))
        return posterior


def planted_scenes(
    n_documents: int,
    generator: np.random.Generator,
    *,
    n_classes: int = 4,
    n_visual_words: int = 60,
    n_tags_per_class: int = 3,
    mean_length: float = 80.0,
    contrast: float = 3.0,
) -> PlantedScenes:
    """Draw documents of known classes.

    Parameters
    ----------
    n_tags_per_class : tags of each class; they occur in 80 % of its documents, those of other
        classes in 5 %.
    mean_length : mean number of words per document (Poisson, at least one word).
    contrast : exponent of the topic shares of a class; with 0 all classes are equal.
    """
    topics = generator.dirichlet(np.full(n_visual_words, 0.3), size=2 * n_classes)
    shares = generator.dirichlet(np.full(2 * n_classes, 0.5), size=n_classes)
    shares = shares**contrast / (shares**contrast).sum(axis=1, keepdims=True)
    # Smoothing keeps all probabilities positive.
    word_probability = 0.98 * shares @ topics + 0.02 / n_visual_words
    owner = np.repeat(np.arange(n_classes), n_tags_per_class)
    tag_probability = np.where(owner == np.arange(n_classes)[:, None], 0.8, 0.05)

    labels = generator.integers(n_classes, size=n_documents)
    lengths = np.maximum(generator.poisson(mean_length, n_documents), 1)
    counts = np.stack(
        [
            generator.multinomial(length, word_probability[label])
            for length, label in zip(lengths, labels, strict=True)
        ]
    )
    tags = generator.random((n_documents, owner.size)) < tag_probability[labels]
    return PlantedScenes(counts, tags.astype(np.int64), labels, word_probability, tag_probability)


def main() -> None:
    scenes = planted_scenes(
        N_TRAIN + N_TEST, np.random.default_rng(0), mean_length=40, contrast=1.0
    )
    train, test = slice(N_TRAIN), slice(N_TRAIN, None)
    X, y, tags = scenes.counts, scenes.labels, scenes.tags
    print(
        f"{N_TRAIN} training and {N_TEST} test documents: {X.shape[1]} words, "
        f"{tags.shape[1]} tags, {scenes.n_classes} classes\n"
    )
    started = time.perf_counter()
    print("training SupDocNADE on words, tags and classes", flush=True)
    supervised = SupDocNADE(**SETTINGS, generative_weight=0.1, annotation_weight=5.0)
    supervised.fit(X[train], y[train], annotations=tags[train])
    print("training DocNADE on words alone", flush=True)
    unsupervised = DocNADE(**SETTINGS).fit(X[train])
    print(f"done in {time.perf_counter() - started:.1f} s\n")

    def accuracy(scores: np.ndarray) -> str:
        return f"{(scores.argmax(axis=1) == y[test]).mean():.1%}"

    def tag_score(scores: np.ndarray) -> str:
        return f"{f_measure(top_ranked(scores, N_TAGS), tags[test] > 0):.3f}"

    def words_score(log_prob: np.ndarray) -> str:
        return f"{perplexity(log_prob, X[test].sum(axis=1)):.1f}"

    # Predictions from frequencies alone, by the model, and from the true distributions.
    posterior = scenes.class_posterior()[test]
    classes = [
        np.tile(np.bincount(y[train]), (N_TEST, 1)),
        supervised.predict_proba(X[test]),
        posterior,
    ]
    annotations = [
        np.tile(tags[train].mean(axis=0), (N_TEST, 1)),
        supervised.annotation_proba(X[test]),
        posterior @ scenes.tag_probability,
    ]
    counts = X[train].sum(axis=0) + 0.5
    likelihoods = [
        X[test] @ np.log(counts / counts.sum()),
        unsupervised.log_prob(X[test]),
        scenes.log_prob()[test],
    ]
    rows = [
        ["on the test documents", "frequencies", "ours", "best possible"],
        ["SupDocNADE: accuracy", *map(accuracy, classes)],
        [f"SupDocNADE: F-measure, top {N_TAGS} tags", *map(tag_score, annotations)],
        ["DocNADE: perplexity of words", *map(words_score, likelihoods)],
    ]
    for row in rows:
        print(row[0].ljust(34), *(cell.rjust(13) for cell in row[1:]))


if __name__ == "__main__":
    main()
