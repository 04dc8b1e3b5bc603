"""Estimators on disk: one safetensors file with a JSON description, checked before it is believed.

Format 1. Arrays: the parameters of the network by their names, and `leaf_of_word` with a tree. The
description: what `describe` writes. A change of either raises `FORMAT`; readers of older formats
stay. Nothing that is read is ever executed, and nothing is built before everything was checked.
"""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from supdocnade.checks import check_count, check_shape
from supdocnade.errors import InvalidArgument, StorageError, SupDocNADEError
from supdocnade.model.config import DocNADEConfig, SupDocNADEConfig
from supdocnade.model.network import DocNADENetwork, SupDocNADENetwork
from supdocnade.seeding import check_seed
from supdocnade.storage import Arrays, load_arrays, save_arrays
from supdocnade.training.checkpoint import set_parameters
from supdocnade.training.history import History
from supdocnade.tree import WordTree
from supdocnade.visual_words.codebook import Codebook
from supdocnade.visual_words.encoder import ImageEncoder

FORMAT = 1

CLASS_KINDS = {"bool": np.bool_, "int": np.int64, "float": np.float64, "str": np.str_}


def estimator_to_storage(estimator: Any) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a fitted estimator, and everything else about it."""
    network: DocNADENetwork = estimator.network_
    arrays = {name: p.detach().cpu().numpy() for name, p in network.named_parameters()}
    arrays |= {name: buffer.cpu().numpy() for name, buffer in network.named_buffers()}
    try:
        description = describe(estimator)
        # What cannot be read back is not written.
        _build(type(estimator), arrays, json.loads(json.dumps(description, allow_nan=False)))
    except (SupDocNADEError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise InvalidArgument(f"this model cannot be saved: {error}") from error
    return arrays, description


def save_estimator(estimator: Any, path: str | Path) -> None:
    """Write a fitted estimator, atomically."""
    save_arrays(Path(path), *estimator_to_storage(estimator))


def describe(estimator: Any) -> dict[str, Any]:
    """Return everything about a fitted estimator that is not an array."""
    classes = getattr(estimator, "classes_", None)
    names, words = estimator.annotation_names_, getattr(estimator, "feature_names_in_", None)
    return {
        "format": FORMAT,
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
        "classes": None if classes is None else _plain_classes(classes),
        "history": estimator.history_.to_json(),
    }


def _plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: _plain(value) for name, value in settings.items()}
    if plain["checkpoint"] is not None:
        plain["checkpoint"] = str(plain["checkpoint"])
    # A generator's state is not kept; the seed it gave is.
    given = plain["random_state"]
    plain["random_state"] = int(given) if isinstance(given, int) else None
    plain["verbose"], plain["early_stopping"] = int(plain["verbose"]), bool(plain["early_stopping"])
    if isinstance(plain.get("class_weight"), Mapping):
        pairs = plain["class_weight"].items()
        plain["class_weight"] = [[_plain(name), _plain(weight)] for name, weight in pairs]
    return plain


def _plain(value: Any) -> Any:
    """Return a numpy scalar as the Python one that JSON knows."""
    return value.item() if isinstance(value, np.generic) else value


def _plain_classes(classes: NDArray[Any]) -> dict[str, Any]:
    values = classes.tolist()
    for kind in ("bool", "int", "float", "str"):
        if all(type(value).__name__ == kind for value in values):
            return {"kind": kind, "values": values}
    raise InvalidArgument(
        f"classes must be all of bool, int, float or str to be saved, got {values[:3]} ..."
    )


def load_estimator(kind: type[Any], path: str | Path) -> Any:
    """Read an estimator of a kind that `save_estimator` wrote."""
    return estimator_from_storage(kind, *load_arrays(Path(path)), str(path))


def estimator_from_storage(
    kind: type[Any], arrays: Arrays, description: dict[str, Any], name: str
) -> Any:
    """Return the estimator that `estimator_to_storage` described; check everything first.

    Parameters
    ----------
    name : of the file it comes from, for errors.
    """
    stored, expected = description.get("format"), FORMAT
    if stored != expected:
        raise StorageError(f"{name} has format {stored!r}, this version reads {expected}.")
    if description.get("kind") != kind.__name__:
        raise StorageError(
            f"{name} holds a {description.get('kind')!r}, not a {kind.__name__}: use its load."
        )
    try:
        return _build(kind, arrays, description)
    except (InvalidArgument, KeyError, TypeError, AttributeError, OverflowError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise StorageError(f"{name} is damaged: {what}.") from error


def _build(kind: type[Any], arrays: Arrays, description: dict[str, Any]) -> Any:
    estimator = _estimator(kind, description["settings"])
    n_words = check_count("n_words", description["n_words"], least=1)
    n_annotations = check_count("n_annotations", description["n_annotations"])
    word_names = _names("word_names", description["word_names"], n_words)
    annotation_names = _names("annotation_names", description["annotation_names"], n_annotations)
    history = _history(description["history"])
    seed = check_seed("seed", description["seed"])
    supervised = hasattr(estimator, "generative_weight")
    if (description["classes"] is None) == supervised:
        raise InvalidArgument("its classes do not go with its kind")
    if not isinstance(description["network"], dict):
        raise InvalidArgument("its network is no JSON object")
    config = (SupDocNADEConfig if supervised else DocNADEConfig)(**description["network"])
    if (config.n_visual_words, config.n_annotation_words) != (n_words, n_annotations):
        raise InvalidArgument("its network does not go with its words and annotations")
    if isinstance(config, SupDocNADEConfig):
        estimator.classes_ = _classes(description["classes"])
        if config.n_classes != len(estimator.classes_):
            raise InvalidArgument("its network does not go with its classes")
    estimator._trainer_config(seed, estimator.max_epochs, estimator.schedule)
    estimator._check_settings()
    estimator._learned(_network(config, arrays, estimator.backend), annotation_names, seed)
    estimator.n_features_in_, estimator.history_ = n_words, history
    if word_names is not None:
        estimator.feature_names_in_ = np.array(word_names, object)
    return estimator


def _estimator(kind: type[Any], settings: Any) -> Any:
    """Return an unfitted estimator with the stored settings, each of the type it must have."""
    if not isinstance(settings, dict):
        raise InvalidArgument("its settings are no JSON object")
    expected = set(kind().get_params(deep=False))
    if settings.keys() != expected:
        odd = sorted(settings.keys() ^ expected)
        raise InvalidArgument(f"its settings lack or add {odd}")
    plain = dict(settings)
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
    for name, kinds in (("checkpoint", str), ("n_jobs", int), ("random_state", int)):
        if plain[name] is not None and type(plain[name]) is not kinds:
            raise InvalidArgument(f"{name} must be a {kinds.__name__} or null")
    if not isinstance(plain["backend"], str):
        raise InvalidArgument(f"backend must be a str, got {plain['backend']!r}")
    return kind(**plain)


def _names(what: str, given: Any, count: int) -> list[str] | None:
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise InvalidArgument(f"{what} must be strings")
    if len(given) != count:
        raise InvalidArgument(f"{what} must be {count}, got {len(given)}")
    return given


def _classes(given: Any) -> NDArray[Any]:
    kind, values = given["kind"], given["values"]
    if kind not in CLASS_KINDS or not isinstance(values, list) or not values:
        raise InvalidArgument("its classes cannot be read")
    if not all(type(value).__name__ == kind for value in values):
        raise InvalidArgument(f"classes must all be of type {kind}")
    classes: NDArray[Any] = np.array(values, CLASS_KINDS[kind])
    if not np.array_equal(np.unique(classes), classes):
        raise InvalidArgument("classes must be sorted, each of them once")
    return classes


def _history(given: Any) -> History:
    history = History.from_json(given)

    def is_number(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool)

    numbers = list(history.seconds)
    for record in history.epochs:
        numbers += [record.epoch, record.learning_rate, record.loss, *record.validation.values()]
    best_is_fine = history.best_epoch is None or (
        type(history.best_epoch) is int and 1 <= history.best_epoch <= len(history.epochs)
    )
    if not (
        all(map(is_number, numbers)) and best_is_fine and isinstance(history.stopped_early, bool)
    ):
        raise InvalidArgument("its history cannot be read")
    return history


def _network(config: DocNADEConfig, arrays: Arrays, backend: str) -> DocNADENetwork:
    """Return a network with the stored parameters, all of them checked."""
    tree, parameters = None, dict(arrays)
    if config.output == "tree":
        leaves = parameters.pop("leaf_of_word")
        if leaves.dtype != np.int32 or leaves.shape != (config.n_words,):
            raise InvalidArgument(
                f"leaf_of_word must be {config.n_words} int32, got {leaves.shape} {leaves.dtype}"
            )
        tree = WordTree(leaves)
    n_rows = config.n_words - 1 if tree is not None else config.n_words
    shapes: dict[str, tuple[int, ...]] = {
        "word_embedding": (config.n_words, config.n_topics),
        "hidden_bias": (config.n_topics,),
        "node_weight": (n_rows, config.n_topics),
        "node_bias": (n_rows,),
    }
    if isinstance(config, SupDocNADEConfig):
        shapes["label_weight"] = (config.n_classes, config.n_topics)
        shapes["label_bias"] = (config.n_classes,)
    if parameters.keys() != shapes.keys():
        raise InvalidArgument(f"its arrays are {sorted(parameters)}, expected {sorted(shapes)}")
    for name, shape in shapes.items():
        array = parameters[name]
        if array.shape != shape or array.dtype != np.float32:
            raise InvalidArgument(
                f"{name} must be {shape} float32, got {array.shape} {array.dtype}"
            )
        if not np.isfinite(array).all():
            raise InvalidArgument(f"{name} must be finite")
    network: DocNADENetwork
    if isinstance(config, SupDocNADEConfig):
        network = SupDocNADENetwork(config, tree, backend=backend)
    else:
        network = DocNADENetwork(config, tree, backend=backend)
    set_parameters(network, {name: torch.from_numpy(a) for name, a in parameters.items()})
    return network


# Visual words on disk: a safetensors file with a JSON description, checked before it is believed.
#
# Format 1. Arrays: `centres`, `examples`, `n_examples`. The description: the settings of the
# transformer and those of its encoder. A change of either raises `WORDS_FORMAT`; readers of older
# formats stay.

WORDS_FORMAT = 1
KIND = "BagOfVisualWords"

_ARRAYS = {"centres": np.float32, "examples": np.uint8, "n_examples": np.int32}


def words_to_storage(bag: Any) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a fitted transformer, and everything else about it."""
    arrays = {
        "centres": bag.encoder_.codebook.centres_KD,
        "examples": bag.examples_,
        "n_examples": bag.n_examples_per_word_,
    }
    description = {
        "format": WORDS_FORMAT,
        "kind": KIND,
        "settings": _plain_word_settings(bag.get_params(deep=False)),
        "encoder": bag.encoder_.settings(),
    }
    return arrays, description


def save_words(bag: Any, path: Path) -> None:
    """Write a fitted transformer, atomically."""
    arrays, description = words_to_storage(bag)
    save_arrays(path, arrays, description)


def load_words(kind: type[Any], path: Path) -> Any:
    """Read a transformer that `save_words` wrote."""
    arrays, description = load_arrays(path)
    return words_from_storage(kind, arrays, description, str(path))


def words_from_storage(
    kind: type[Any], arrays: Arrays, description: dict[str, Any], name: str
) -> Any:
    """Return the transformer that `words_to_storage` described; check everything first.

    Parameters
    ----------
    name : of the file it comes from, for errors.
    """
    if description.get("kind") != KIND:
        raise StorageError(f"{name} holds a {description.get('kind')!r}, not a {KIND}.")
    if description.get("format") != WORDS_FORMAT:
        raise StorageError(
            f"{name} has format {description.get('format')!r}, this version reads {WORDS_FORMAT}."
        )
    try:
        return _build_words(kind, arrays, description, name)
    except (InvalidArgument, KeyError, TypeError, AttributeError, OverflowError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise StorageError(f"{name} is damaged: {what}.") from error


def _build_words(kind: type[Any], arrays: Arrays, description: dict[str, Any], name: str) -> Any:
    settings = dict(description["settings"])
    settings["grid"] = _word_tuples(settings["grid"])
    bag = kind(**settings)
    expected, regions = bag._checked_settings()
    if {key: array.dtype.type for key, array in arrays.items()} != _ARRAYS:
        raise InvalidArgument(f"its arrays must be {sorted(_ARRAYS)} of their types")
    encoder = ImageEncoder.from_settings(description["encoder"], Codebook(arrays["centres"]), name)
    found = encoder.description
    same_sift = (found.sift.step, found.sift.patch_sizes, found.sift.window, found.sift.root)
    wanted = expected.sift
    if (
        same_sift != (wanted.step, wanted.patch_sizes, wanted.window, wanted.root)
        or found.decoding != expected.decoding
        or found.keep_constant != expected.keep_constant
        or encoder.regions != regions
    ):
        raise InvalidArgument("its encoder has other settings than its transformer")
    width = 128 * (3 if found.decoding.color else 1)
    check_shape("centres", arrays["centres"].shape, (bag.n_words, width))
    side = max(wanted.patch_sizes)
    shape = (bag.n_words, bag.n_examples, side, side, 3)
    check_shape("examples", arrays["examples"].shape, shape)
    check_shape("n_examples", arrays["n_examples"].shape, (bag.n_words,))
    _check_counts(arrays["n_examples"], bag.n_examples)
    bag.encoder_ = encoder
    bag.examples_, bag.n_examples_per_word_ = arrays["examples"], arrays["n_examples"]
    bag.n_features_out_ = encoder.n_features
    return bag


def _check_counts(counts: NDArray[Any], most: int) -> None:
    if counts.min() < 0 or counts.max() > most:
        raise InvalidArgument(
            f"n_examples must lie in 0 .. {most}, got {counts.min()} .. {counts.max()}"
        )


def _plain_word_settings(settings: dict[str, Any]) -> dict[str, Any]:
    plain = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in settings.items()
    }
    plain["grid"] = np.asarray(plain["grid"]).tolist()
    if not isinstance(plain["patch_size"], int):
        plain["patch_size"] = np.asarray(plain["patch_size"]).tolist()
    for name in ("root_sift", "color", "keep_constant", "upscale"):
        plain[name] = bool(plain[name])
    # A generator's state is not kept.
    given = plain["random_state"]
    plain["random_state"] = int(given) if isinstance(given, int) else None
    plain["cache"] = None if plain["cache"] is None else str(plain["cache"])
    # Another machine may have no such device.
    del plain["device"]
    return plain


def _word_tuples(grid: Any) -> Any:
    """Return a grid, or a list of grids, as it was before JSON made lists of it."""
    if grid and isinstance(grid[0], list):
        return [tuple(each) for each in grid]
    return tuple(grid)
