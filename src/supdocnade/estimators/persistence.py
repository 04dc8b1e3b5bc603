"""Estimators on disk: one safetensors file with a JSON description.

A topic model has its network and history, visual words have their encoder and examples. Nothing
that is read is ever executed, and everything is checked before an estimator is built. Reading needs
neither torch nor scikit-learn.
"""

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.settings import DocNADESettings, SupDocNADESettings
from supdocnade.images.dense_sift import SIZE
from supdocnade.model.config import SupDocNADEConfig
from supdocnade.model.inference import NetworkArrays
from supdocnade.schema import damage_errors, load, plain, save, save_errors, stored
from supdocnade.training.config import History
from supdocnade.visual_words.codebook import PatchExamples
from supdocnade.visual_words.describer import Describer, NetworkDescriber, SIFTDescriber
from supdocnade.visual_words.encoder import ImageEncoder
from supdocnade.visual_words.settings import VisualWordSettings

WORDS = "BagOfVisualWords"

StoredClasses = tuple[bool, ...] | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]

RUN_OPTIONS = {"n_jobs", "verbose", "device", "checkpoint", "cache"}
"""Settings of estimators that are not stored: they do not change the model."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredTopicModel:
    """A fitted `DocNADE` or `SupDocNADE`, as it is in a file."""

    versions: dict[str, str]
    settings: dict[str, Any]
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
        for name, count in (
            ("word_names", config.n_visual_words),
            ("annotation_names", config.n_annotation_words),
        ):
            names = getattr(self, name)
            if names is not None and len(names) != count:
                raise InvalidArgument(f"{name} must be {count}, got {len(names)}")
        if self.classes is not None and self.network.n_classes != len(self.class_array):
            raise InvalidArgument("its network does not match its classes")
        self.fit_settings.check()

    @cached_property
    def class_array(self) -> NDArray[Any]:
        """The classes, or the labels in the order of their columns if there may be several."""
        return read_classes(self.classes, in_any_order=self.network.several_labels)

    @cached_property
    def fit_settings(self) -> DocNADESettings:
        """The settings as arguments of an estimator."""
        kind = DocNADESettings if self.classes is None else SupDocNADESettings
        given = settings_from_file(self.settings, [each.name for each in fields(kind)])
        if not isinstance(given["early_stopping"], bool):
            raise InvalidArgument(f"early_stopping must be a bool, got {given['early_stopping']!r}")
        weight = given.get("class_weight")
        if isinstance(weight, list):
            if not all(isinstance(pair, list) and len(pair) == 2 for pair in weight):
                raise InvalidArgument("class_weight must be pairs of a class and its weight")
            given = {**given, "class_weight": dict(weight)}
        elif weight not in (None, "balanced"):
            raise InvalidArgument(f"class_weight must be 'balanced' or pairs, got {weight!r}")
        return kind(**given)

    @classmethod
    def of(cls, estimator: Any, word_names: Iterable[str] | None = None) -> "StoredTopicModel":
        """Return a fitted topic model as it is in a file.

        Parameters
        ----------
        word_names : by default, those of the estimator.
        """
        import torch

        _check_network(estimator.network_)
        settings = plain_settings(estimator.get_params(deep=False))
        settings["early_stopping"] = bool(settings["early_stopping"])
        if isinstance(settings.get("class_weight"), Mapping):
            settings["class_weight"] = [[*pair] for pair in settings["class_weight"].items()]
        names = getattr(estimator, "feature_names_in_", None) if word_names is None else word_names
        with save_errors(type(estimator).__name__):
            return cls(
                versions={
                    "python": platform.python_version(),
                    "numpy": np.__version__,
                    "torch": torch.__version__,
                },
                settings=plain(settings, "settings"),
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

        settings = self.fit_settings
        if issubclass(kind, SupDocNADESettings) != isinstance(settings, SupDocNADESettings):
            raise InvalidArgument(f"it must be a {kind.__name__}")
        estimator = kind(**{each.name: getattr(settings, each.name) for each in fields(settings)})
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

    settings: dict[str, Any]
    """Settings that they were learned with."""
    encoder: ImageEncoder
    examples: PatchExamples

    def __post_init__(self) -> None:
        _check_encoder(self.fit_settings, self.encoder)
        examples = self.examples
        check_shape("examples", (len(examples.pictures),), (self.encoder.n_words,))
        if examples.side != self.encoder.describer.example_side:
            raise InvalidArgument("examples must be patches of its encoder")

    @classmethod
    def of(
        cls, settings: VisualWordSettings, encoder: ImageEncoder, examples: PatchExamples
    ) -> "VisualWords":
        """Return the words that were learned with these settings."""
        if callable(settings.features):
            raise InvalidArgument(
                "these words cannot be saved: their features are a function, which a file cannot "
                "hold."
            )
        values = {each.name: getattr(settings, each.name) for each in fields(settings)}
        values |= {"n_words": encoder.n_words, "upscale": bool(settings.upscale)}
        with save_errors(WORDS):
            kept = plain(plain_settings(values), "settings")
            return cls(settings=kept, encoder=encoder, examples=examples)

    def save(self, path: Path) -> None:
        """Write the words to a file, atomically."""
        save(path, WORDS, self)

    @cached_property
    def fit_settings(self) -> VisualWordSettings:
        """The settings as arguments of an estimator."""
        given = settings_from_file(self.settings, [f.name for f in fields(VisualWordSettings)])
        grid = given["grid"]
        several = bool(grid) and isinstance(grid[0], list)
        grid = [tuple(each) for each in grid] if several else tuple(grid)
        return VisualWordSettings(**{**given, "grid": grid})


def save_estimator(estimator: Any, path: str | Path) -> None:
    """Write a fitted topic model, atomically."""
    save(Path(path), type(estimator).__name__, StoredTopicModel.of(estimator))


def load_estimator(kind: type[Any], path: str | Path) -> Any:
    """Read a topic model of a class that `save_estimator` wrote.

    Parameters
    ----------
    kind : as for `StoredTopicModel.build`.
    """
    found = load(Path(path), kind.__name__, StoredTopicModel)
    with damage_errors(str(path)):
        estimator = found.build(kind)
    if found.word_names is not None:
        estimator.feature_names_in_ = np.array(found.word_names, object)
    return estimator


def _check_network(network: Any) -> None:
    """Raise `InvalidArgument` if `load` would replace the network by another one."""
    from supdocnade.model.network import DocNADENetwork, SupDocNADENetwork
    from supdocnade.model.outputs import SoftmaxOutput, TreeOutput

    if callable(network.config.activation):
        raise InvalidArgument(
            "this model cannot be saved: its activation is a function, which a file cannot hold."
        )
    for part, kinds in (
        (network, (DocNADENetwork, SupDocNADENetwork)),
        (network.output, (TreeOutput, SoftmaxOutput)),
    ):
        if type(part) not in kinds:
            names = " or ".join(kind.__name__ for kind in kinds)
            raise InvalidArgument(
                f"this model cannot be saved: a file holds a {names}, got a {type(part).__name__}."
            )


def plain_settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an estimator that its file has."""
    kept = {name: value for name, value in params.items() if name not in RUN_OPTIONS}
    seed = kept["random_state"]  # The state of a generator is not stored.
    return {**kept, "random_state": seed if isinstance(seed, int | np.integer) else None}


def settings_from_file(given: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the settings of an estimator with these parameters from its file."""
    if differing := given.keys() ^ set(names) - RUN_OPTIONS:
        raise InvalidArgument(f"its settings lack or add {sorted(differing)}")
    seed = given["random_state"]
    if seed is not None and type(seed) is not int:
        raise InvalidArgument("random_state must be an int or null")
    return given


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
    expected, regions = settings.check()
    found = encoder.describer
    centres_KD = encoder.codebook.centres_KD
    if isinstance(found, NetworkDescriber):
        same, width = settings.features == found.name, centres_KD.shape[1]
        projection = found.projection
        if projection is not None:
            check_shape("centres", (width,), projection.components_DP.shape[1:])
    else:
        same, width = settings.features == "sift" and _is_same_sift(found, expected), SIZE
    same &= encoder.mirror == settings.mirror
    if not same or (encoder.regions, encoder.n_nearest) != (regions, settings.n_nearest):
        raise InvalidArgument("its encoder has other settings than its transformer")
    check_shape("centres", centres_KD.shape, (settings.n_words, width))


def _is_same_sift(found: Describer, expected: SIFTDescriber) -> bool:
    """Return whether two describers are SIFT, and differ at most in what is learned."""
    if not isinstance(found, SIFTDescriber):
        return False
    learned = replace(expected.sift, contrast_floor=found.sift.contrast_floor)
    return found.decoding == expected.decoding and found.sift == learned
