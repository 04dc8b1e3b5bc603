"""Scores of estimators: accuracy on known classes, and the F-measure of annotations as a scorer."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _check_sample_weight

from supdocnade.checks import check_count
from supdocnade.corpus.documents import Documents
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.inputs import read_labels, require_labels
from supdocnade.metrics import accuracy, f_measure, top_ranked

TEXT_KINDS = "OTU"
"""Kinds of numpy arrays that hold strings."""


def accuracy_of_known(
    estimator: Any, X: Any, y: Any, predicted: NDArray[Any], sample_weight: ArrayLike | None
) -> float:
    """Return the accuracy of predicted classes on the documents whose class is known.

    Parameters
    ----------
    estimator : whose `classes_` are predicted.
    y : (documents,) the true classes; None, NaN or NA where unknown.
    """
    labels, known = read_labels(require_labels(estimator, y))
    classes = estimator.classes_
    if not known.any():
        raise InvalidArgument("y must have a label for at least one document, got none.")
    if len(labels) != len(predicted):
        raise InvalidArgument(
            f"y must have {len(predicted)} labels, one for each row of X, got {len(labels)}."
        )
    if (labels.dtype.kind in TEXT_KINDS) != (classes.dtype.kind in TEXT_KINDS):
        raise InvalidArgument(
            f"y must be classes like {classes.tolist()[0]!r}, got {labels[known].tolist()[0]!r}."
        )
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    return accuracy(predicted, labels, known, weight)


def make_annotation_scorer(top: int = 5) -> "AnnotationScorer":
    """Return a scorer for `cross_val_score` and `GridSearchCV`: F-measure of the top annotations.

    It takes the true annotations by metadata routing:

    >>> import sklearn
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     scorer = make_annotation_scorer(top=5).set_score_request(annotations=True)

    Parameters
    ----------
    top : how many annotations per document.
    """
    return AnnotationScorer(top)


class AnnotationScorer(BaseEstimator):  # type: ignore[misc]
    """The scorer that `make_annotation_scorer` returns."""

    def __init__(self, top: int = 5):
        self.top = top

    def score(
        self,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        annotations: Any = None,
        annotation_mask: Any = None,
        global_features: Any = None,
    ) -> float:
        """Return the mean F-measure of the top annotations, over documents that have annotations.

        Parameters
        ----------
        estimator : a fitted estimator with `annotation_proba`, or a pipeline that ends in one.
        X : (documents, words) counts, or a `Corpus`.
        y : ignored.
        annotations : (documents, annotations) the true ones: above 0 where present.
        annotation_mask : (documents,) false where they are unknown.
        global_features : (documents, features) for an estimator that was fitted with them.
        """
        check_count("top", self.top, least=1)
        if annotations is None:
            raise InvalidArgument(
                "annotations must be passed to the scorer, by metadata routing: "
                "make_annotation_scorer().set_score_request(annotations=True)."
            )
        options = {} if global_features is None else {"global_features": global_features}
        proba_BA = _annotation_proba(estimator, X, options)
        right = Documents.from_counts(
            sparse.csr_array((len(proba_BA), 1)),
            annotations=annotations,
            annotation_mask=annotation_mask,
        )
        if right.n_annotation_words != proba_BA.shape[1]:
            raise InvalidArgument(
                f"annotations must have {proba_BA.shape[1]} columns, as the estimator was fitted "
                f"with, got {right.n_annotation_words}."
            )
        return f_measure(top_ranked(proba_BA, self.top), right.annotation_presence())

    def __call__(self, estimator: Any, X: Any, y: Any = None, **metadata: Any) -> float:
        """Return the score; scikit-learn calls a scorer."""
        return self.score(estimator, X, y, **metadata)


def _annotation_proba(estimator: Any, X: Any, options: dict[str, Any]) -> Any:
    """Return the annotation probabilities of an estimator, or of a pipeline's last step."""
    while isinstance(estimator, Pipeline):
        if len(estimator) > 1:
            X = estimator[:-1].transform(X)
        estimator = estimator[-1]
    if not hasattr(estimator, "annotation_proba"):
        raise InvalidArgument(
            f"estimator must have annotation_proba, or be a pipeline whose last step does, "
            f"got {type(estimator).__name__}."
        )
    return estimator.annotation_proba(X, **options)
