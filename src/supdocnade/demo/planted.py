"""Corpora drawn from known distributions, for tests, the demo and examples."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from supdocnade.checks import check_range
from supdocnade.errors import InvalidArgument

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
    if n_documents < 1 or n_classes < 1 or n_visual_words < 1 or n_tags_per_class < 0:
        raise InvalidArgument(
            "n_documents, n_classes and n_visual_words must be positive and n_tags_per_class not "
            f"negative, got {n_documents}, {n_classes}, {n_visual_words}, {n_tags_per_class}."
        )
    check_range("mean_length", mean_length, above=0)
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
