"""DocNADE as a scikit-learn transformer."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from supdocnade.checks import document_settings
from supdocnade.estimators.topic_model import TopicModel


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

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        annotations: Any = None,
        annotation_mask: ArrayLike | None = None,
        annotation_names: Sequence[str] | None = None,
        sample_weight: ArrayLike | None = None,
        global_features: ArrayLike | None = None,
    ) -> Self:
        """Pass over the documents once at a constant learning rate.

        The first call fixes the words, the annotations and the tree. Parameters as for `fit`.
        """
        self._pass_over(
            X, annotations, annotation_mask, annotation_names, sample_weight, global_features
        )
        return self

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
