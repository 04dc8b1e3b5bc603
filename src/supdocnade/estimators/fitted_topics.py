"""What a fitted model answers: topics, likelihoods, annotations; and how it is kept on disk."""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from supdocnade.checks import check_count
from supdocnade.corpus import Corpus, Documents
from supdocnade.errors import InvalidArgument
from supdocnade.estimators import inference
from supdocnade.estimators.inputs import read_counts_or_corpus
from supdocnade.estimators.persistence import load_estimator, save_estimator
from supdocnade.likelihood.cpu.threads import limit_threads
from supdocnade.metrics import npmi_coherence, over_orderings, perplexity, top_ranked
from supdocnade.model.network import DocNADENetwork
from supdocnade.training.validation import log_prob_over_orderings

MEASURING_SEED = 0
"""Orders of words in which documents are measured; not those of training, whatever its seed."""


class FittedTopics(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The part of a topic model that needs what `fit` has learned, and changes nothing."""

    n_jobs: int | None
    n_features_in_: int
    network_: DocNADENetwork
    n_annotations_: int
    annotation_names_: NDArray[Any] | None

    # Topics.

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the topic features h_y(v) of every document, (documents, topics).

        Parameters
        ----------
        X : (documents, words) sparse or dense counts, finite and not negative; or a `Corpus`,
            of which a part is read at a time.
        """
        return self._representations(self._read(X))

    @property
    def components_(self) -> NDArray[np.float32]:
        """W as topics × joint vocabulary: words first, then annotations."""
        check_is_fitted(self, "network_")
        return self.network_.word_embedding.detach().numpy().T.copy()

    def top_words(self, n: int = 10, feature_names: Sequence[str] | None = None) -> list[list[str]]:
        """Return the words that excite every topic most, strongest first.

        Parameters
        ----------
        n : how many words of each topic.
        feature_names : names of the columns of X, and after them of the annotations if these are
            wanted, too; by default both, by the names that `fit` saw, or x0, x1, ..., annotation0.
        """
        check_is_fitted(self, "network_")
        check_count("n", n, least=1)
        names = self._word_names() if feature_names is None else list(feature_names)
        widths = (self.n_features_in_, self.n_features_in_ + self.n_annotations_)
        if len(names) not in widths:
            raise InvalidArgument(
                f"feature_names must have {' or '.join(map(str, sorted(set(widths))))} names, "
                f"got {len(names)}."
            )
        best = top_ranked(self.components_[:, : len(names)], n)
        return [[str(names[word]) for word in row] for row in best]

    def coherence(self, X: Any, n: int = 10) -> NDArray[np.float64]:
        """Return how much the top words of every topic occur together, (topics,): mean NPMI.

        Parameters
        ----------
        X : (documents, words) counts of the documents that are looked at, or a `Corpus`.
        n : how many words of each topic, at least 2.
        """
        counts = self._read(X)
        best = top_ranked(self.components_[:, : self.n_features_in_], check_count("n", n, least=2))
        return npmi_coherence(best, _blocks(counts))

    def _word_names(self) -> list[str]:
        given = getattr(self, "feature_names_in_", None)
        words = [f"x{k}" for k in range(self.n_features_in_)] if given is None else list(given)
        if self.annotation_names_ is not None:
            return [*words, *self.annotation_names_]
        return [*words, *(f"annotation{k}" for k in range(self.n_annotations_))]

    @property
    def _n_features_out(self) -> int:
        n_topics: int = self.network_.config.n_topics
        return n_topics

    # Likelihoods.

    def log_prob(
        self, X: Any, y: Any = None, n_orderings: int = 1, *, combine: str = "mean_log"
    ) -> NDArray[np.float64]:
        """Return log p(v) of every document in nats, its words in a random order (Algorithm 1).

        The order follows from the words of the document, so the value is always the same.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        y : labels, for log p(v, y); only of a model with classes.
        n_orderings : how many orders are averaged over.
        combine : over several orders "mean_log", the mean of log p, or "log_mean", the log of the
            mean p, which is never less.
        """
        log_prob_RB = self._log_prob_RB(self._measured(X, y), n_orderings)
        return over_orderings(log_prob_RB, combine)

    def _log_prob_RB(self, corpus: Documents, n_orderings: int) -> NDArray[np.float64]:
        with limit_threads(self._n_threads()):
            return log_prob_over_orderings(self.network_, corpus, n_orderings, MEASURING_SEED)

    def _measured(self, X: Any, y: Any) -> Documents:
        """Return documents as the network takes them."""
        if y is not None:
            raise InvalidArgument("y must be None for a model without classes; see SupDocNADE.")
        return self._corpus_of(self._read(X))

    def _corpus_of(self, counts: sparse.csr_array | Corpus, **labels: Any) -> Documents:
        tags = sparse.csr_array((counts.shape[0], self.n_annotations_))
        return Documents.from_counts(counts, annotations=tags, **labels)

    def perplexity(
        self,
        X: Any,
        n_orderings: int = 1,
        average: str = "document",
        *,
        combine: str = "mean_log",
    ) -> float:
        """Return the perplexity per word; documents without words are left out.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        n_orderings : how many random orders of every document are averaged over.
        average : "document", exp(-mean of log p(v) / |v|), as published figures are, or "corpus",
            exp(-Σ log p(v) / Σ |v|).
        combine : how orders are combined, see `log_prob`.
        """
        corpus = self._corpus_of(self._read(X))
        log_prob_B = over_orderings(self._log_prob_RB(corpus, n_orderings), combine)
        result = perplexity(log_prob_B, corpus.size_B, average)
        if result.n_empty:
            warnings.warn(
                f"{result.n_empty} of {len(corpus)} documents have no words and are left out of "
                "the perplexity.",
                stacklevel=2,
            )
        return result.value

    # Annotations.

    def annotation_log_proba(self, X: Any, normalize: bool = False) -> NDArray[np.float64]:
        """Return log p(next word = a | v) of every annotation, (documents, annotations).

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        normalize : divide by the mass of all annotations, so that probabilities sum to 1.
        """
        counts = self._read(X)
        if self.n_annotations_ == 0:
            raise InvalidArgument(
                f"this {type(self).__name__} was fitted without annotations, it cannot annotate."
            )
        hidden_BH = self._representations(counts)
        with limit_threads(self._n_threads()):
            log_p_BA = inference.annotation_log_proba(self.network_, hidden_BH)
        if normalize:
            log_p_BA -= np.logaddexp.reduce(log_p_BA, axis=1, keepdims=True)
        return log_p_BA

    def annotation_proba(self, X: Any) -> NDArray[np.float64]:
        """Return how probable every annotation is among all of them; rows sum to 1.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        """
        return np.exp(self.annotation_log_proba(X, normalize=True))

    def annotate(self, X: Any, top: int = 5) -> NDArray[Any]:
        """Return the most probable annotations of every document, (documents, top).

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        top : how many, at most as many as there are.

        Returns
        -------
        Names where `fit` was given names, otherwise column numbers; most probable first, equally
        probable ones by their number.
        """
        best = top_ranked(self.annotation_log_proba(X), check_count("top", top, least=1))
        names: NDArray[Any] = self._annotation_labels()[best]
        return names

    def _annotation_labels(self) -> NDArray[Any]:
        names = self.annotation_names_
        return np.arange(self.n_annotations_) if names is None else names

    # On disk.

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, which holds arrays and plain values alone.

        Parameters
        ----------
        path : of the file; it is replaced as a whole or not at all.
        """
        check_is_fitted(self, "network_")
        save_estimator(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return a model that `save` wrote; a damaged or foreign file raises `StorageError`.

        It predicts what the saved one did, bit for bit. `partial_fit` goes on from it with an
        optimiser that remembers nothing.

        Parameters
        ----------
        path : of the file.
        """
        loaded: Self = load_estimator(cls, path)
        return loaded

    # Reading X.

    def _read(self, X: Any) -> sparse.csr_array | Corpus:
        check_is_fitted(self, "network_")
        return read_counts_or_corpus(self, X, reset=False)

    def _representations(self, counts: sparse.csr_array | Corpus) -> NDArray[np.float32]:
        with limit_threads(self._n_threads()):
            # A row has the same bits in any block.
            parts = [inference.representations(self.network_, part) for part in _blocks(counts)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = []  # Topic features are float32, whatever X is.
        return tags

    def _n_threads(self) -> int | None:
        return None if self.n_jobs is None else effective_n_jobs(self.n_jobs)


def _blocks(counts: sparse.csr_array | Corpus) -> Iterator[sparse.csr_array]:
    """Return matrices that fit into memory; one that is there already is not cut."""
    return counts.blocks() if isinstance(counts, Corpus) else iter([counts])
