"""Atomic file writes, locks, and arrays with a JSON description in one safetensors file.

The description and a digest of all contents are in the header. A header has at most 100 MB, so a
longer description is an array of its own. A list with one string per photograph is an array, too
(`pack_strings`). Reading never executes anything.
"""

import hashlib
import json
import os
import re
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from supdocnade.checks import available_memory
from supdocnade.errors import InvalidArgument, StorageError, UnwritableFile
from supdocnade.text import read_file

LOCK = ".lock"
"""File in a folder that its writer has locked."""

_KEY = "supdocnade"
"""Digest and description in a header: one text, since safetensors writes several in any order."""
Arrays = dict[str, NDArray[Any]]

MAX_HEADER_TEXT = 2**24
"""Longest description in a header, in bytes; quoting may double it."""


_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{8}\.partial", re.DOTALL)
_swept: set[Path] = set()


def write_atomically(path: Path, content: bytes, *, sync: bool = True) -> None:
    """Replace a file atomically: even after a kill, it is the old one or the new one.

    Every writer has a temporary file of its own, so of several writers the last one wins. The first
    write of a process to a folder removes the temporary files of writers that were killed.

    `sync` waits for the disk, so that the file also survives a power failure.
    """
    file = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent not in _swept:
            remove_leftovers(path.parent)
            _swept.add(path.parent)
        with _create_temporary(path) as file:
            with suppress(FileNotFoundError):
                os.chmod(file.name, path.stat().st_mode & 0o777)  # Permissions stay.
            file.write(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
            if sys.platform == "win32":
                file.close()  # An open file cannot be moved there.
            os.replace(file.name, path)  # While it is locked.
            if sync:
                sync_folder(path.parent)
    except OSError as error:
        reason = error.strerror or error
        raise UnwritableFile(f"{path} cannot be written: {reason}.") from error
    finally:
        if file is not None:
            with suppress(OSError):
                Path(file.name).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Wait until the names of files in a folder survive a power failure."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def temporary_target(name: str) -> str:
    """Return the name of the file that a temporary file becomes, or any other name unchanged.

    >>> temporary_target(".model.json.0a1b2c3d.partial"), temporary_target("model.json")
    ('model.json', 'model.json')
    """
    found = _TEMPORARY.fullmatch(name)
    return name if found is None else found[1]


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files whose writers were killed; a writer at work has locked its own."""
    if sys.platform == "win32":
        return
    try:
        with os.scandir(folder) as entries:
            names = [
                entry.name
                for entry in entries
                if _TEMPORARY.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
            ]
    except OSError:
        return
    for name in names:
        with suppress(OSError), open(folder / name, "r+b") as file:
            lock_file(file)
            (folder / name).unlink()


def _create_temporary(path: Path) -> IO[bytes]:
    """Return a new file beside a path, locked where the file system has locks."""
    name = path.name
    if len(os.fsencode(name)) > 230:  # File systems allow 255 bytes.
        name = hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest()
    while True:
        file = open(path.with_name(f".{name}.{secrets.token_hex(4)}.partial"), "xb")  # noqa: SIM115
        if sys.platform == "win32":
            return file
        try:
            lock_file(file)
            removed = os.fstat(file.fileno()).st_nlink == 0
        except OSError as error:
            removed = isinstance(error, BlockingIOError)
        if not removed:
            return file
        file.close()  # Another process took it for a leftover before it was locked.


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep other writers out of a folder; the lock ends with the process that holds it."""
    try:
        file = open(folder / LOCK, "ab")  # noqa: SIM115 (closed by the with below)
    except OSError as error:
        raise UnwritableFile(f"{folder} cannot be written: {error.strerror}.") from error
    with file:
        try:
            lock_file(file)
            is_locked = os.fstat(file.fileno()).st_nlink > 0  # Nobody removed it before.
        except OSError:
            is_locked = False
        if not is_locked:
            raise StorageError(f"{folder} cannot be written now: another process is writing to it.")
        yield


def lock_file(file: IO[bytes]) -> None:
    """Lock an open file until it is closed; `BlockingIOError` if another one has locked it."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def save_arrays(
    path: Path,
    arrays: Mapping[str, NDArray[Any]],
    description: Mapping[str, Any],
    *,
    sync: bool = True,
) -> None:
    """Write arrays and a JSON description to one file, atomically."""
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    text = json.dumps(description, allow_nan=False)
    metadata = {_KEY: f"{digest(contiguous, text)} {text}"}
    if len(text) > MAX_HEADER_TEXT:
        contiguous[_KEY] = np.frombuffer(metadata.pop(_KEY).encode(), np.uint8)
    write_atomically(path, save(contiguous, metadata=metadata), sync=sync)


def load_arrays(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Read a file that `save_arrays` wrote; a damaged or foreign one raises `StorageError`."""
    content = read_file(path, most=available_memory())
    try:
        arrays: Arrays = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        whole = arrays.pop(_KEY).tobytes().decode() if _KEY in arrays else None
        expected, _, text = (whole or header["__metadata__"][_KEY]).partition(" ")
        description = json.loads(text)
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise StorageError(f"{path} is damaged, or not a file of supdocnade: {error}.") from error
    if not isinstance(description, dict):
        raise StorageError(f"{path} is damaged: its description is not a JSON object.")
    if expected != digest(arrays, text):
        raise StorageError(f"{path} is damaged: its contents are not those that were written.")
    return arrays, description


def rises_to(last: int, ends: NDArray[Any]) -> bool:
    """Return True if offsets are a row of whole numbers that rise, or stay, from 0 to `last`.

    Neighbours are compared, since differences of numbers from a file may overflow.

    >>> import numpy as np
    >>> rises_to(3, np.array([0, 2, 2, 3])), rises_to(3, np.array([0, 2**63 - 1, -(2**63), -1, 3]))
    (True, False)
    """
    if ends.ndim != 1 or not ends.size or ends.dtype.kind not in "iu":
        return False
    return bool(ends[0] == 0 and ends[-1] == last and (ends[1:] >= ends[:-1]).all())


def pack_bytes(name: str, parts: Sequence[bytes]) -> Arrays:
    """Return byte strings as two arrays: all bytes, and where each begins and the last ends.

    The arrays are called `name_bytes` and `name_offsets`.
    """
    return {
        f"{name}_bytes": np.frombuffer(b"".join(parts), np.uint8),
        f"{name}_offsets": np.cumsum([0, *map(len, parts)], dtype=np.int64),
    }


def unpack_bytes(name: str, arrays: Mapping[str, NDArray[Any]]) -> list[bytes]:
    """Return what `pack_bytes` packed; anything else raises `KeyError` or `InvalidArgument`.

    Call it within `damage_errors`, which names the file.
    """
    content = _check_array(f"{name}_bytes", arrays, np.uint8).tobytes()
    offsets = _check_array(f"{name}_offsets", arrays, np.int64)
    if not rises_to(len(content), offsets):
        raise InvalidArgument(f"{name}_offsets must rise from 0 to {len(content)}")
    return [content[a:b] for a, b in pairwise(offsets.tolist())]


def pack_strings(name: str, strings: Sequence[str]) -> Arrays:
    """Return strings in UTF-8 as `pack_bytes` does."""
    # File names may be no valid Unicode.
    return pack_bytes(name, [each.encode(errors="surrogatepass") for each in strings])


def unpack_strings(name: str, arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return what `pack_strings` packed; anything else raises as `unpack_bytes` does."""
    try:
        return [each.decode(errors="surrogatepass") for each in unpack_bytes(name, arrays)]
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{name}_bytes must be UTF-8: {error}") from error


def pack_labels(name: str, labels: Sequence[str | None]) -> Arrays:
    """Return labels as arrays; None stays None, and equal labels are stored once.

    The arrays are called `name_numbers` and `name_values_...`.
    """
    number_of = _number_strings(label for label in labels if label is not None)
    return {
        f"{name}_numbers": np.array([-1 if x is None else number_of[x] for x in labels], np.int32),
        **pack_strings(f"{name}_values", list(number_of)),
    }


def unpack_labels(name: str, arrays: Mapping[str, NDArray[Any]]) -> list[str | None]:
    """Return what `pack_labels` packed; anything else raises as `unpack_bytes` does."""
    values = unpack_strings(f"{name}_values", arrays)
    numbers = _check_numbers(f"{name}_numbers", arrays, -1, len(values) - 1)
    return [None if number < 0 else values[number] for number in numbers.tolist()]


def pack_string_lists(name: str, lists: Sequence[Sequence[str] | None]) -> Arrays:
    """Return lists of strings as arrays; None stays None, and equal strings are stored once.

    The arrays are called `name_lengths`, `name_numbers` and `name_values_...`.
    """
    flat = [each for some in lists for each in some or ()]
    number_of = _number_strings(flat)
    return {
        f"{name}_lengths": np.array([-1 if x is None else len(x) for x in lists], np.int32),
        f"{name}_numbers": np.array([number_of[each] for each in flat], np.int32),
        **pack_strings(f"{name}_values", list(number_of)),
    }


def unpack_string_lists(name: str, arrays: Mapping[str, NDArray[Any]]) -> list[list[str] | None]:
    """Return what `pack_string_lists` packed; anything else raises as `unpack_bytes` does."""
    values = unpack_strings(f"{name}_values", arrays)
    lengths = _check_array(f"{name}_lengths", arrays, np.int32)
    numbers = _check_numbers(f"{name}_numbers", arrays, 0, len(values) - 1)
    ends = np.cumsum(np.maximum(lengths, 0), dtype=np.int64)
    if (lengths < -1).any() or len(numbers) != (ends[-1] if len(ends) else 0):
        raise InvalidArgument(f"{name}_lengths must add up to {len(numbers)}")
    flat = [values[number] for number in numbers.tolist()]
    pairs = zip(lengths.tolist(), ends.tolist(), strict=True)
    return [None if length < 0 else flat[end - length : end] for length, end in pairs]


def _number_strings(strings: Iterable[str]) -> dict[str, int]:
    """Return different strings with their numbers, in the order of their first occurrence."""
    return {each: number for number, each in enumerate(dict.fromkeys(strings))}


def _check_numbers(
    name: str, arrays: Mapping[str, NDArray[Any]], least: int, most: int
) -> NDArray[np.int32]:
    numbers = _check_array(name, arrays, np.int32)
    if len(numbers) and not (numbers.min() >= least and numbers.max() <= most):
        raise InvalidArgument(f"{name} must lie in {least} .. {most}")
    return numbers


def _check_array(name: str, arrays: Mapping[str, NDArray[Any]], dtype: type) -> NDArray[Any]:
    array = arrays[name]
    if array.dtype != dtype or array.ndim != 1:
        raise InvalidArgument(
            f"{name} must be a row of {dtype.__name__}, got {array.dtype} of shape {array.shape}"
        )
    return array


@contextmanager
def damage_errors(name: str) -> Iterator[None]:
    """Turn errors about the content of a file into a `StorageError` that names the file."""
    try:
        yield
    except StorageError:
        raise
    except (
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        OverflowError,
        RecursionError,
    ) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise StorageError(f"{name} is damaged: {what}.") from error


def digest(arrays: Mapping[str, NDArray[Any]], description: str) -> str:
    """Return a digest of the description and of the names, types, shapes and bytes of arrays."""
    found = hashlib.blake2b(description.encode(), digest_size=16)
    for name in sorted(arrays):
        array = arrays[name]
        found.update(repr((name, array.dtype.str, array.shape)).encode())
        found.update(np.ascontiguousarray(array).data if array.size else b"")
    return found.hexdigest()
