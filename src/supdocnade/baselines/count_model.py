"""Checks and storage that the models of this folder share.

A file has the fields of a record, which are called like the attributes of the model.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from supdocnade.checks import check_settings
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.inputs import read_counts
from supdocnade.estimators.persistence import plain_settings, settings_from_file
from supdocnade.estimators.settings import check_n_jobs
from supdocnade.schema import array, load, save, stored
from supdocnade.storage import damage_errors


@dataclass(kw_only=True)
class StoredCountModel:
    """A fitted model of counts: H topics, K words."""

    settings: dict[str, Any]
    feature_names_in_: tuple[str, ...] | None = stored(axis="K")
    components_: NDArray[np.float64] = array("HK")

    def __post_init__(self) -> None:
        if len(self.components_) != self.settings.get("n_topics"):
            raise InvalidArgument("components_ must have a row per topic of its settings")


class CountModel(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """A topic model of counts whose fitted state is a few arrays."""

    n_topics: int
    random_state: Any
    n_features_in_: int
    components_: NDArray[np.float64]

    _record: ClassVar[type[StoredCountModel]]
    """Schema of a file."""

    def _check_settings(self) -> None:
        """Raise `InvalidArgument` if a setting is invalid."""
        check_settings(self)
        check_n_jobs(getattr(self, "n_jobs", None))

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, which holds only arrays and plain values.

        Parameters
        ----------
        path : of the file; it is replaced as a whole or not at all.
        """
        check_is_fitted(self, "components_")
        names = [each.name for each in fields(self._record) if each.name != "settings"]
        fitted: dict[str, Any] = {name: getattr(self, name, None) for name in names}
        settings = plain_settings(self.get_params(deep=False))
        save(Path(path), type(self).__name__, self._record(settings=settings, **fitted))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return a model that `save` wrote; a damaged or foreign file raises `StorageError`.

        It predicts what the saved one did, bit for bit.

        Parameters
        ----------
        path : of the file.
        """
        record = load(Path(path), cls.__name__, cls._record)
        with damage_errors(str(path)):
            model = cls(**settings_from_file(record.settings, cls().get_params()))
            model._check_settings()
        model._set_fitted(record)
        return model

    def _set_fitted(self, record: Any) -> None:
        """Set the attributes of the fitted model that a file holds."""
        self.components_ = record.components_
        self.n_features_in_ = record.components_.shape[1]
        if record.feature_names_in_ is not None:
            self.feature_names_in_ = np.array(record.feature_names_in_, object)

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
