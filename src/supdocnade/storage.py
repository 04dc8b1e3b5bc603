"""Atomic file writes, and arrays with a JSON description in one safetensors file.

The description and a digest of all contents are in the header. Reading never executes anything.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from supdocnade.errors import StorageError, UnwritableFile

_KEY, _DIGEST = "supdocnade", "supdocnade.digest"
Arrays = dict[str, NDArray[Any]]


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file atomically: even after a kill, it is the old one or the new one."""
    # One temporary name per target, so the next write replaces what a kill leaves behind.
    temporary = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            os.chmod(temporary, path.stat().st_mode & 0o777)  # Permissions stay.
        os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or error
        raise UnwritableFile(f"{path} cannot be written: {reason}.") from error
    finally:
        with suppress(OSError):  # Its folder may not exist.
            temporary.unlink(missing_ok=True)


def save_arrays(
    path: Path, arrays: Mapping[str, NDArray[Any]], description: Mapping[str, Any]
) -> None:
    """Write arrays and a JSON description to one file, atomically."""
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    text = json.dumps(description, allow_nan=False)
    metadata = {_KEY: text, _DIGEST: _digest(contiguous, text)}
    write_atomically(path, save(contiguous, metadata=metadata))


def load_arrays(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Read a file that `save_arrays` wrote; a damaged or foreign one raises `StorageError`."""
    content = read_file(path)
    try:
        arrays: Arrays = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        text, digest = header["__metadata__"][_KEY], header["__metadata__"][_DIGEST]
        description = json.loads(text)
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise StorageError(f"{path} is damaged, or not a file of supdocnade: {error}.") from error
    if not isinstance(description, dict):
        raise StorageError(f"{path} is damaged: its description is not a JSON object.")
    if digest != _digest(arrays, text):
        raise StorageError(f"{path} is damaged: its contents are not those that were written.")
    return arrays, description


def read_file(path: Path) -> bytes:
    """Return the contents of a regular file."""
    if path.exists() and not path.is_file():
        raise StorageError(f"{path} must be a file.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error


@contextmanager
def damage_errors(name: str) -> Iterator[None]:
    """Turn errors about the content of a file into a `StorageError` that names the file."""
    try:
        yield
    except StorageError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise StorageError(f"{name} is damaged: {what}.") from error


def _digest(arrays: Mapping[str, NDArray[Any]], description: str) -> str:
    """Return a digest of the description and of the names, types, shapes and bytes of arrays."""
    digest = hashlib.blake2b(description.encode(), digest_size=16)
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
