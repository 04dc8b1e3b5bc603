"""SupDocNADE as a scikit-learn classifier and transformer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from supdocnade.checks import check_count, document_settings
from supdocnade.corpus.documents import NO_LABEL
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.inputs import (
    classes_of,
    read_fitted_targets,
    read_label_table,
    read_labels,
    read_targets,
    require_labels,
)
from supdocnade.estimators.scoring import accuracy_of_known
from supdocnade.estimators.settings import SupDocNADESettings
from supdocnade.estimators.topic_model import TopicModel
from supdocnade.metrics import accuracy, top_ranked
from supdocnade.model.inference import class_log_proba
from supdocnade.threads import limit_threads

if TYPE_CHECKING:
    from supdocnade.model.network import SupDocNADENetwork


@document_settings
class SupDocNADE(ClassifierMixin, TopicModel, SupDocNADESettings):  # type: ignore[misc]
    """A topic model of words, annotations and classes, trained for all three at once.

    The objective of a document is -log p(y | v) + λ Σ_i -log p(v_i | v_<i). A document without a
    label (None, NaN or NA) or with unknown annotations lacks that term.

    Documents may have several labels: y is then a matrix of 0 and 1 with a column per class. Each
    class has a logistic output, p(c | v) = σ(d_c + U_c · h_y(v)), and the sum of the -log p of all
    labels that a document has or lacks takes the place of -log p(y | v). Single labels may be
    unknown (None, NaN or NA).

    Attributes
    ----------
    classes_ : array
        The classes, sorted. With several labels per document, the names of the columns of y if it
        is a data frame, otherwise their numbers.
    components_, history_, network_, annotation_names_, n_annotations_, n_features_in_, \
n_global_features_
        As in `DocNADE`.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[9, 2, 0, 0], [0, 0, 8, 9]] * 20), ["sea", "city"] * 20
    >>> model = SupDocNADE(n_topics=8, learning_rate=0.01, random_state=0).fit(X, y)
    >>> model.predict([[3, 0, 0, 0], [0, 0, 1, 4]]).tolist()
    ['sea', 'city']
    """

    network_: "SupDocNADENetwork"
    classes_: NDArray[Any]
    # Topics of texts describe the words as well as the classes.
    _text_settings: ClassVar = {**TopicModel._text_settings, "generative_weight": 1.0}

    def predict(self, X: Any, *, global_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the most probable class of every document.

        If documents have several labels, (documents, classes) 1 for those with a probability above
        one half and 0 for the others.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        global_features : (documents, features) as for `fit`.
        """
        check_is_fitted(self, "network_")
        if self._several_labels:
            proba_BC = self.predict_proba(X, global_features=global_features)
            return (proba_BC > 0.5).astype(np.int64)
        log_p_BC = self.predict_log_proba(X, global_features=global_features)
        predicted: NDArray[Any] = self.classes_[log_p_BC.argmax(axis=1)]
        return predicted

    def predict_proba(
        self, X: Any, *, global_features: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Return p(y | v) of every class, (documents, classes); rows sum to 1.

        If documents have several labels, the probability that a document has each of them.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        global_features : (documents, features) as for `fit`.
        """
        return np.exp(self.predict_log_proba(X, global_features=global_features))

    def predict_log_proba(
        self, X: Any, *, global_features: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Return the logarithm of `predict_proba`, (documents, classes).

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        global_features : (documents, features) as for `fit`.
        """
        hidden_BH = self.transform(X, global_features=global_features)
        with limit_threads(self.n_jobs):
            return class_log_proba(self.network_.arrays(), hidden_BH)

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        global_features: ArrayLike | None = None,
    ) -> float:
        """Return the accuracy on the documents whose class is known.

        If documents have several labels, the share of documents whose known labels are all right.

        Parameters
        ----------
        X : (documents, words) counts, or a `Corpus`.
        y : the true classes or labels, as for `fit`; None, NaN or NA where unknown.
        sample_weight : (documents,) weights of the documents.
        global_features : (documents, features) as for `fit`.
        """
        predicted = self.predict(X, global_features=global_features)
        if self._several_labels:
            labels = self._read_labels(y, len(predicted))
            weight_B = _check_sample_weight(sample_weight, X, dtype=np.float64)
            return accuracy(predicted == 1, labels == 1, labels != NO_LABEL, weight_B)
        return accuracy_of_known(self, X, y, predicted, sample_weight)

    def class_topics(
        self, n: int = 3, *, documents: Any = None, global_features: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """Return the topics that support every class most, by their weight in U.

        Parameters
        ----------
        n : how many topics.
        documents, global_features : as for `top_words`.

        Returns
        -------
        (classes, n) numbers of topics of `topic_rotation(documents)`, the strongest first;
        `top_words` describes them.
        """
        check_is_fitted(self, "network_")
        check_count("n", n, least=1)
        rotation = self.topic_rotation(documents, global_features=global_features)
        weight_CR = rotation.rotate_weights(self.network_.arrays()["label_weight"])
        return top_ranked(weight_CR, n)

    def class_words(
        self, n: int = 10, feature_names: Sequence[str] | None = None
    ) -> list[list[str]]:
        """Return the words that suggest every class most, strongest first.

        A word is ranked by p(y | v) of a document v that consists of this word alone; global
        features are zero.

        Parameters
        ----------
        n : how many words per class.
        feature_names : names of the columns of X; by default those that `fit` saw, or x0, x1, ...
        """
        check_is_fitted(self, "network_")
        check_count("n", n, least=1)
        names = self._read_word_names(feature_names)
        alone_KH = self._features_of_words()[: len(names)]
        with limit_threads(self.n_jobs):
            log_p_KC = class_log_proba(self.network_.arrays(), alone_KH)
        return [[str(names[word]) for word in row] for row in top_ranked(log_p_KC.T, n)]

    @property
    def _several_labels(self) -> bool:
        return self.network_.config.class_output == "sigmoid"

    def _read_labels(self, y: Any, n_documents: int) -> NDArray[np.integer]:
        numbers = read_fitted_targets(require_labels(self, y), self.classes_, self._several_labels)
        if len(numbers) != n_documents:
            raise InvalidArgument(
                f"y must have {n_documents} labels, one for each row of X, got {len(numbers)}."
            )
        return numbers

    def _read_targets(self, y: Any) -> tuple[NDArray[np.integer], int]:
        labels, self.classes_ = read_targets(require_labels(self, y))
        return labels, len(self.classes_)

    def _read_some_targets(
        self, y: Any, classes: ArrayLike | None
    ) -> tuple[NDArray[np.integer], int]:
        first = not hasattr(self, "network_")
        if first and classes is None:
            raise InvalidArgument("classes must be given to the first call of partial_fit.")
        several = read_label_table(require_labels(self, y)) is not None
        several = several if first else self._several_labels
        given = self.classes_ if classes is None else _read_classes(classes, in_order=several)
        if not first and given.tolist() != self.classes_.tolist():
            raise InvalidArgument(
                f"classes must be those of the first call, {self.classes_.tolist()}, "
                f"got {given.tolist()}."
            )
        if isinstance(self.class_weight, str):
            raise InvalidArgument(
                f"class_weight must be a dict or None for partial_fit, which sees only a part of "
                f"the documents, got {self.class_weight!r}."
            )
        self.classes_ = given
        return read_fitted_targets(y, given, several), len(given)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _read_classes(classes: Any, *, in_order: bool = False) -> NDArray[Any]:
    """Return the classes that will occur, sorted, or as they are for the columns of a table."""
    given, known = read_labels(classes)
    if not known.all():
        raise InvalidArgument("classes must not have missing values.")
    if in_order:
        if len(np.unique(given)) != len(given):
            raise InvalidArgument("classes must not have a class twice.")
        return given
    return classes_of(given, known, listed=True)
