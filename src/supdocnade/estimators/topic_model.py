"""DocNADE, and the fitting and storage of topic models, which it shares with `SupDocNADE`.

The modules of the estimators import torch where they train or measure a network: it takes as long
to import as everything else together, and a program may import an estimator and not use it.
"""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from supdocnade.checks import document_settings
from supdocnade.corpus.documents import Documents
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.inputs import (
    read_annotation_names,
    read_counts_or_corpus,
    read_fitted_features,
    read_sample_weight,
    read_seed,
)
from supdocnade.estimators.persistence import StoredTopicModel
from supdocnade.estimators.settings import DocNADESettings
from supdocnade.estimators.topic_inference import TopicInference
from supdocnade.runs import EpochCallback, ProgressCallback
from supdocnade.schema import damage_errors, load, save
from supdocnade.threads import limit_threads
from supdocnade.training.config import History

if TYPE_CHECKING:
    from supdocnade.model.network import DocNADENetwork
    from supdocnade.training.trainer import Trainer


class TopicModel(TopicInference, DocNADESettings):
    """An autoregressive topic model of counts, with annotations."""

    history_: History
    classes_: NDArray[Any]
    seed_: int
    _trainer: "Trainer | None"
    _text_settings: ClassVar[Mapping[str, Any]] = {
        "tree": "clustered",
        "activation": "sigmoid",
        "learning_rate": 1e-3,
    }

    @classmethod
    def for_texts(cls, X: Any, n_topics: int | None = None, **settings: Any) -> Self:
        """Return a model, not fitted, with settings under which topics of texts read well.

        Parameters
        ----------
        X : the documents to learn from; only their number counts.
        n_topics : by default half the square root of the number of documents, 5 to 50.
        settings : of the constructor, in place of those of the recipe.
        """
        n_documents: int = X.shape[0]
        if n_topics is None:
            n_topics = min(50, max(5, math.isqrt(n_documents) // 2))
        # Few documents are divided into smaller batches, and passed over more often.
        size = min(64, max(8, n_documents // 32))
        epochs = max(30, math.ceil(1200 / math.ceil(max(n_documents, 1) / size)))
        recipe = {"n_topics": n_topics, "batch_size": size, "max_epochs": epochs}
        return cls(**{**cls._text_settings, **recipe, **settings})

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
            which is read part by part.
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
        on_epoch : called with the number of the epoch, from 1, and the metrics after every epoch:
            "loss", "learning_rate", and with early stopping "validation_loss" and others. If it
            returns True, training ends.
        """
        from supdocnade.training.trainer import train_network

        fitted = copy(self)
        names = read_annotation_names(annotations, annotation_names)
        labels, n_classes = fitted._read_targets(y)
        documents = fitted._combine_documents(
            X, annotations, annotation_mask, sample_weight, global_features,
            labels=labels, n_classes=n_classes, reset=True,
        )  # fmt: skip
        self.check()  # Before a seed is drawn: invalid settings do not consume random numbers.
        seed = self._choose_seed()
        network, fitted.history_ = train_network(
            documents,
            self.network_config(documents),
            self.trainer_config(seed),
            self.run_options(on_epoch, progress),
            class_weight=self.class_weights(fitted.classes_.tolist() if n_classes else []),
        )
        fitted._set_network(network, names, seed)
        fitted._trainer = None
        self.__dict__ = fitted.__dict__
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: ArrayLike | None = None,
        *,
        annotations: Any = None,
        annotation_mask: ArrayLike | None = None,
        annotation_names: Sequence[str] | None = None,
        sample_weight: ArrayLike | None = None,
        global_features: ArrayLike | None = None,
    ) -> Self:
        """Pass over the documents once at a constant learning rate.

        The first call fixes the words, the annotations, the classes and the tree.

        Parameters
        ----------
        classes : all classes that will occur; `SupDocNADE` requires them in the first call. With
            several labels per document, one for each column of y. `DocNADE` ignores them.
        X, y, annotations, annotation_mask, annotation_names, sample_weight, global_features
            As for `fit`; documents of later calls may all lack a label.
        """
        from supdocnade.training.checkpoint import copy_parameters, set_parameters
        from supdocnade.training.trainer import make_trainer, new_network

        fitted, first = copy(self), not hasattr(self, "network_")
        names = read_annotation_names(annotations, annotation_names)
        labels, n_classes = fitted._read_some_targets(y, classes)
        documents = fitted._combine_documents(
            X, annotations, annotation_mask, sample_weight, global_features,
            labels=labels, n_classes=n_classes, reset=first,
        )  # fmt: skip
        self.check()
        seed = self._choose_seed() if first else self.seed_
        config = self.trainer_config(seed, max_epochs=1, schedule="constant", early_stopping=False)
        with limit_threads(self.n_jobs):
            if first:
                architecture = self.network_config(documents)
                network = new_network(documents, architecture, config)
                fitted._set_network(network, names, seed)
                fitted.history_ = History()
            else:
                self._check_names(names)
            trainer = getattr(self, "_trainer", None)
            if trainer is None or trainer.config.optimizer != config.optimizer:
                trainer = make_trainer(fitted.network_, config)
                trainer.history = fitted.history_
            trainer.config = config
            weights = self.class_weights(fitted.classes_.tolist() if n_classes else [])
            assert not isinstance(weights, str), "`partial_fit` of SupDocNADE refuses it"
            trainer.set_class_weight(weights)
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
        return self

    def _read_targets(self, y: Any) -> tuple[NDArray[np.integer] | None, int]:
        """Return labels as `Documents.from_counts` takes them, and the number of classes."""
        return None, 0

    def _read_some_targets(
        self, y: Any, classes: ArrayLike | None
    ) -> tuple[NDArray[np.integer] | None, int]:
        """Return what `_read_targets` does, for a call of `partial_fit`."""
        return None, 0

    def _choose_seed(self) -> int:
        """Return the seed of a fit: the seed of the checkpoint if it resumes one without a seed."""
        if self.random_state is None and self.checkpoint is not None:
            from supdocnade.training.checkpoint import load_seed
            from supdocnade.training.trainer import CHECKPOINT

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
        self.network_ = network
        self.seed_ = seed
        self.n_annotations_ = network.config.n_annotation_words
        self.n_global_features_ = network.config.n_global_features
        self.annotation_names_ = None if names is None else np.array(names, object)

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

    # Storage.

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, which holds only arrays and plain values.

        Parameters
        ----------
        path : of the file; it is replaced as a whole or not at all.
        """
        check_is_fitted(self, "network_")
        save(Path(path), type(self).__name__, StoredTopicModel.of(self))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return a model that `save` wrote; a damaged or foreign file raises `StorageError`.

        It predicts what the saved one did, bit for bit. `partial_fit` continues with a fresh
        optimizer.

        Parameters
        ----------
        path : of the file.
        """
        found = load(Path(path), cls.__name__, StoredTopicModel)
        with damage_errors(str(path)):
            loaded: Self = found.build(cls)
        if found.word_names is not None:
            loaded.feature_names_in_ = np.array(found.word_names, object)
        return loaded


@document_settings
class DocNADE(TopicModel):
    """A neural autoregressive topic model of word counts.

    p(v) = Π_i p(v_i | v_<i), the words of every document in a fresh random order at every update.
    Annotations share the vocabulary with the words and are predicted from them. Global features, if
    `fit` is given any, condition the model: p(v | f).

    Attributes
    ----------
    components_ : (topics, words + annotations) array
        W, transposed.
    history_ : History
        Objective and validation metrics of every epoch.
    network_ : DocNADENetwork
        The fitted network.
    annotation_names_ : array of str, or None
    n_annotations_ : int
    n_features_in_ : int
    n_global_features_ : int
        0 without global features.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[4, 2, 0, 0], [0, 0, 3, 3]])
    >>> topics = DocNADE(n_topics=3, max_epochs=2, random_state=0).fit(X)
    >>> topics.transform(X).shape
    (2, 3)
    """

    def score(self, X: Any, y: Any = None, *, global_features: ArrayLike | None = None) -> float:
        """Return the mean log-likelihood per word, in nats.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        y : ignored.
        global_features : (documents, features) as for `fit`.
        """
        perplexity = self.perplexity(X, average="corpus", global_features=global_features)
        return -float(np.log(perplexity))
