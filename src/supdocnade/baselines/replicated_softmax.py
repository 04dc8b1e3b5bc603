"""Replicated Softmax, an undirected topic model of word counts (Salakhutdinov and Hinton 2009).

A document of D words v has the probability p(v) = Σ_h exp(-E(v, h)) / Z_D, with binary topics h and
-E(v, h) = Σ_i b[v_i] + Σ_j h_j (D a_j + Σ_i W[v_i, j]). The sum Z_D over all documents of D words
cannot be computed; annealed importance sampling estimates it.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import expit, logsumexp, softmax

from supdocnade.checks import check_count, check_settings, document_settings, setting
from supdocnade.errors import InvalidArgument, TrainingDiverged
from supdocnade.estimators.inputs import CountTransformer, read_counts, read_seed
from supdocnade.metrics import perplexity
from supdocnade.model.inference import bag_activations
from supdocnade.seeding import named_generator
from supdocnade.threads import one_blas_thread

Floats = NDArray[np.float64]

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
"""Constants of Adam."""

ANNEALING_SEED = 0
"""Seed of annealed importance sampling, whatever the seed of training."""


@document_settings
@dataclass(eq=False, repr=False)
class ReplicatedSoftmax(CountTransformer):
    """Binary topics whose weights add up to the logits of all words of a document.

    Learning follows the gradient of contrastive divergence by Adam, at a learning rate that falls
    linearly to zero. Steps of the topics' biases, which are multiplied by the length of a document,
    are divided by the mean length.

    Attributes
    ----------
    components_ : (topics, words) array
        W.
    word_bias_, topic_bias_ : (words,) and (topics,) arrays
        b and a.
    n_features_in_ : int
        Number of words.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[9, 2, 0, 0], [0, 0, 8, 9]] * 20)
    >>> model = ReplicatedSoftmax(n_topics=2, max_epochs=200, random_state=0).fit(X)
    >>> perplexity, error = model.perplexity(X)
    >>> bool(perplexity < 2.5)
    True
    """

    n_topics: int = setting(50, "Number of topics.", least=1)
    _: KW_ONLY
    cd_steps: int = setting(
        1, "Steps of Gibbs sampling after which the model's statistics are taken.", least=1
    )
    learning_rate: float = setting(1e-2, "Learning rate of the first epoch.", above=0)
    batch_size: int = setting(64, "Documents per update.", least=1)
    max_epochs: int = setting(20, "Passes over the documents.", least=0)
    random_state: Any = setting(
        None,
        "Determines the first weights, the order of documents and all samples.",
        kind="int or RandomState",
    )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn topics of documents.

        Parameters
        ----------
        X : (documents, words) sparse or dense counts, finite and not negative; or a `Corpus`,
            which is read into memory.
        y : ignored.
        """
        check_settings(self)
        counts = read_counts(self, X, reset=True)
        seed = read_seed(self.random_state)
        frequency_K = np.asarray(counts.sum(axis=0)) + 0.5
        W_KH = named_generator(seed, "init").normal(0, 0.01, (counts.shape[1], self.n_topics))
        parameters = [W_KH, np.log(frequency_K / frequency_K.sum()), np.zeros(self.n_topics)]
        moments = [(np.zeros_like(each), np.zeros_like(each)) for each in parameters]
        # In long documents full steps of a, times D, would switch topics on or off in all of them.
        shares = (1.0, 1.0, 1 / max(float(counts.sum()) / max(counts.shape[0], 1), 1.0))
        n_updates = 0
        with one_blas_thread():
            for epoch in range(self.max_epochs):
                generator = named_generator(seed, "contrastive divergence", epoch)
                rate = self.learning_rate * (1 - epoch / self.max_epochs)
                order = generator.permutation(counts.shape[0])
                for first in range(0, len(order), self.batch_size):
                    batch = counts[order[first : first + self.batch_size]]
                    gradients = self._gradients(batch, parameters, generator)
                    n_updates += 1
                    for each, (mean, square), slope, share in zip(
                        parameters, moments, gradients, shares, strict=True
                    ):
                        mean += (1 - BETA_1) * (slope - mean)
                        square += (1 - BETA_2) * (slope**2 - square)
                        scale = np.sqrt(square / (1 - BETA_2**n_updates)) + EPSILON
                        each += rate * share / (1 - BETA_1**n_updates) * mean / scale
                if not all(np.isfinite(each).all() for each in parameters):
                    raise TrainingDiverged(
                        f"the parameters are no longer finite in epoch {epoch + 1}; use a smaller "
                        f"learning_rate than {self.learning_rate}."
                    )
        W_KH, self.word_bias_, self.topic_bias_ = parameters
        self.components_ = np.ascontiguousarray(W_KH.T)
        return self

    def _gradients(
        self,
        counts: sparse.csr_array,
        parameters: list[Floats],
        generator: np.random.Generator,
    ) -> tuple[Floats, Floats, Floats]:
        """Return the statistics of documents minus the statistics of samples, for W, b and a."""
        W_KH, b_K, a_H = parameters
        size_B1 = np.asarray(counts.sum(axis=1))[:, None]
        hidden_BH = expit(counts @ W_KH + size_B1 * a_H)
        sampled_BH = hidden_BH
        for _ in range(self.cd_steps):
            topics_BH = (generator.random(sampled_BH.shape) < sampled_BH).astype(np.float64)
            words_BK = sample_words(softmax(topics_BH @ W_KH.T + b_K, axis=1), size_B1, generator)
            sampled_BH = expit(words_BK @ W_KH + size_B1 * a_H)
        return (
            counts.T @ hidden_BH - words_BK.T @ sampled_BH,
            np.asarray(counts.sum(axis=0)) - words_BK.sum(axis=0),
            (size_B1 * (hidden_BH - sampled_BH)).sum(axis=0),
        )

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return p(h_j = 1 | v) of every topic, (documents, topics).

        Parameters
        ----------
        X : (documents, words) sparse or dense counts, finite and not negative; or a `Corpus`.
        """
        counts = self._read_counts(X)
        size_B1 = np.asarray(counts.sum(axis=1))[:, None]
        bias_BH = (size_B1 * self.topic_bias_).astype(np.float32)
        W_KH = np.ascontiguousarray(self.components_.T, np.float32)
        return bag_activations(counts, W_KH, bias_BH, "sigmoid")

    def log_partition(
        self, lengths: ArrayLike, *, n_chains: int = 32, n_temperatures: int = 500
    ) -> tuple[Floats, Floats]:
        """Estimate log Z_D for documents of D words, by annealed importance sampling.

        Parameters
        ----------
        lengths : (lengths,) whole numbers D.
        n_chains : independent samples of each estimate.
        n_temperatures : steps from the model without topics to this one.

        Returns
        -------
        The estimates, and their standard errors, which come from the spread of the chains.
        """
        length_L = np.asarray(lengths)
        whole = length_L.ndim == 1 and (length_L == np.rint(length_L)).all()
        if not whole or (length_L < 0).any():
            raise InvalidArgument(f"lengths must be whole numbers of words, got {lengths!r}.")
        check_count("n_chains", n_chains, least=2)
        check_count("n_temperatures", n_temperatures, least=1)
        estimates = [
            self._anneal(int(length), n_chains, n_temperatures) for length in length_L.tolist()
        ]
        values, errors = zip(*estimates, strict=True) if estimates else ((), ())
        return np.array(values), np.array(errors)

    def _anneal(self, length: int, n_chains: int, n_temperatures: int) -> tuple[float, float]:
        generator = named_generator(ANNEALING_SEED, "annealing", length)
        W_KH, b_K, a_H = np.ascontiguousarray(self.components_.T), self.word_bias_, self.topic_bias_
        size_R1 = np.full((n_chains, 1), float(length))
        with one_blas_thread():
            first_RK = np.tile(softmax(b_K), (n_chains, 1))
            input_RH = sample_words(first_RK, size_R1, generator) @ W_KH + length * a_H
            log_weight_R = np.zeros(n_chains)
            for step in range(1, n_temperatures + 1):
                before, now = (step - 1) / n_temperatures, step / n_temperatures
                log_weight_R += np.logaddexp(0, now * input_RH).sum(axis=1)
                log_weight_R -= np.logaddexp(0, before * input_RH).sum(axis=1)
                topics_RH = generator.random(input_RH.shape) < expit(now * input_RH)
                logits_RK = now * (topics_RH @ W_KH.T) + b_K
                words_RK = sample_words(softmax(logits_RK, axis=1), size_R1, generator)
                input_RH = words_RK @ W_KH + length * a_H
        log_mean = float(logsumexp(log_weight_R)) - np.log(n_chains)
        spread = np.exp(log_weight_R - log_mean).std(ddof=1)
        log_first = self.n_topics * np.log(2) + length * float(logsumexp(b_K))
        return log_first + log_mean, float(spread / np.sqrt(n_chains))

    def perplexity(
        self,
        X: Any,
        average: str = "document",
        *,
        n_chains: int = 32,
        n_temperatures: int = 500,
    ) -> tuple[float, float]:
        """Estimate the perplexity per word and its standard error by annealed importance sampling.

        Documents of equal length share an estimate of Z_D: the time grows with the number of
        different lengths.

        Parameters
        ----------
        X : (documents, words) whole counts, or a `Corpus`. Documents without words are skipped.
        average : "document", exp(-mean of log p(v) / |v|), as in publications, or "corpus",
            exp(-Σ log p(v) / Σ |v|).
        n_chains, n_temperatures : as for `log_partition`.
        """
        counts = self._read_counts(X)
        size_B = np.asarray(counts.sum(axis=1))
        lengths_L, place_B = np.unique(size_B, return_inverse=True)
        log_Z_L, error_L = self.log_partition(
            lengths_L, n_chains=n_chains, n_temperatures=n_temperatures
        )
        input_BH = counts @ self.components_.T + size_B[:, None] * self.topic_bias_
        # log p(v) + log Z_D.
        total_B = counts @ self.word_bias_ + np.logaddexp(0, input_BH).sum(axis=1)
        value = perplexity(total_B - log_Z_L[place_B], size_B, average)
        full_B = size_B > 0
        word_B = np.zeros(len(size_B))
        word_B[full_B] = (
            1 / size_B[full_B] / full_B.sum() if average == "document" else 1 / size_B.sum()
        )
        share_L = np.bincount(place_B, word_B)
        return value, value * float(np.sqrt(((share_L * error_L) ** 2).sum()))


def sample_words(p_BK: Floats, size_B1: Floats, generator: np.random.Generator) -> Floats:
    """Draw as many words as documents have, (B, K).

    Parameters
    ----------
    p_BK : probability of every word in each document.
    size_B1 : numbers of words; where one is not whole, the draws of the nearest whole number are
        scaled.
    """
    n_documents, n_words = p_BK.shape
    draws_B = np.rint(size_B1[:, 0]).astype(np.int64)
    row_N = np.repeat(np.arange(n_documents), draws_B)
    # The cumulative probabilities of document d lie between d and d + 1.
    edges = np.cumsum(p_BK, axis=1)
    edges = edges / edges[:, -1:] + np.arange(n_documents)[:, None]
    place_N = np.searchsorted(edges.ravel(), row_N + generator.random(len(row_N)), side="right")
    place_N = np.minimum(place_N, (row_N + 1) * n_words - 1)
    words_BK = np.bincount(place_N, minlength=p_BK.size).reshape(p_BK.shape)
    scale_B1: Floats = size_B1 / np.maximum(draws_B, 1)[:, None]
    return words_BK * scale_B1
