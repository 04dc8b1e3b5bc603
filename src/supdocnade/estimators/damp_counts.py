"""Damping of word counts as a scikit-learn transformer."""

from typing import Any, Self

from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from supdocnade.checks import check_range
from supdocnade.corpus.counts import damp_counts
from supdocnade.estimators.inputs import read_counts


class DampCounts(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Damp repeated words: a count n becomes round(scale · √n).

    A texture that fills half of a picture repeats one visual word hundreds of times. Damped, it
    still weighs more than a single occurrence, but not hundreds of times as much.

    Parameters
    ----------
    scale : float, default=2
        Counts of 1, 4 and 9 become `scale`, 2 `scale` and 3 `scale`, rounded.

    Examples
    --------
    >>> DampCounts().fit_transform([[0, 1, 2, 100]]).toarray().tolist()
    [[0.0, 2.0, 3.0, 20.0]]
    """

    def __init__(self, scale: float = 2):
        self.scale = scale

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check X and store its width; there is nothing to learn.

        Parameters
        ----------
        X : (documents, words) sparse or dense counts, finite and not negative; or a `Corpus`,
            which is read as a whole.
        y : ignored.
        """
        check_range("scale", self.scale, above=0)
        read_counts(self, X, reset=True)
        return self

    def transform(self, X: Any) -> sparse.csr_matrix:
        """Return the damped counts as a sparse matrix.

        Parameters
        ----------
        X : (documents, words) sparse or dense counts, finite and not negative; or a `Corpus`,
            which is read as a whole.
        """
        check_is_fitted(self)
        counts = read_counts(self, X, reset=False)
        scale = check_range("scale", self.scale, above=0)
        return sparse.csr_matrix(damp_counts(counts, scale))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        return tags
