"""Methods that `DocNADE` and `SupDocNADE` share: topics, likelihoods, annotations, storage.

The modules of the estimators import torch where they train or measure a network: it takes as long
to import as everything else together, and a program may import an estimator and not use it.
"""

import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from supdocnade.checks import check_count
from supdocnade.corpus.disk import Corpus
from supdocnade.corpus.documents import Documents
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.inputs import (
    read_annotation_names,
    read_counts_or_corpus,
    read_fitted_features,
    read_sample_weight,
    read_seed,
)
from supdocnade.estimators.persistence import load_estimator, save_estimator
from supdocnade.estimators.settings import DocNADESettings
from supdocnade.metrics import (
    npmi_coherence,
    over_orderings,
    perplexity,
    presence_correlation,
    top_ranked,
)
from supdocnade.model.inference import annotation_log_proba, topic_features
from supdocnade.model.topic_rotation import TopicRotation, find_rotation, rise_with_topics
from supdocnade.runs import EpochCallback, ProgressCallback
from supdocnade.seeding import named_generator
from supdocnade.threads import limit_threads, one_torch_thread
from supdocnade.training.config import History

if TYPE_CHECKING:
    from supdocnade.model.network import DocNADENetwork
    from supdocnade.training.trainer import Trainer

ORDERING_SEED = 0
"""Seed of the word orders in which likelihoods are measured, whatever the seed of training."""


class TopicModel(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
    DocNADESettings,
):
    """An autoregressive topic model of counts, with annotations."""

    n_features_in_: int
    n_annotations_: int
    n_global_features_: int
    annotation_names_: NDArray[Any] | None
    network_: "DocNADENetwork"
    history_: History
    classes_: NDArray[Any]
    seed_: int
    _trainer: "Trainer | None"

    # Fitting. If it fails or is interrupted, the model is as it was before.

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        annotations: Any = None,
        annotation_mask: ArrayLike | None = None,
        annotation_names: Sequence[str] | None = None,
        sample_weight: ArrayLike | None = None,
        global_features: ArrayLike | None = None,
        progress: ProgressCallback | None = None,
        on_epoch: EpochCallback | None = None,
    ) -> Self:
        """Learn topics and annotations of documents, and their classes with `SupDocNADE`.

        Parameters
        ----------
        X : (documents, words) sparse or dense counts, finite and not negative; or a `Corpus`,
            of which a part is read at a time.
        y : (documents,) classes; or several labels per document, (documents, classes) 0 and 1,
            sparse or dense. None, NaN or NA where a label is unknown. `DocNADE` ignores y.
        annotations : (documents, annotations) counts; an empty row has no annotations.
        annotation_mask : (documents,) false where the annotations are unknown.
        annotation_names : names of the columns of `annotations`.
        sample_weight : (documents,) multiplies a document's part of the objective.
        global_features : (documents, features) dense features of every document beside its words,
            of similar scale, for example standardised. A model that was fitted with them needs
            them for every prediction.
        progress : called with the stage, the number of updates done and their total.
        on_epoch : called after every epoch with its number, from 1, and its metrics: "loss",
            "learning_rate", and with early stopping "validation_loss" and others. If it returns
            True, training ends.
        """
        from supdocnade.training.train import train_network

        fitted = copy(self)
        names = read_annotation_names(annotations, annotation_names)
        labels, n_classes = fitted._read_targets(y)
        documents = fitted._combine_documents(
            X, annotations, annotation_mask, sample_weight, global_features,
            labels=labels, n_classes=n_classes, reset=True,
        )  # fmt: skip
        self.check()  # Invalid settings draw no seed.
        seed = self._choose_seed()
        network, fitted.history_ = train_network(
            documents,
            self.network_config(documents),
            self.trainer_config(seed),
            self.run_options(on_epoch, progress),
            class_weight=fitted._read_class_weight(),
        )
        fitted._set_network(network, names, seed)
        fitted._trainer = None
        self.__dict__ = fitted.__dict__
        return self

    def _pass_over(
        self,
        X: Any,
        annotations: Any,
        annotation_mask: Any,
        annotation_names: Any,
        sample_weight: Any,
        global_features: Any,
        labels: NDArray[np.integer] | None = None,
        classes: NDArray[Any] | None = None,
    ) -> None:
        """Pass over documents once, at a constant learning rate: `partial_fit`."""
        from supdocnade.training.checkpoint import copy_parameters, set_parameters
        from supdocnade.training.train import new_network
        from supdocnade.training.trainer import make_trainer

        fitted, first = copy(self), not hasattr(self, "network_")
        names = read_annotation_names(annotations, annotation_names)
        if classes is not None:
            fitted.classes_ = classes
        documents = fitted._combine_documents(
            X, annotations, annotation_mask, sample_weight, global_features,
            labels=labels, n_classes=0 if classes is None else len(classes), reset=first,
        )  # fmt: skip
        self.check()
        seed = self._choose_seed() if first else self.seed_
        config = self.trainer_config(seed, max_epochs=1, schedule="constant", early_stopping=False)
        with limit_threads(self.n_jobs):
            if first:
                architecture = self.network_config(documents)
                network = new_network(documents, architecture, config, self.backend)
                fitted._set_network(network, names, seed)
                fitted.history_ = History()
            else:
                self._check_names(names)
            trainer = getattr(self, "_trainer", None)
            if trainer is None or trainer.config.optimizer != config.optimizer:
                trainer = make_trainer(fitted.network_, config)
                trainer.state.history = fitted.history_
                trainer.state.epoch = len(fitted.history_.epochs)
            trainer.config = config
            trainer.set_class_weight(fitted._read_class_weight())
            before, self._trainer = copy_parameters(fitted.network_), None
            try:
                trainer.run_epoch(documents)
            except BaseException:
                set_parameters(fitted.network_, before)
                raise
        fitted._trainer = trainer
        self.__dict__ = fitted.__dict__
        if self.verbose:  # There is no last epoch: the passes are only counted.
            last = self.history_.epochs[-1]
            print(f"epoch {last.epoch}: loss {last.loss:.4f}", flush=True)

    def _read_targets(self, y: Any) -> tuple[NDArray[np.integer] | None, int]:
        """Return labels as `Documents.from_counts` takes them, and the number of classes."""
        return None, 0

    def _read_class_weight(self) -> NDArray[np.float64] | str | None:
        return None

    def _choose_seed(self) -> int:
        """Return the seed of a fit: that of the checkpoint if it resumes one without a seed."""
        if self.random_state is None and self.checkpoint is not None:
            from supdocnade.training.checkpoint import load_seed
            from supdocnade.training.train import CHECKPOINT

            path = Path(self.checkpoint) / CHECKPOINT
            stored = load_seed(path) if path.exists() else None
            if stored is not None:
                return stored
        return read_seed(self.random_state)

    def _check_names(self, names: list[str] | None) -> None:
        """Raise `InvalidArgument` if annotation columns are not named as in the first call."""
        before = None if self.annotation_names_ is None else self.annotation_names_.tolist()
        if names is not None and names != before:
            raise InvalidArgument(
                f"annotation_names must be those of the first call, {before}, got {names}."
            )

    def _combine_documents(
        self,
        X: Any,
        annotations: Any,
        annotation_mask: Any,
        sample_weight: Any,
        global_features: Any,
        *,
        labels: NDArray[np.integer] | None = None,
        n_classes: int = 0,
        reset: bool,
    ) -> Documents:
        """Check counts, annotations, labels, weights and features; return them as documents.

        Parameters
        ----------
        labels : as `Documents.from_counts` takes them.
        reset : store the width of X; otherwise X must agree with it.
        """
        counts = read_counts_or_corpus(self, X, reset=reset)
        if not reset:
            global_features = read_fitted_features(self, global_features, counts.shape[0])
        if annotations is None and not reset and self.n_annotations_ > 0:
            # Annotations were modelled before; those of these documents are unknown.
            annotations = sparse.csr_array((counts.shape[0], self.n_annotations_))
            annotation_mask = np.zeros(counts.shape[0], np.bool_)
        sample_weight = read_sample_weight(sample_weight, X)
        if labels is not None and len(labels) != counts.shape[0]:
            raise InvalidArgument(
                f"y must have a label or None for each of the {counts.shape[0]} documents of X, "
                f"got {len(labels)} of inconsistent length."
            )
        output = self.annotation_output if reset else self.network_.config.annotation_output
        documents = Documents.from_counts(
            counts,
            annotations=annotations,
            annotation_mask=annotation_mask,
            labels=labels,
            n_classes=n_classes,
            document_weight=sample_weight,
            global_features=global_features,
            annotations_are_words=output != "sigmoid",
        )
        if not reset and documents.n_annotation_words != self.n_annotations_:
            raise InvalidArgument(
                f"annotations must have {self.n_annotations_} columns, as before, "
                f"got {documents.n_annotation_words}."
            )
        return documents

    def _set_network(self, network: "DocNADENetwork", names: list[str] | None, seed: int) -> None:
        network.backend = "auto" if self.backend == "cuda" else self.backend
        self.network_ = network
        self.seed_ = seed
        self.n_annotations_ = network.config.n_annotation_words
        self.n_global_features_ = network.config.n_global_features
        self.annotation_names_ = None if names is None else np.array(names, object)

    # Topics.

    def transform(self, X: Any, *, global_features: ArrayLike | None = None) -> NDArray[np.float32]:
        """Return the topic features h_y(v) of every document, (documents, topics).

        Parameters
        ----------
        X : (documents, words) sparse or dense counts, finite and not negative; or a `Corpus`,
            of which a part is read at a time.
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

    def topic_proportions(
        self, X: Any, *, global_features: ArrayLike | None = None
    ) -> NDArray[np.float32]:
        """Return the share of every topic in the topic features of a document; rows sum to 1.

        They are h_y(v) / Σ_k h_y(v)_k, not a posterior distribution as in LDA. The shares of a
        document that activates no topic are equal.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        global_features : (documents, features) as for `fit`.
        """
        hidden_BH = self.transform(X, global_features=global_features)
        if (hidden_BH < 0).any():
            raise InvalidArgument(
                "topic_proportions needs topic features that are not negative, as those of "
                f"activation='relu' or 'sigmoid', got {hidden_BH.min():g}."
            )
        total_B1 = hidden_BH.sum(axis=1, keepdims=True)
        equal = np.float32(1 / hidden_BH.shape[1])
        shares: NDArray[np.float32] = np.where(
            total_B1 > 0, hidden_BH / np.where(total_B1 > 0, total_B1, 1), equal
        )
        return shares

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[np.float32]:
        """Fit the model and return the topic features of the same documents.

        Parameters
        ----------
        X, y, fit_params : as for `fit`.
        """
        features = fit_params.get("global_features")
        topics: NDArray[np.float32] = self.fit(X, y, **fit_params).transform(
            X, global_features=features
        )
        return topics

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
        `documents` their words are those whose presence in a document has the highest correlation
        with the topic. Without, they are those that the model predicts more often the more of the
        topic a document of one word has; they can be read nearly as well. The words with the
        largest weights into every hidden unit, as in the paper, are
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
        """Return the topic features of documents, or those of every word alone if None."""
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

    @property
    def _n_features_out(self) -> int:
        return self.network_.config.n_topics

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
        with limit_threads(self.n_jobs), one_torch_thread():
            return self.network_.sample(length_B, generator, features_BF)

    def log_prob(
        self,
        X: Any,
        y: Any = None,
        n_orderings: int = 1,
        *,
        combine: str = "mean_log",
        global_features: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """Return log p(v) of every document in nats, its words in a random order (Algorithm 1).

        The order is a function of the words of the document, so the value is always the same.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        y : labels, for log p(v, y); only for a model with classes.
        n_orderings : how many orders are averaged over.
        combine : over several orders "mean_log", the mean of log p, or "log_mean", the log of the
            mean p, which is never less.
        global_features : (documents, features) as for `fit`; the values are then log p(v | f).
        """
        documents = self._labelled_documents(X, y, global_features)
        return over_orderings(self._log_prob_RB(documents, n_orderings), combine)

    def _log_prob_RB(self, documents: Documents, n_orderings: int) -> NDArray[np.float64]:
        from supdocnade.training.validation import log_prob_over_orderings

        with limit_threads(self.n_jobs):
            return log_prob_over_orderings(self.network_, documents, n_orderings, ORDERING_SEED)

    def _labelled_documents(self, X: Any, y: Any, global_features: Any) -> Documents:
        if y is not None:
            raise InvalidArgument("y must be None for a model without classes; see SupDocNADE.")
        return self._without_annotations(self._read_counts(X), global_features)

    def _without_annotations(
        self, counts: sparse.csr_array | Corpus, global_features: Any = None, **labels: Any
    ) -> Documents:
        n_tag_words = self.network_.config.n_words - self.n_features_in_
        tags = sparse.csr_array((counts.shape[0], n_tag_words))
        features_BF = read_fitted_features(self, global_features, counts.shape[0])
        return Documents.from_counts(
            counts, annotations=tags, global_features=features_BF, **labels
        )

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
        average : "document", exp(-mean of log p(v) / |v|), as published figures are, or "corpus",
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

    # Storage.

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, which holds only arrays and plain values.

        Parameters
        ----------
        path : of the file; it is replaced as a whole or not at all.
        """
        check_is_fitted(self, "network_")
        save_estimator(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return a model that `save` wrote; a damaged or foreign file raises `StorageError`.

        It predicts what the saved one did, bit for bit. `partial_fit` continues with a fresh
        optimizer.

        Parameters
        ----------
        path : of the file.
        """
        loaded: Self = load_estimator(cls, path)
        return loaded

    def _read_counts(self, X: Any) -> sparse.csr_array | Corpus:
        check_is_fitted(self, "network_")
        return read_counts_or_corpus(self, X, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = []  # Topic features are always float32.
        return tags


def _blocks(counts: sparse.csr_array | Corpus) -> Iterator[sparse.csr_array]:
    """Return matrices that fit into memory; one that is in memory is not split."""
    return counts.blocks() if isinstance(counts, Corpus) else iter([counts])
