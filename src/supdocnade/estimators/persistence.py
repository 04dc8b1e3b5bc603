"""Estimators on disk: one safetensors file with a JSON description.

A topic model has its network and history, visual words have their encoder. Nothing that is read is
ever executed, and everything is checked before an estimator is built. Reading needs neither torch
nor scikit-learn.
"""

import platform
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_shape, copy_settings
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.settings import DocNADESettings, SupDocNADESettings, settings_of
from supdocnade.images.dense_sift import SIZE
from supdocnade.model.config import SupDocNADEConfig
from supdocnade.model.inference import NetworkArrays
from supdocnade.schema import save, save_errors, stored
from supdocnade.training.config import History
from supdocnade.visual_words.describer import Describer, NetworkDescriber, SIFTDescriber
from supdocnade.visual_words.encoder import ImageEncoder
from supdocnade.visual_words.settings import VisualWordSettings

WORDS = "BagOfVisualWords"


StoredClasses = tuple[bool, ...] | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredTopicModel:
    """A fitted `DocNADE` or `SupDocNADE`, as it is in a file."""

    versions: dict[str, str]
    settings: DocNADESettings | SupDocNADESettings
    random_state: int | None = stored(least=0)
    seed: int = stored(least=0)
    network: NetworkArrays
    history: History
    word_names: tuple[str, ...] | None
    annotation_names: tuple[str, ...] | None
    classes: StoredClasses | None
    """Of a `SupDocNADE`."""

    def __post_init__(self) -> None:
        config = self.network.config
        if isinstance(config, SupDocNADEConfig) != (self.classes is not None):
            raise InvalidArgument("its network must have classes if it does")
        if isinstance(self.settings, SupDocNADESettings) != (self.classes is not None):
            raise InvalidArgument("its settings must be of a model with classes if it has classes")
        for name, count in (
            ("word_names", config.n_visual_words),
            ("annotation_names", config.n_annotation_words),
        ):
            names = getattr(self, name)
            if names is not None and len(names) != count:
                raise InvalidArgument(f"{name} must be {count}, got {len(names)}")
        if self.classes is not None and self.network.n_classes != len(self.class_array):
            raise InvalidArgument("its network does not match its classes")
        self.settings.check()

    @cached_property
    def class_array(self) -> NDArray[Any]:
        """The classes, or the labels in the order of their columns if there may be several."""
        return read_classes(self.classes, in_any_order=self.network.several_labels)

    @classmethod
    def of(cls, estimator: Any, word_names: Iterable[str] | None = None) -> "StoredTopicModel":
        """Return a fitted topic model as it is in a file.

        Parameters
        ----------
        word_names : by default, those of the estimator.
        """
        import torch

        for name in ("activation", "output"):
            if callable(getattr(estimator.network_.config, name)):
                raise InvalidArgument(
                    f"this model cannot be saved: its {name} is a function, which a file cannot "
                    "hold."
                )
        names = getattr(estimator, "feature_names_in_", None) if word_names is None else word_names
        with save_errors(type(estimator).__name__):
            return cls(
                versions={
                    "python": platform.python_version(),
                    "numpy": np.__version__,
                    "torch": torch.__version__,
                },
                settings=settings_of(estimator),
                random_state=plain_seed(estimator.random_state),
                seed=estimator.seed_,
                network=estimator.network_.arrays(),
                history=estimator.history_,
                word_names=None if names is None else tuple(names),
                annotation_names=estimator.annotation_names_,
                classes=getattr(estimator, "classes_", None),
            )

    def build(self, kind: type[Any]) -> Any:
        """Return the estimator, without names of words.

        Parameters
        ----------
        kind : `DocNADE`, `SupDocNADE` or a class derived from them.
        """
        from supdocnade.model.network import network_from_arrays

        if issubclass(kind, SupDocNADESettings) != isinstance(self.settings, SupDocNADESettings):
            raise InvalidArgument(f"it must be a {kind.__name__}")
        estimator = kind(**{**vars(self.settings), "random_state": self.random_state})
        if self.classes is not None:
            estimator.classes_ = self.class_array
        network = network_from_arrays(self.network)
        names = self.annotation_names
        estimator._set_network(network, None if names is None else list(names), self.seed)
        estimator.n_features_in_ = self.network.config.n_visual_words
        estimator.history_ = self.history
        return estimator


@dataclass(frozen=True, eq=False, kw_only=True)
class VisualWords:
    """Fitted visual words, as they are in a file."""

    settings: VisualWordSettings
    """Settings that they were learned with. There may be fewer words."""
    random_state: int | None = stored(least=0)
    encoder: ImageEncoder

    def __post_init__(self) -> None:
        _check_encoder(self.settings, self.encoder)

    @classmethod
    def of(cls, settings: VisualWordSettings, encoder: ImageEncoder) -> "VisualWords":
        """Return the words that were learned with these settings, or by this transformer."""
        if callable(settings.features):
            raise InvalidArgument(
                "these words cannot be saved: their features are a function, which a file cannot "
                "hold."
            )
        kept = copy_settings(VisualWordSettings, settings, upscale=bool(settings.upscale))
        with save_errors(WORDS):
            return cls(
                settings=kept,
                random_state=plain_seed(settings.random_state),
                encoder=encoder,
            )

    def save(self, path: Path) -> None:
        """Write the words to a file, atomically."""
        save(path, WORDS, self)


def plain_seed(random_state: Any) -> int | None:
    """Return a seed as a file has it: None if it is the state of a generator, or None."""
    return int(random_state) if isinstance(random_state, int | np.integer) else None


def read_classes(given: Any, *, in_any_order: bool = False) -> NDArray[Any]:
    """Return classes as an array; they must be different, and sorted.

    Parameters
    ----------
    in_any_order : they are columns of a table, which need not be sorted.
    """
    values = np.asarray(given).tolist() if isinstance(given, np.ndarray) else list(given)
    if {type(each) for each in values} not in ({bool}, {int}, {float}, {str}):
        raise InvalidArgument(
            f"classes must be all of bool, int, float or str, got {values[:3]} ..."
        )
    classes: NDArray[Any] = np.array(values)
    if not np.array_equal(np.unique(classes), np.sort(classes) if in_any_order else classes):
        raise InvalidArgument("classes must be sorted and unique")
    return classes


def _check_encoder(settings: VisualWordSettings, encoder: ImageEncoder) -> None:
    """Raise `InvalidArgument` unless these settings could have made the encoder."""
    settings.check()
    found = encoder.describer
    centres_KD = encoder.codebook.centres_KD
    if isinstance(found, NetworkDescriber):
        same, width = settings.features == found.name, centres_KD.shape[1]
        projection = found.projection
        if projection is not None:
            check_shape("centres", (width,), projection.components_DP.shape[1:])
    else:
        same, width = settings.features == "sift" and _is_same_sift(found, settings.sift()), SIZE
    same &= encoder.mirror == settings.mirror
    divided = encoder.regions, encoder.n_nearest
    if not same or divided != (settings.regions(), settings.n_nearest):
        raise InvalidArgument("its encoder has other settings than its transformer")
    check_shape("centres", centres_KD.shape, (min(len(centres_KD), settings.n_words), width))


def _is_same_sift(found: Describer, expected: SIFTDescriber) -> bool:
    """Return whether two describers are SIFT, and differ at most in what is learned."""
    if not isinstance(found, SIFTDescriber):
        return False
    learned = replace(expected.sift, contrast_floor=found.sift.contrast_floor)
    return found.decoding == expected.decoding and found.sift == learned
