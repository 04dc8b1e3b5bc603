"""Visual words on disk: a safetensors file with a JSON description, checked before it is believed.

Format 1. Arrays: `centres`, `examples`, `n_examples`. The description: the settings of the
transformer and those of its encoder. A change of either raises `FORMAT`; readers of older formats
stay.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.encoding.encoder import ImageEncoder
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.shapes import check_shape
from supdocnade.storage import Arrays, load_arrays, save_arrays
from supdocnade.words.codebook import Codebook

FORMAT = 1
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
        "format": FORMAT,
        "kind": KIND,
        "settings": _plain_settings(bag.get_params(deep=False)),
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
    if description.get("format") != FORMAT:
        raise StorageError(
            f"{name} has format {description.get('format')!r}, this version reads {FORMAT}."
        )
    try:
        return _build(kind, arrays, description, name)
    except (InvalidArgument, KeyError, TypeError, AttributeError, OverflowError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise StorageError(f"{name} is damaged: {what}.") from error


def _build(kind: type[Any], arrays: Arrays, description: dict[str, Any], name: str) -> Any:
    settings = dict(description["settings"])
    settings["grid"] = _tuples(settings["grid"])
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


def _plain_settings(settings: dict[str, Any]) -> dict[str, Any]:
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


def _tuples(grid: Any) -> Any:
    """Return a grid, or a list of grids, as it was before JSON made lists of it."""
    if grid and isinstance(grid[0], list):
        return [tuple(each) for each in grid]
    return tuple(grid)
