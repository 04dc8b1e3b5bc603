"""Validation of the arguments of `fit`: counts, features, labels, annotation names and seeds."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from supdocnade.checks import check_seed
from supdocnade.corpus.disk import Corpus
from supdocnade.corpus.documents import NO_LABEL, read_global_features
from supdocnade.corpus.tokens import check_indices, check_total
from supdocnade.errors import InvalidArgument


class CountTransformer(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """A transformer of counts to topics, whose `components_` are (topics, words)."""

    def _read_counts(self, X: Any) -> sparse.csr_array:
        check_is_fitted(self, "components_")
        return read_counts(self, X, reset=False)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = []  # Topics have one type, whatever that of X.
        return tags


def read_counts_or_corpus(estimator: Any, X: Any, *, reset: bool) -> sparse.csr_array | Corpus:
    """Return X as `read_counts` does, or unchanged if it is a corpus of the right width."""
    if not isinstance(X, Corpus):
        return read_counts(estimator, X, reset=reset)
    if len(X) == 0:
        raise InvalidArgument(f"X must have a document, got none in {X.folder}.")
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return X


def read_counts(estimator: Any, X: Any, *, reset: bool) -> sparse.csr_array:
    """Return X as a canonical matrix of counts: sorted, no duplicates, no zeros.

    It may share its arrays with X: they must not be written to. A corpus is read into memory.

    Parameters
    ----------
    reset : store the width and the feature names of X; otherwise X must agree with them.
    """
    if isinstance(X, Corpus):
        read_counts_or_corpus(estimator, X, reset=reset)
        return X.counts()
    if sparse.issparse(X):
        X = check_indices("X", X)
    # Infinite and negative counts are refused below, with one message.
    checked = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr",
        dtype=np.float64,
        ensure_all_finite=False,
    )
    matrix = sparse.csr_array(checked)
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy()  # The caller's arrays are never changed.
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    if not np.isfinite(matrix.data).all():
        what = "NaN" if np.isnan(matrix.data).any() else "infinity"
        raise InvalidArgument(f"X must be counts, finite and not negative, got {what}.")
    check_total("X", matrix.data)
    if (matrix.data < 0).any():
        # scikit-learn's checks look for the first words of this sentence.
        raise InvalidArgument(
            f"Negative values in data passed to {type(estimator).__name__}: X must be counts, "
            f"finite and not negative, got {matrix.data.min():g}."
        )
    return matrix


def read_fitted_features(
    estimator: Any, given: Any, n_documents: int
) -> NDArray[np.float32] | None:
    """Return the global features of documents, which must be like the features in `fit`."""
    features_BF = read_global_features(given, n_documents)
    expected = estimator.n_global_features_
    found = 0 if features_BF is None else features_BF.shape[1]
    if found != expected:
        wanted, got = (f"{n} for each document" if n else "None" for n in (expected, found))
        raise InvalidArgument(f"global_features must be as in the fit, {wanted}, got {got}.")
    return features_BF


def read_sample_weight(given: Any, X: Any) -> NDArray[np.float64] | None:
    """Return the weights of documents, finite and not negative; None if none are given."""
    if given is None:
        return None
    weight_B: NDArray[np.float64] = _check_sample_weight(given, X, dtype=np.float64)
    if (weight_B < 0).any():
        raise InvalidArgument(f"sample_weight must not be negative, got {weight_B.min():g}.")
    return weight_B


def require_labels(estimator: Any, y: Any) -> Any:
    """Return y, or raise `InvalidArgument` if it is None."""
    if y is None:
        # scikit-learn's checks look for these words.
        raise InvalidArgument(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None; "
            "DocNADE needs no labels."
        )
    return y


def read_labels(y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return labels as an array, and a mask of those that are not None, NaN or NA."""
    # As objects, so that numpy converts neither numbers beside strings to strings, nor integers
    # beside a missing value to floats.
    if isinstance(y, list | tuple):
        y = np.array(y, object)
    elif type(y).__module__.startswith("pandas"):
        y = y.to_numpy(dtype=object)
    _check_one_label_each(y)
    labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f":
        known = ~np.isnan(labels)
    elif labels.dtype.kind in "mM":
        known = ~np.isnat(labels)
    elif labels.dtype.kind in "OTU":
        known = np.array([not is_missing(label) for label in labels], np.bool_)
    else:
        known = np.ones(len(labels), np.bool_)
    if labels.dtype.kind == "O" and known.any():
        # Without None, labels of one type become an array of that type.
        if len({isinstance(label, str) for label in labels[known]}) > 1:
            kinds = sorted({type(label).__name__ for label in labels[known]})
            raise InvalidArgument(f"y must be classes of one type, got {kinds}.")
        kept = np.array(labels[known].tolist())
        if kept.ndim == 1 and kept.dtype.kind in "biufU":
            whole = np.empty(len(labels), kept.dtype)
            whole[known], whole[~known] = kept, kept[0]
            labels = whole
    return labels, known


def _check_one_label_each(y: Any) -> None:
    """Raise `InvalidArgument` if a document has several labels: columns of y, or a collection."""
    shape: tuple[int, ...] = getattr(y, "shape", ())
    got = f"shape {shape}" if len(shape) == 2 and shape[1] > 1 else None
    if isinstance(y, np.ndarray) and y.dtype.kind == "O" and y.ndim == 1:
        several = (each for each in y if isinstance(each, list | tuple | set | frozenset))
        got = next(map(repr, several), None)
    if got is not None:
        raise InvalidArgument(
            f"y must have one class per document, got {got}; SupDocNADE takes several labels per "
            "document as a matrix of 0 and 1 with a column per class, which scikit-learn's "
            "MultiLabelBinarizer makes."
        )


def read_label_table(y: Any) -> tuple[NDArray[np.int8], NDArray[Any]] | None:
    """Return several labels per document and their classes, or None if y has one per document.

    Parameters
    ----------
    y : (documents, classes) 0 and 1, sparse or dense; None, NaN or NA where a label is unknown.

    Returns
    -------
    (documents, classes) 1, 0, or `NO_LABEL` where unknown, and the names of the columns of a data
    frame, or the numbers of the columns.
    """
    names = list(getattr(y, "columns", ()))
    if sparse.issparse(y):
        table = np.asarray(y.toarray())
    elif isinstance(y, list | tuple):
        table = np.array(y, object)
    else:
        table = np.asarray(y.to_numpy(dtype=object) if names else y)
    if table.ndim != 2 or (table.shape[1] == 1 and not sparse.issparse(y)):
        return None
    known_BC = np.ones(table.shape, np.bool_)
    if table.dtype.kind == "O":
        known_BC = np.array([[not is_missing(each) for each in row] for row in table], np.bool_)
    elif table.dtype.kind == "f":
        known_BC = ~np.isnan(table)
    known_BC = known_BC.reshape(table.shape)
    wrong = [each for each in table[known_BC].tolist() if each not in (0, 1)]
    if wrong:
        raise InvalidArgument(
            "y must have one class per document, or several labels as a matrix of 0 and 1 with a "
            f"column per class, got {wrong[0]!r}; scikit-learn's MultiLabelBinarizer makes one."
        )
    label_BC = np.full(table.shape, NO_LABEL, np.int8)
    label_BC[known_BC] = table[known_BC].astype(np.int8)
    if len(set(names)) == len(names) > 0 and all(isinstance(name, str) for name in names):
        return label_BC, np.array(names)
    return label_BC, np.arange(table.shape[1])


def read_targets(y: Any) -> tuple[NDArray[np.integer], NDArray[Any]]:
    """Return the labels of training documents by class, and the classes.

    Returns
    -------
    (documents,) class numbers, or (documents, classes) 1 and 0 if y has several labels per
    document; `NO_LABEL` where unknown.
    """
    table = read_label_table(y)
    if table is None:
        labels, known = read_labels(y)
        classes = classes_of(labels, known)
        return number_labels(labels, known, classes), classes
    if not (table[0] != NO_LABEL).any():
        raise InvalidArgument(
            "y must have a label for at least one document, got none; DocNADE needs no labels."
        )
    return table


def read_fitted_targets(y: Any, classes: NDArray[Any], several: bool) -> NDArray[np.integer]:
    """Return labels as `read_targets` does, for classes that are known.

    Parameters
    ----------
    several : whether documents have several labels.
    """
    if not several:
        labels, known = read_labels(y)
        return number_labels(labels, known, classes)
    table = read_label_table(y)
    if table is None or table[0].shape[1] != len(classes):
        raise InvalidArgument(
            f"y must be a matrix of 0 and 1 with {len(classes)} columns, as in the fit, "
            f"got shape {np.shape(y)}."
        )
    label_BC, names = table
    if names.dtype.kind == classes.dtype.kind == "U" and names.tolist() != classes.tolist():
        raise InvalidArgument(
            f"the columns of y must be {classes.tolist()}, as in the fit, got {names.tolist()}."
        )
    return label_BC


def is_missing(value: object) -> bool:
    """Return True if a label is missing: None, NaN, or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def classes_of(
    labels: NDArray[Any], known: NDArray[np.bool_], *, listed: bool = False
) -> NDArray[Any]:
    """Return the sorted classes that occur among the known labels.

    Parameters
    ----------
    listed : the labels are a list of classes, each of them once, which scikit-learn would take for
        a regression target.
    """
    if not known.any():
        raise InvalidArgument(
            "y must have a label for at least one document, got none; DocNADE needs no labels."
        )
    if labels.dtype.kind == "f" and np.isinf(labels[known]).any():
        raise InvalidArgument("y must be classes, got infinity.")
    if not listed:
        check_classification_targets(labels[known])
    classes: NDArray[Any] = np.unique(labels[known])
    # -1 and 1 are two classes by convention.
    suspect = classes.dtype.kind == "i" and classes[:1].tolist() == [-1]
    if not listed and suspect and classes[1:].tolist() not in ([], [1]):
        warnings.warn(
            "y has documents of a class -1; if their class is unknown, give None or NaN instead.",
            stacklevel=2,
        )
    return classes


def number_labels(
    labels: NDArray[Any], known: NDArray[np.bool_], classes: NDArray[Any]
) -> NDArray[np.int64]:
    """Return the number of every label among the sorted classes, `NO_LABEL` where unknown."""
    numbers = np.full(len(labels), NO_LABEL, np.int64)
    if not known.any():
        return numbers
    try:
        places = np.searchsorted(classes, labels[known])
    except TypeError as error:  # Numbers and strings have no common order.
        raise _unknown_label(labels[known], classes) from error
    places = np.minimum(places, len(classes) - 1)
    right = classes[places] == labels[known]
    if not np.all(right):
        raise _unknown_label(labels[known][~np.asarray(right, np.bool_)], classes)
    numbers[known] = places
    return numbers


def _unknown_label(labels: NDArray[Any], classes: NDArray[Any]) -> InvalidArgument:
    return InvalidArgument(
        f"y must be among the classes {classes.tolist()}, got {labels.tolist()[0]!r}."
    )


def read_annotation_names(
    annotations: Any, given: Sequence[str] | ArrayLike | None
) -> list[str] | None:
    """Return the names of the annotation columns: the given ones, or the data frame's."""
    if annotations is None:
        if given is not None:
            raise InvalidArgument("annotation_names needs annotations, got none.")
        return None
    width = np.shape(annotations)[1] if len(np.shape(annotations)) == 2 else None
    if given is None:
        names = list(getattr(annotations, "columns", ()))
        if not names or not all(isinstance(name, str) for name in names):
            return None
    else:
        names = list(np.asarray(given, object))
    if width is not None and len(names) != width:
        raise InvalidArgument(
            f"annotation_names must have {width} names, one for each column of annotations, "
            f"got {len(names)}."
        )
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise InvalidArgument("annotation_names must be strings, each of them once.")
    return [str(name) for name in names]


def read_seed(random_state: Any) -> int:
    """Return a seed: an integer as it is, or one drawn from a generator."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return check_seed("random_state", int(random_state))
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
