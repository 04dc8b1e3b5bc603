"""The answers of a fitted topic model: topics, likelihoods and annotations of documents."""

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from supdocnade.checks import check_count
from supdocnade.corpus.disk import Corpus
from supdocnade.corpus.documents import Documents
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.inputs import (
    CountTransformer,
    read_counts_or_corpus,
    read_fitted_features,
    read_seed,
)
from supdocnade.metrics import (
    npmi_coherence,
    over_orderings,
    perplexity,
    presence_correlation,
    split_words,
    top_ranked,
)
from supdocnade.model.inference import (
    BLOCK_ROWS,
    annotation_log_proba,
    sample_documents,
    topic_features,
    word_log_proba,
)
from supdocnade.model.topic_rotation import TopicRotation, find_rotation, rise_with_topics
from supdocnade.seeding import named_generator
from supdocnade.threads import limit_threads

if TYPE_CHECKING:
    from supdocnade.model.network import DocNADENetwork

ORDERING_SEED = 0
"""Seed of the word orders in which likelihoods are measured, whatever the seed of training."""


class TopicInference(CountTransformer):
    """Methods of a fitted topic model; none of them changes it."""

    n_jobs: int | None
    n_features_in_: int
    n_annotations_: int
    n_global_features_: int
    annotation_names_: NDArray[Any] | None
    network_: "DocNADENetwork"

    # Topics.

    def transform(self, X: Any, *, global_features: ArrayLike | None = None) -> NDArray[np.float32]:
        """Return the topic features h_y(v) of every document, (documents, topics).

        Parameters
        ----------
        X : (documents, words) sparse or dense counts, finite and not negative; or a `Corpus`,
            which is read part by part.
        global_features : (documents, features) as for `fit`.
        """
        counts, network = self._read_counts(X), self.network_.arrays()
        features_BF = read_fitted_features(self, global_features, counts.shape[0])
        parts: list[NDArray[np.float32]] = []
        first = 0
        with limit_threads(self.n_jobs):
            # A row has the same bits in any block.
            for part in _blocks(counts):
                rows = slice(first, first + part.shape[0])
                part_BF = None if features_BF is None else features_BF[rows]
                parts.append(topic_features(network, part, part_BF))
                first = rows.stop
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def components_(self) -> NDArray[np.float32]:
        """W as topics × joint vocabulary: words first, then annotations if they are words."""
        check_is_fitted(self, "network_")
        return self.network_.arrays().components

    def top_words(
        self,
        n: int = 10,
        feature_names: Sequence[str] | None = None,
        *,
        documents: Any = None,
        global_features: ArrayLike | None = None,
    ) -> list[list[str]]:
        """Return the words of every topic, strongest first.

        The topics are those of `topic_rotation(documents)`, at most as many as hidden units. With
        `documents`, the words of a topic are those whose presence in a document has the highest
        correlation with it. Without `documents`, they are the words that the model predicts more
        often if a document has more of the topic; they can be read nearly as well. The paper lists
        the words with the largest weights into every hidden unit instead:
        `np.argsort(-components_, axis=1)[:, :n]`.

        Parameters
        ----------
        n : how many words per topic.
        feature_names : names of the columns of X, optionally followed by those of the annotations;
            by default both, by the names that `fit` saw, or x0, x1, ..., annotation0. With
            `documents` there are no annotations.
        documents : (documents, words) counts, for example those of the fit, or a `Corpus`.
        global_features : (documents, features) of `documents`, as for `fit`.
        """
        check_is_fitted(self, "network_")
        check_count("n", n, least=1)
        names = self._read_word_names(feature_names, with_annotations=documents is None)
        best = top_ranked(self._word_scores(documents, global_features)[:, : len(names)], n)
        return [[str(names[word]) for word in row] for row in best]

    def topic_rotation(
        self, documents: Any = None, *, global_features: ArrayLike | None = None
    ) -> TopicRotation:
        """Return the topics that `top_words(documents=documents)` describes, strongest first.

        `topic_rotation(documents).rotate(transform(X))` gives the topics of other documents X.

        Parameters
        ----------
        documents, global_features : as for `top_words`; by default, documents of one word each.
        """
        return find_rotation(self._features_to_read(documents, global_features))

    def coherence(
        self,
        X: Any,
        n: int = 10,
        *,
        documents: Any = None,
        global_features: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """Return the coherence of every topic, (topics,): the mean NPMI of its `top_words`.

        Parameters
        ----------
        X : (documents, words) counts in which co-occurrences are counted, or a `Corpus`.
        n : how many words per topic, at least 2.
        documents, global_features : as for `top_words`.
        """
        counts = self._read_counts(X)
        check_count("n", n, least=2)
        scores = self._word_scores(documents, global_features)[:, : self.n_features_in_]
        return npmi_coherence(top_ranked(scores, n), _blocks(counts))

    def _word_scores(self, documents: Any, global_features: Any) -> NDArray[np.floating]:
        """Return how strongly every word belongs to every topic, (topics, words)."""
        hidden_BH = self._features_to_read(documents, global_features)
        topics_BR = find_rotation(hidden_BH).rotate(hidden_BH)
        if documents is None:
            return rise_with_topics(self.network_.arrays(), hidden_BH, topics_BR)
        return presence_correlation(topics_BR, _blocks(self._read_counts(documents)))

    def _features_to_read(self, documents: Any, global_features: Any) -> NDArray[np.float32]:
        """Return the topic features of documents, or by default of every word alone."""
        if documents is None:
            check_is_fitted(self, "network_")
            return self._features_of_words()
        return self.transform(documents, global_features=global_features)

    def _features_of_words(self) -> NDArray[np.float32]:
        """Return the topic features of a document of each word alone, (words, topics)."""
        n_words, n_features = self.network_.config.n_words, self.n_global_features_
        features = np.zeros((n_words, n_features), np.float32) if n_features else None
        alone = sparse.eye_array(n_words, format="csr")
        with limit_threads(self.n_jobs):
            return topic_features(self.network_.arrays(), alone, features)

    def _read_word_names(
        self, given: Sequence[str] | None, *, with_annotations: bool = False
    ) -> list[str]:
        """Return the names of the words: those given, or those that `fit` saw."""
        n_words, n_joint = self.n_features_in_, self.network_.config.n_words
        widths = sorted({n_words, n_joint}) if with_annotations else [n_words]
        names = self._word_names()[: widths[-1]] if given is None else list(given)
        if len(names) not in widths:
            expected = " or ".join(map(str, widths))
            raise InvalidArgument(f"feature_names must have {expected} names, got {len(names)}.")
        return names

    def _word_names(self) -> list[str]:
        given = getattr(self, "feature_names_in_", None)
        words = [f"x{k}" for k in range(self.n_features_in_)] if given is None else list(given)
        if self.network_.config.n_tag_outputs:
            return words
        if self.annotation_names_ is not None:
            return [*words, *self.annotation_names_]
        return [*words, *(f"annotation{k}" for k in range(self.n_annotations_))]

    # Likelihoods.

    def sample(
        self,
        n_samples: int = 1,
        length: int | ArrayLike = 100,
        *,
        random_state: Any = None,
        global_features: ArrayLike | None = None,
    ) -> sparse.csr_array:
        """Draw documents from p(v), word after word.

        Parameters
        ----------
        n_samples : number of documents.
        length : number of words per document, or (n_samples,) numbers; the model has no
            distribution of lengths.
        random_state : int, RandomState or None; an integer makes the result reproducible.
        global_features : (n_samples, features) as for `fit`; the documents are drawn from p(v | f).

        Returns
        -------
        (n_samples, words) counts, with the columns of `components_`: words first, then annotations
        if they are words.
        """
        check_is_fitted(self, "network_")
        check_count("n_samples", n_samples, least=1)
        lengths = np.asarray(length)
        if lengths.dtype.kind not in "iu" or lengths.shape not in ((), (n_samples,)):
            raise InvalidArgument(
                f"length must be a whole number or {n_samples} of them, got {length!r}."
            )
        if lengths.min() < 0:
            raise InvalidArgument(f"length must not be negative, got {lengths.min()}.")
        length_B = np.broadcast_to(lengths, n_samples).astype(np.int64)
        features_BF = read_fitted_features(self, global_features, n_samples)
        generator = named_generator(read_seed(random_state), "sample")
        with limit_threads(self.n_jobs):
            return sample_documents(self.network_.arrays(), length_B, generator, features_BF)

    def log_prob(
        self,
        X: Any,
        n_orderings: int = 1,
        *,
        combine: str = "mean_log",
        global_features: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """Return log p(v) of every document in nats, its words in a random order (Algorithm 1).

        The order is a function of the words of the document, so the value is always the same. With
        classes, log p(v, y) is the sum of log p(v) and of `predict_log_proba` of the class.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        n_orderings : how many orders are averaged over.
        combine : over several orders "mean_log", the mean of log p, or "log_mean", the log of the
            mean p, which is never less.
        global_features : (documents, features) as for `fit`; the values are then log p(v | f).
        """
        documents = self._without_annotations(self._read_counts(X), global_features)
        return over_orderings(self._log_prob_RB(documents, n_orderings), combine)

    def _log_prob_RB(self, documents: Documents, n_orderings: int) -> NDArray[np.float64]:
        from supdocnade.training.validation import log_prob_over_orderings

        with limit_threads(self.n_jobs):
            return log_prob_over_orderings(self.network_, documents, n_orderings, ORDERING_SEED)

    def _without_annotations(
        self, counts: sparse.csr_array | Corpus, global_features: Any = None
    ) -> Documents:
        n_tag_words = self.network_.config.n_words - self.n_features_in_
        tags = sparse.csr_array((counts.shape[0], n_tag_words))
        features_BF = read_fitted_features(self, global_features, counts.shape[0])
        return Documents.from_counts(counts, annotations=tags, global_features=features_BF)

    def perplexity(
        self,
        X: Any,
        n_orderings: int = 1,
        average: str = "document",
        *,
        combine: str = "mean_log",
        global_features: ArrayLike | None = None,
    ) -> float:
        """Return the perplexity per word; documents without words are skipped.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        n_orderings : how many random orders of every document are averaged over.
        average : "document", exp(-mean of log p(v) / |v|), as in publications, or "corpus",
            exp(-Σ log p(v) / Σ |v|).
        combine : how orders are combined, see `log_prob`.
        global_features : (documents, features) as for `fit`.
        """
        documents = self._without_annotations(self._read_counts(X), global_features)
        log_prob_B = over_orderings(self._log_prob_RB(documents, n_orderings), combine)
        result = perplexity(log_prob_B, documents.size_B, average)
        n_empty = int((documents.size_B == 0).sum())
        if n_empty:
            warnings.warn(
                f"{n_empty} of {len(documents)} documents have no words and are left out of "
                "the perplexity.",
                stacklevel=2,
            )
        return result

    def completion_perplexity(self, X: Any, *, global_features: ArrayLike | None = None) -> float:
        """Return the perplexity per word of half of every document, given the other half.

        Every word of the one half is predicted by itself from the other. The halves are random,
        and the same ones in every call (`metrics.split_words`). Models of other kinds can be
        measured alike, so this perplexity can be compared with theirs.

        Parameters
        ----------
        X : (documents, words) whole counts; or a `Corpus`, which is read into memory.
        global_features : (documents, features) as for `fit`.
        """
        counts = sparse.csr_array(sparse.vstack(list(_blocks(self._read_counts(X)))))
        given, others = split_words(counts, named_generator(ORDERING_SEED, "completion"))
        hidden_BH = self.transform(given, global_features=global_features)
        words_K, total = np.arange(self.n_features_in_), 0.0
        with limit_threads(self.n_jobs):
            for start in range(0, len(hidden_BH), BLOCK_ROWS):
                rows = slice(start, start + BLOCK_ROWS)
                log_p_BK = word_log_proba(self.network_.arrays(), hidden_BH[rows], words_K)
                total += float(others[rows].multiply(log_p_BK).sum())
        return float(np.exp(-total / others.sum()))

    # Annotations.

    def annotation_log_proba(
        self, X: Any, normalize: bool = False, *, global_features: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Return log p(next word = a | v) of every annotation, (documents, annotations).

        With `annotation_output="sigmoid"`, log p(a | v), the probability that a document has the
        annotation.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        normalize : divide by the mass of all annotations, so that probabilities sum to 1.
        global_features : (documents, features) as for `fit`.
        """
        check_is_fitted(self, "network_")
        if self.n_annotations_ == 0:
            raise InvalidArgument(
                f"this {type(self).__name__} was fitted without annotations, it cannot annotate."
            )
        hidden_BH = self.transform(X, global_features=global_features)
        with limit_threads(self.n_jobs):
            return annotation_log_proba(self.network_.arrays(), hidden_BH, normalize=normalize)

    def annotation_proba(
        self, X: Any, *, global_features: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Return the probability of every annotation among all of them; rows sum to 1.

        With `annotation_output="sigmoid"`, the probability that a document has the annotation, each
        in 0 .. 1 for itself.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        global_features : (documents, features) as for `fit`.
        """
        check_is_fitted(self, "network_")
        among_all = self.network_.config.annotation_output == "words"
        log_p = self.annotation_log_proba(X, among_all, global_features=global_features)
        return np.exp(log_p)

    def annotate(
        self, X: Any, top: int = 5, *, global_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the most probable annotations of every document, (documents, top).

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        top : how many, at most as many as there are.
        global_features : (documents, features) as for `fit`.

        Returns
        -------
        Names if `fit` was given names, otherwise column numbers; most probable first, equally
        probable ones by their number.
        """
        log_p = self.annotation_log_proba(X, global_features=global_features)
        best = top_ranked(log_p, check_count("top", top, least=1))
        names = self.annotation_names_
        chosen: NDArray[Any] = best if names is None else names[best]
        return chosen

    def _read_counts(self, X: Any) -> sparse.csr_array | Corpus:
        check_is_fitted(self, "network_")
        return read_counts_or_corpus(self, X, reset=False)


def _blocks(counts: sparse.csr_array | Corpus) -> Iterator[sparse.csr_array]:
    """Return matrices that fit into memory; one that is in memory is not split."""
    return counts.blocks() if isinstance(counts, Corpus) else iter([counts])
