"""Estimators on disk: one safetensors file with a JSON description.

A topic model has the parameters of the network by their names as arrays, and `leaf_of_word` if it
has a tree. Visual words have `centres` and their examples. Nothing that is read is ever
executed, and everything is checked before an estimator is built. Reading needs neither torch nor
scikit-learn.
"""

import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_count, check_seed, check_shape
from supdocnade.errors import InvalidArgument, StorageError, SupDocNADEError
from supdocnade.estimators.settings import (
    DocNADESettings,
    SupDocNADESettings,
    VisualWordSettings,
    check_n_jobs,
)
from supdocnade.images.sift_bins import SIZE
from supdocnade.model.config import DocNADEConfig, SupDocNADEConfig
from supdocnade.model.inference import NetworkArrays
from supdocnade.storage import Arrays, damage_errors, load_arrays, save_arrays
from supdocnade.training.history import History
from supdocnade.tree import WordTree
from supdocnade.visual_words.describer import NetworkDescriber, SIFTDescriber
from supdocnade.visual_words.encoder import ImageEncoder
from supdocnade.visual_words.examples import PatchExamples

TOPICS_FORMAT = 1
WORDS_FORMAT = 1
WORDS_KIND = "BagOfVisualWords"

StoredClasses = tuple[bool, ...] | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]

RUN_OPTIONS = {"n_jobs", "verbose", "device", "checkpoint", "cache"}
"""Settings of estimators that are not stored: they do not change the model."""


class StoredTopicModel(NamedTuple):
    """Content of a stored topic model."""

    settings: DocNADESettings
    network: NetworkArrays
    seed: int
    history: History
    word_names: list[str] | None
    annotation_names: list[str] | None
    classes: NDArray[Any] | None


def estimator_to_storage(estimator: Any) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a fitted topic model, and a description of everything else."""
    _check_network(estimator.network_)
    network: NetworkArrays = estimator.network_.arrays()
    arrays: Arrays = {**network.parameters}
    if network.tree is not None:
        arrays["leaf_of_word"] = network.tree.leaf_of_word_K
    kind = type(estimator)
    try:
        description = _describe(estimator)
        # A model that could not be read back is not written.
        stored = json.loads(json.dumps(description, allow_nan=False))
        _read_topic_model(_settings_type(kind), arrays, stored)
    except (SupDocNADEError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise InvalidArgument(f"this model cannot be saved: {error}") from error
    return arrays, description


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


def save_estimator(estimator: Any, path: str | Path) -> None:
    """Write a fitted topic model, atomically."""
    save_arrays(Path(path), *estimator_to_storage(estimator))


def _describe(estimator: Any) -> dict[str, Any]:
    import torch

    classes = getattr(estimator, "classes_", None)
    names, words = estimator.annotation_names_, getattr(estimator, "feature_names_in_", None)
    return {
        "format": TOPICS_FORMAT,
        "kind": type(estimator).__name__,
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
        },
        "settings": _plain_settings(estimator.get_params(deep=False)),
        "network": asdict(estimator.network_.config),
        "seed": estimator.seed_,
        "n_words": estimator.n_features_in_,
        "word_names": None if words is None else list(words),
        "n_annotations": estimator.n_annotations_,
        "annotation_names": None if names is None else list(names),
        "classes": None if classes is None else read_classes(classes, in_any_order=True).tolist(),
        "history": estimator.history_.to_json(),
    }


def _plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: plain_value(value) for name, value in settings.items()}
    plain["checkpoint"] = None  # A file must not choose where its reader writes.
    plain["random_state"] = plain_seed(plain["random_state"])
    plain["verbose"], plain["early_stopping"] = int(plain["verbose"]), bool(plain["early_stopping"])
    if isinstance(plain.get("class_weight"), Mapping):
        pairs = plain["class_weight"].items()
        plain["class_weight"] = [[plain_value(name), plain_value(weight)] for name, weight in pairs]
    return plain


def plain_value(value: Any) -> Any:
    """Return a numpy scalar as the Python scalar that JSON knows."""
    return value.item() if isinstance(value, np.generic) else value


def plain_seed(random_state: Any) -> int | None:
    """Return an integer seed; the state of a generator is not stored."""
    return int(random_state) if isinstance(random_state, int) else None


def plain_settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an estimator that its file has."""
    plain = {name: value for name, value in params.items() if name not in RUN_OPTIONS}
    return {**plain, "random_state": plain_seed(plain["random_state"])}


def settings_from_file(given: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the settings of an estimator with these parameters from its file."""
    check_names(given, set(names) - RUN_OPTIONS)
    seed = given["random_state"]
    if seed is not None and type(seed) is not int:
        raise InvalidArgument("random_state must be an int or null")
    return given


def load_estimator(kind: type[Any], path: str | Path) -> Any:
    """Read a topic model of a class that `save_estimator` wrote."""
    return estimator_from_storage(kind, *load_arrays(Path(path)), str(path))


def estimator_from_storage(
    kind: type[Any], arrays: Arrays, description: dict[str, Any], name: str
) -> Any:
    """Return the estimator that `estimator_to_storage` described.

    Parameters
    ----------
    kind : `DocNADE`, `SupDocNADE` or a class derived from them.
    name : of the file it comes from, for errors.
    """
    from supdocnade.model.network import network_from_arrays

    stored = read_topic_model(_settings_type(kind), kind.__name__, arrays, description, name)
    settings = {each.name: getattr(stored.settings, each.name) for each in fields(stored.settings)}
    estimator = kind(**settings)
    if stored.classes is not None:
        estimator.classes_ = stored.classes
    network = network_from_arrays(stored.network, backend=estimator.backend)
    estimator._set_network(network, stored.annotation_names, stored.seed)
    estimator.n_features_in_ = stored.network.config.n_visual_words
    estimator.history_ = stored.history
    if stored.word_names is not None:
        estimator.feature_names_in_ = np.array(stored.word_names, object)
    return estimator


def _settings_type(kind: type[Any]) -> type[DocNADESettings]:
    return SupDocNADESettings if issubclass(kind, SupDocNADESettings) else DocNADESettings


def read_topic_model(
    settings_type: type[DocNADESettings],
    kind: str,
    arrays: Arrays,
    description: dict[str, Any],
    name: str,
) -> StoredTopicModel:
    """Return the checked content of a stored topic model.

    Parameters
    ----------
    kind : name of the estimator's class.
    name : of the file it comes from, for errors.
    """
    found = description.get("format")
    if found != TOPICS_FORMAT:
        raise StorageError(f"{name} has format {found!r}, this version reads {TOPICS_FORMAT}.")
    if description.get("kind") != kind:
        raise StorageError(
            f"{name} holds a {description.get('kind')!r}, not a {kind}: use its load."
        )
    with damage_errors(name):
        return _read_topic_model(settings_type, arrays, description)


def _read_topic_model(
    settings_type: type[DocNADESettings], arrays: Arrays, description: dict[str, Any]
) -> StoredTopicModel:
    settings = _read_settings(settings_type, description["settings"])
    n_words = check_count("n_words", description["n_words"], least=1)
    n_annotations = check_count("n_annotations", description["n_annotations"])
    word_names = read_names("word_names", description["word_names"], n_words)
    annotation_names = read_names(
        "annotation_names", description["annotation_names"], n_annotations
    )
    history = History.from_json(description["history"])
    seed = check_seed("seed", description["seed"])
    supervised = isinstance(settings, SupDocNADESettings)
    if (description["classes"] is None) == supervised:
        raise InvalidArgument("its classes do not match its kind")
    if not isinstance(description["network"], dict):
        raise InvalidArgument("its network is no JSON object")
    config = (SupDocNADEConfig if supervised else DocNADEConfig)(**description["network"])
    if (config.n_visual_words, config.n_annotation_words) != (n_words, n_annotations):
        raise InvalidArgument("its network does not match its words and annotations")
    classes = None
    if isinstance(config, SupDocNADEConfig):
        several = config.class_output == "sigmoid"
        classes = read_classes(description["classes"], in_any_order=several)
        if config.n_classes != len(classes):
            raise InvalidArgument("its network does not match its classes")
    settings.check()
    network = _read_network(config, arrays)
    return StoredTopicModel(settings, network, seed, history, word_names, annotation_names, classes)


def _read_settings(settings_type: type[DocNADESettings], given: Any) -> DocNADESettings:
    """Return the stored settings, each of the type it must have."""
    check_names(given, (each.name for each in fields(settings_type)))
    plain = dict(given)
    weight = plain.get("class_weight")
    if isinstance(weight, list):
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in weight):
            raise InvalidArgument("class_weight must be pairs of a class and its weight")
        plain["class_weight"] = dict(weight)
    elif weight not in (None, "balanced"):
        raise InvalidArgument(f"class_weight must be 'balanced' or pairs, got {weight!r}")
    check_count("verbose", plain["verbose"])
    if not isinstance(plain["early_stopping"], bool):
        raise InvalidArgument(f"early_stopping must be a bool, got {plain['early_stopping']!r}")
    plain["checkpoint"] = None  # A file must not choose where its reader writes.
    check_optional_counts(plain)
    if not isinstance(plain["backend"], str):
        raise InvalidArgument(f"backend must be a str, got {plain['backend']!r}")
    return settings_type(**plain)


def check_names(settings: Any, expected: Iterable[str]) -> None:
    """Raise `InvalidArgument` unless stored settings are a JSON object with these names."""
    if not isinstance(settings, dict):
        raise InvalidArgument("its settings are not a JSON object")
    if differing := settings.keys() ^ set(expected):
        raise InvalidArgument(f"its settings lack or add {sorted(differing)}")


def check_optional_counts(settings: Mapping[str, Any]) -> None:
    """Raise `InvalidArgument` unless the workers and the seed are whole numbers or None."""
    for name in ("n_jobs", "random_state"):
        value = settings.get(name)
        if value is not None and (type(value) is not int or abs(value) >= 2**63):
            raise InvalidArgument(f"{name} must be an int or null")
    check_n_jobs(settings.get("n_jobs"))


def read_names(what: str, given: Any, count: int) -> list[str] | None:
    """Return so many names, or None."""
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise InvalidArgument(f"{what} must be strings")
    if len(given) != count:
        raise InvalidArgument(f"{what} must be {count}, got {len(given)}")
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


def _read_network(config: DocNADEConfig, arrays: Arrays) -> NetworkArrays:
    tree, parameters = None, dict(arrays)
    if config.output == "tree":
        leaves = parameters.pop("leaf_of_word")
        if leaves.dtype != np.int32 or leaves.shape != (config.n_words,):
            raise InvalidArgument(
                f"leaf_of_word must be {config.n_words} int32, got {leaves.shape} {leaves.dtype}"
            )
        tree = WordTree(leaves)
    network = NetworkArrays(config, parameters, tree)
    for name, array in parameters.items():
        if not np.isfinite(array).all():
            raise InvalidArgument(f"{name} must be finite")
    return network


def save_words(bag: Any, path: Path) -> None:
    """Write fitted visual words, atomically."""
    save_arrays(path, *words_to_storage(bag))


def words_to_storage(bag: Any) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a fitted `BagOfVisualWords`, and a description of everything else."""
    if callable(bag.features):
        raise InvalidArgument(
            "these words cannot be saved: their features are a function, which a file cannot hold."
        )
    arrays = {**bag.encoder_.arrays(), **bag.examples_.arrays()}
    settings = bag.get_params(deep=False) | bag.encoder_.count_learned()
    description = {
        "format": WORDS_FORMAT,
        "kind": WORDS_KIND,
        "settings": _plain_word_settings(settings),
        "encoder": bag.encoder_.settings(),
    }
    return arrays, description


def _plain_word_settings(settings: dict[str, Any]) -> dict[str, Any]:
    plain = {name: plain_value(value) for name, value in settings.items()}
    plain["grid"] = np.asarray(plain["grid"]).tolist()
    if not isinstance(plain["patch_size"], int):
        plain["patch_size"] = np.asarray(plain["patch_size"]).tolist()
    plain["upscale"] = bool(plain["upscale"])
    plain["random_state"] = plain_seed(plain["random_state"])
    plain["cache"] = None  # A file must not choose where its reader writes.
    del plain["device"]
    return plain


def load_words(kind: type[Any], path: Path) -> Any:
    """Read a `BagOfVisualWords` that `save_words` wrote."""
    return words_from_storage(kind, *load_arrays(path), str(path))


def words_from_storage(
    kind: type[Any], arrays: Arrays, description: dict[str, Any], name: str
) -> Any:
    """Return the `BagOfVisualWords` that `words_to_storage` described.

    Parameters
    ----------
    name : name of the file in errors.
    """
    settings, encoder, examples = read_words(arrays, description, name)
    bag = kind(**{each.name: getattr(settings, each.name) for each in fields(settings)})
    bag.encoder_, bag.examples_ = encoder, examples
    bag.n_features_out_ = encoder.n_features
    return bag


def read_words(
    arrays: Arrays, description: dict[str, Any], name: str
) -> tuple[VisualWordSettings, ImageEncoder, PatchExamples]:
    """Return the checked settings, the encoder and the examples of stored visual words.

    Parameters
    ----------
    name : of the file they come from, for errors.
    """
    if description.get("kind") != WORDS_KIND:
        raise StorageError(f"{name} holds a {description.get('kind')!r}, not a {WORDS_KIND}.")
    if description.get("format") != WORDS_FORMAT:
        raise StorageError(
            f"{name} has format {description.get('format')!r}, this version reads {WORDS_FORMAT}."
        )
    with damage_errors(name):
        return _read_words(arrays, description, name)


def _read_words(
    arrays: Arrays, description: dict[str, Any], name: str
) -> tuple[VisualWordSettings, ImageEncoder, PatchExamples]:
    # The device is not stored: another machine may not have it.
    names = {each.name for each in fields(VisualWordSettings)} - {"device"}
    check_names(description["settings"], names)
    grid = description["settings"]["grid"]
    several = bool(grid) and isinstance(grid[0], list)
    grid = [tuple(each) for each in grid] if several else tuple(grid)
    # A file must not choose where its reader writes.
    settings = VisualWordSettings(**{**description["settings"], "grid": grid, "cache": None})
    check_optional_counts(vars(settings))
    expected, regions = settings.check()
    encoder = ImageEncoder.from_settings(description["encoder"], arrays, name)
    examples = PatchExamples.from_arrays(
        arrays, encoder.n_words, settings.n_examples, encoder.describer.example_side
    )
    if set(arrays) != {*encoder.arrays(), *examples.arrays()}:
        raise InvalidArgument(f"its arrays must be those of its encoder, got {sorted(arrays)}")
    found, sift = encoder.describer, encoder.sift_encoder
    if isinstance(found, SIFTDescriber):
        same = _is_same_sift(found, expected) and settings.features == "sift" and sift is None
        width = SIZE
    else:
        same = isinstance(found, NetworkDescriber) and settings.features == found.name
        width = encoder.codebook.centres_KD.shape[1]
    same &= settings.n_sift_words == encoder.count_learned()["n_sift_words"]
    if sift is not None:
        assert isinstance(sift.describer, SIFTDescriber)
        same &= _is_same_sift(sift.describer, expected)
        shape = settings.n_sift_words, SIZE
        check_shape("sift_centres", arrays["sift_centres"].shape, shape)
    same &= encoder.mirror == settings.mirror
    if not same or (encoder.regions, encoder.n_nearest) != (regions, settings.n_nearest):
        raise InvalidArgument("its encoder has other settings than its transformer")
    check_shape("centres", arrays["centres"].shape, (settings.n_words, width))
    return settings, encoder, examples


def _is_same_sift(found: SIFTDescriber, expected: SIFTDescriber) -> bool:
    """Return whether two describers differ at most in what is learned."""
    learned = replace(expected.sift, contrast_floor=found.sift.contrast_floor)
    return found.decoding == expected.decoding and found.sift == learned
