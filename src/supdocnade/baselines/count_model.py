"""Checks and storage that the models of this folder share.

A file (format 1) has the fitted arrays by the names of their attributes, and a JSON description of
everything else. Nothing that is read is executed, and everything is checked before it is used.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from supdocnade.checks import check_count, check_shape
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.estimators.inputs import read_counts
from supdocnade.estimators.persistence import (
    check_optional_counts,
    plain_classes,
    plain_seed,
    plain_value,
    read_classes,
    read_names,
)
from supdocnade.storage import Arrays, damage_errors, load_arrays, save_arrays

FORMAT = 1


class CountModel(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """A topic model of counts whose fitted state is a few arrays."""

    n_topics: int
    random_state: Any
    n_features_in_: int
    n_annotations_: int
    annotation_names_: NDArray[Any] | None
    classes_: NDArray[Any]
    components_: NDArray[np.float64]

    _arrays: ClassVar[Mapping[str, str]]
    """Names of the fitted arrays and the letters of their axes: H topics, K words, A annotations, C
    classes, I iterations, of which there may be any number."""

    def _check_settings(self) -> None:
        """Raise `InvalidArgument` if a setting is invalid."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, which holds only arrays and plain values.

        Parameters
        ----------
        path : of the file; it is replaced as a whole or not at all.
        """
        check_is_fitted(self, "components_")
        settings = {name: plain_value(each) for name, each in self.get_params(deep=False).items()}
        names = getattr(self, "annotation_names_", None)
        words = getattr(self, "feature_names_in_", None)
        classes = getattr(self, "classes_", None)
        description = {
            "format": FORMAT,
            "kind": type(self).__name__,
            "settings": {**settings, "random_state": plain_seed(self.random_state)},
            "n_words": self.n_features_in_,
            "word_names": None if words is None else list(words),
            "n_annotations": getattr(self, "n_annotations_", 0),
            "annotation_names": None if names is None else list(names),
            "classes": None if classes is None else plain_classes(classes),
        }
        save_arrays(Path(path), {name: getattr(self, name) for name in self._arrays}, description)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return a model that `save` wrote; a damaged or foreign file raises `StorageError`.

        It predicts what the saved one did, bit for bit.

        Parameters
        ----------
        path : of the file.
        """
        arrays, description = load_arrays(Path(path))
        if description.get("kind") != cls.__name__:
            raise StorageError(f"{path} holds a {description.get('kind')!r}, not a {cls.__name__}.")
        if description.get("format") != FORMAT:
            raise StorageError(
                f"{path} has format {description.get('format')!r}, this version reads {FORMAT}."
            )
        with damage_errors(str(path)):
            return cls._restore(arrays, description)

    @classmethod
    def _restore(cls, arrays: Arrays, description: Mapping[str, Any]) -> Self:
        settings = description["settings"]
        if not isinstance(settings, dict) or settings.keys() != cls().get_params().keys():
            raise InvalidArgument(f"its settings must be those of {cls.__name__}")
        check_optional_counts(settings)
        model = cls(**settings)
        model._check_settings()
        model.n_features_in_ = check_count("n_words", description["n_words"], least=1)
        n_annotations = check_count("n_annotations", description["n_annotations"])
        words = read_names("word_names", description["word_names"], model.n_features_in_)
        if words is not None:
            model.feature_names_in_ = np.array(words, object)
        names = read_names("annotation_names", description["annotation_names"], n_annotations)
        sizes = {"H": model.n_topics, "K": model.n_features_in_, "A": n_annotations}
        if "C" in "".join(cls._arrays.values()):
            model.n_annotations_ = n_annotations
            model.annotation_names_ = None if names is None else np.array(names, object)
            model.classes_ = read_classes(description["classes"])
            sizes["C"] = len(model.classes_)
        if arrays.keys() != cls._arrays.keys():
            raise InvalidArgument(f"its arrays must be {sorted(cls._arrays)}, got {sorted(arrays)}")
        for name, axes in cls._arrays.items():
            array = arrays[name]
            expected = [sizes.get(axis, array.size) for axis in axes]
            check_shape(name, array.shape, expected)
            if array.dtype != np.float64 or not np.isfinite(array).all():
                raise InvalidArgument(f"{name} must be finite float64 numbers")
            setattr(model, name, array)
        return model

    def _read_counts(self, X: Any) -> sparse.csr_array:
        check_is_fitted(self, "components_")
        return read_counts(self, X, reset=False)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = []  # Topics are always float64.
        return tags
