"""Files whose schema is a record class: `save` writes a record, `load` reads and checks it.

A record is a dataclass or a named tuple. The annotations of its fields say what a file must hold:

=========================== ====================================================================
annotation                  in the file
=========================== ====================================================================
bool, int, float, str       JSON; numbers are finite, and integers have 64 bits
X | None, A | B             JSON of the first that fits; records differ by their fields
tuple[X, ...], list[X]      a JSON list; so is a Sequence[X]
tuple[A, B]                 a JSON list of this length
dict[str, X], dict[int, X]  a JSON object
Mapping[Any, X]             a JSON list of pairs
a record                    a JSON object; its arrays are named `field/array`
an abstract class           that of one of its subclasses, with the `name` of that as `kind`
Any                         any JSON value, which the record checks itself
an array (`array`)          an array of one type and finite; None if it may be missing
dict of arrays (`array`)    arrays named `field/key`
a sparse matrix (`array`)   arrays of its shape, rows, columns and values: whole numbers
bytes in a tuple (`array`)  arrays of all bytes, and of where each begins and the last ends
=========================== ====================================================================

A file is in the format safetensors. The JSON of a record and a digest of everything are an array of
bytes, too, since a header has at most 100 MB.

A file must have every field that is not `unstored`, and nothing else; of settings, all but those of
a run. Conditions on several fields
are checked by the `__post_init__` of the record, which raises `InvalidArgument`. A file that
violates any of this raises a `StorageError` that names the file; a record that does is not saved.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from inspect import isabstract
from itertools import pairwise
from pathlib import Path
from reprlib import repr as shorten
from types import GenericAlias, NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors
from scipy import sparse

from supdocnade.checks import available_memory, check_choice, check_count, check_range
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.storage import write_atomically
from supdocnade.text import read_file

FORMAT = 7
"""Of all files that `save` writes."""

MAX_INT = 2**63
MAX_COLUMNS = 2**31
"""Of a sparse matrix."""

Record = TypeVar("Record")

_SCALARS = {
    bool: (bool, np.bool_),
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
    str: (str,),
}

_KEY = "supdocnade"
"""Array of the digest and the JSON of a record."""

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class _Rule:
    """What a field says beyond its annotation."""

    limits: Mapping[str, float]
    choices: tuple[str, ...] | None = None
    axes: str | None = None
    dtype: Any = None
    """In the file."""
    dtype_in_memory: Any = None
    """If it differs."""
    is_array: bool = False


_Field = tuple[str, Any, _Rule]
"""Name, annotation and rule of a field."""


def stored(
    default: Any = MISSING,
    *,
    default_factory: Any = MISSING,
    axis: str | None = None,
    **limits: float,
) -> Any:
    """Return a field of a record, with conditions on its values.

    Parameters
    ----------
    default, default_factory : as for `dataclasses.field`.
    axis : letter of the axis of the record's arrays whose length a list has.
    limits : `least`, `above`, `most` or `below`, of every number in the field.
    """
    metadata = {"rule": _Rule(limits, axes=axis)}
    return field(default=default, default_factory=default_factory, metadata=metadata)


def array(
    axes: str | None = None,
    dtype: Any = np.float64,
    *,
    stored_as: Any = None,
    default: Any = MISSING,
    **limits: float,
) -> Any:
    """Return a field of a record that is stored as one or several arrays.

    Parameters
    ----------
    axes : a letter for each axis; equal letters have equal lengths in a record. By default, the
        record checks the shape.
    dtype : type of the numbers; None allows any.
    stored_as : type of the numbers in the file, if it differs.
    limits : as for `stored`, of every number.
    """
    rule = _Rule(limits, axes=axes, dtype=dtype, is_array=True)
    if stored_as is not None:
        rule = replace(rule, dtype=stored_as, dtype_in_memory=dtype)
    return field(default=default, metadata={"rule": rule})


def unstored(**arguments: Any) -> Any:
    """Return a field that a file does not have; it needs a default, as for `dataclasses.field`."""
    return field(**arguments, metadata={"rule": None})


def save(path: Path, kind: str, record: Any, *, sync: bool = True) -> None:
    """Write a record to a file, atomically.

    Parameters
    ----------
    kind : name of what the file holds, which `load` compares.
    sync : as for `write_atomically`.
    """
    save_arrays(path, *to_file(kind, record), sync=sync)


def load(path: Path, kind: str, record_type: type[Record]) -> Record:
    """Read a record that `save` wrote; a damaged or foreign file raises `StorageError`."""
    return from_file(kind, record_type, *load_arrays(path), str(path))


def to_file(kind: str, record: Any) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the description of a file with a record."""
    converter = _Converter({}, is_reading=False)
    with save_errors(kind):
        description = converter.record("", record, type(record))
    return converter.arrays, {"format": FORMAT, "kind": kind, **description}


def fingerprint(record: Any) -> str:
    """Return a digest of all that a file with a record would hold."""
    arrays, description = to_file(type(record).__name__, record)
    return digest(arrays, json.dumps(description, sort_keys=True))


@contextmanager
def save_errors(kind: str) -> Iterator[None]:
    """Say in an `InvalidArgument` that something of this kind cannot be saved."""
    try:
        yield
    except (InvalidArgument, TypeError, ValueError) as error:
        raise InvalidArgument(f"this {kind} cannot be saved: {error}") from error


def from_file(
    kind: str, record_type: type[Record], arrays: Arrays, description: dict[str, Any], name: str
) -> Record:
    """Return the record that `to_file` described.

    Parameters
    ----------
    name : of the file, for errors.
    """
    rest = dict(description)
    found, found_format = rest.pop("kind", None), rest.pop("format", None)
    if found != kind:
        raise StorageError(f"{name} holds a {found!r}, not a {kind}.")
    if found_format != FORMAT:
        raise StorageError(f"{name} has format {found_format!r}, this version reads {FORMAT}.")
    with damage_errors(name):
        converter = _Converter(dict(arrays), is_reading=True)
        record: Record = converter.record("", rest, record_type)
        if converter.arrays:
            raise InvalidArgument(f"it must not hold an array {min(converter.arrays)!r}")
    return record


def from_json(record_type: type[Record], value: Any) -> Record:
    """Return a record without arrays, given a JSON value; others raise `InvalidArgument`."""
    record: Record = _Converter({}, is_reading=True).record("", value, record_type)
    return record


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
    contiguous[_KEY] = _as_array(f"{digest(contiguous, text)} {text}".encode())
    write_atomically(path, save_tensors(contiguous), sync=sync)


def load_arrays(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Read a file that `save_arrays` wrote; a damaged or foreign one raises `StorageError`."""
    content = read_file(path, most=available_memory())
    try:
        arrays: Arrays = load_tensors(content)
        expected, _, text = arrays.pop(_KEY).tobytes().decode().partition(" ")
        description = json.loads(text)
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise StorageError(f"{path} is damaged, or not a file of supdocnade: {error}.") from error
    if not isinstance(description, dict):
        raise StorageError(f"{path} is damaged: its description is not a JSON object.")
    if expected != digest(arrays, text):
        raise StorageError(f"{path} is damaged: its contents are not those that were written.")
    return arrays, description


def digest(arrays: Mapping[str, NDArray[Any]], description: str) -> str:
    """Return a digest of the description and of the names, types, shapes and bytes of arrays."""
    found = hashlib.blake2b(description.encode(), digest_size=16)
    for name in sorted(arrays):
        array = arrays[name]
        found.update(repr((name, array.dtype.str, array.shape)).encode())
        found.update(np.ascontiguousarray(array).data if array.size else b"")
    return found.hexdigest()


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


@cache
def _fields_of(record_type: Any) -> tuple[list[_Field], list[_Field]]:
    """Return the fields of a record that are JSON, and those that are arrays."""
    hints = get_type_hints(record_type)
    if not is_dataclass(record_type):
        return [(name, hints[name], _Rule({})) for name in record_type._fields], []
    found = [
        (each.name, hints[each.name], rule)
        for each in fields(record_type)
        if (rule := _rule_of(each.metadata)) is not None
    ]
    return [f for f in found if not f[2].is_array], [f for f in found if f[2].is_array]


def _rule_of(metadata: Mapping[str, Any]) -> _Rule | None:
    """Return the rule of a field or of a setting, or None if a file does not have it."""
    if "rule" in metadata:
        rule: _Rule | None = metadata["rule"]
        return rule
    if metadata.get("group") == "run":
        return None
    return _Rule(metadata.get("limits", {}), metadata.get("choices") or None)


def _is_record(kind: Any) -> bool:
    return is_dataclass(kind) or (isinstance(kind, type) and hasattr(kind, "_fields"))


def _describes(value: Any, record_type: Any) -> bool:
    """Return whether a value is a record, or its description with the names of all fields."""
    if not isinstance(value, dict):
        return type(value) is record_type
    return _is_record(record_type) and value.keys() == {
        name for name, *_ in _fields_of(record_type)[0]
    }


def _subclasses(kind: type[Any]) -> dict[str, type[Any]]:
    """Return the concrete subclasses of an abstract class by their names in files."""
    found: dict[str, type[Any]] = {}
    for each in kind.__subclasses__():
        found |= _subclasses(each) if isabstract(each) else {each.name: each}
    return found


class _Converter:
    """Converts records to plain values and arrays, or back, and checks them.

    Parameters
    ----------
    arrays : that are written; of those that are read, the ones that are left.
    """

    def __init__(self, arrays: Arrays, *, is_reading: bool):
        self.arrays, self.is_reading = arrays, is_reading

    def record(self, place: str, value: Any, record_type: Any) -> Any:
        """Return a record, or its description, with the arrays of the record."""
        values, arrays = _fields_of(record_type)
        prefix = f"{place}." if place else ""
        if self.is_reading:
            names = {name for name, *_ in values}
            if not isinstance(value, dict) or value.keys() != names:
                found = sorted(value) if isinstance(value, dict) else shorten(value)
                raise InvalidArgument(f"{place or 'it'} must have {sorted(names)}, got {found}")
            given = value
        else:
            given = {name: getattr(value, name) for name, *_ in (*values, *arrays)}
        sizes: dict[str, int] = {}
        converted = {
            name: self.value(prefix + name, given[name], kind, rule) for name, kind, rule in values
        }
        for name, kind, rule in arrays:
            key = prefix.replace(".", "/") + name
            converted[name] = self._array(key, given.get(name), kind, rule, sizes)
        for name, _, rule in values:
            if rule.axes is not None and given[name] is not None:
                _check_size(prefix + name, rule.axes, len(given[name]), sizes)
        if self.is_reading:
            return record_type(**converted)
        return {name: converted[name] for name, *_ in values}

    def value(self, place: str, value: Any, kind: Any, rule: _Rule) -> Any:
        """Return a plain value as the kind says."""
        origin, parts = get_origin(kind), get_args(kind)
        if kind is Any:
            return plain(value, place)
        if kind in _SCALARS:
            return _scalar(place, value, kind, rule)
        if origin in (Union, UnionType):
            return self._union(place, value, parts, rule)
        if origin in (tuple, list, Sequence):
            return self._list(place, value, kind, rule)
        if origin in (dict, Mapping):
            return self._dict(place, value, parts, rule)
        if isabstract(kind):
            return self._subclass(place, value, kind)
        if _is_record(kind):
            return self.record(place, value, kind)
        raise InvalidArgument(f"{place} must be a plain value, got {shorten(value)}")

    def _union(self, place: str, value: Any, kinds: tuple[Any, ...], rule: _Rule) -> Any:
        if value is None and NoneType in kinds:
            return None
        others = [kind for kind in kinds if kind is not NoneType]
        if len(others) > 1 and any(map(_is_record, others)):
            others = [kind for kind in others if _describes(value, kind)] or others
        if len(others) == 1:
            return self.value(place, value, others[0], rule)
        for kind in others:
            try:
                return self.value(place, value, kind, rule)
            except InvalidArgument:
                continue
        names = " or ".join(str(kind) if get_args(kind) else kind.__name__ for kind in others)
        raise InvalidArgument(f"{place} must be {names}, got {shorten(value)}")

    def _dict(self, place: str, value: Any, parts: tuple[Any, ...], rule: _Rule) -> Any:
        if parts[0] is Any:
            if not self.is_reading and isinstance(value, Mapping):
                value = [*value.items()]
            kind = GenericAlias(list, (GenericAlias(tuple, parts),))
            pairs = self._list(place, value, kind, rule)
            return dict(pairs) if self.is_reading else pairs
        if not isinstance(value, Mapping):
            raise InvalidArgument(f"{place} must be an object, got {shorten(value)}")
        keys = {key: key for key in value}
        if parts[0] is int:
            keys = {key: int(key) if self.is_reading else str(key) for key in value}
        if not all(isinstance(each, str) for each in (keys if self.is_reading else keys.values())):
            raise InvalidArgument(f"{place} must be an object, got {shorten(value)}")
        return {
            keys[key]: self.value(f"{place}.{key}", each, parts[1], rule)
            for key, each in value.items()
        }

    def _subclass(self, place: str, value: Any, kind: Any) -> Any:
        """Return a record of a subclass of an abstract class."""
        known = _subclasses(kind)
        if not self.is_reading:
            return {"kind": value.name, **self.record(place, value, type(value))}
        if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
            raise InvalidArgument(f"{place} must have a kind, got {shorten(value)}")
        check_choice(f"{place}.kind", value["kind"], tuple(known))
        rest = {name: each for name, each in value.items() if name != "kind"}
        return self.record(place, rest, known[value["kind"]])

    def _list(self, place: str, value: Any, kind: Any, rule: _Rule) -> Any:
        parts = get_args(kind)
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, list | tuple):
            raise InvalidArgument(f"{place} must be a list, got {shorten(value)}")
        if get_origin(kind) is not tuple or parts[1:] == (...,):
            parts = (parts[0],) * len(value)
        if len(value) != len(parts):
            raise InvalidArgument(f"{place} must have {len(parts)} values, got {shorten(value)}")
        if {*parts} == {*map(type, value)} == {str} and rule.choices is None:
            items: list[Any] = [*map(sys.intern, value)]  # One string for equal ones.
        else:
            items = [
                self.value(f"{place}[{number}]", each, part, rule)
                for number, (each, part) in enumerate(zip(value, parts, strict=True))
            ]
        return tuple(items) if self.is_reading and get_origin(kind) is tuple else items

    def _array(self, key: str, value: Any, kind: Any, rule: _Rule, sizes: dict[str, int]) -> Any:
        if get_origin(kind) is dict:
            return self._array_dict(key, value, rule)
        is_optional = NoneType in get_args(kind)
        if is_optional:
            kind = next(each for each in get_args(kind) if each is not NoneType)
        if get_origin(kind) is tuple:
            value = self._byte_strings(key, value)
            _check_size(key, str(rule.axes), len(value), sizes)
            return value
        if kind is sparse.csr_array:
            return self._matrix(key, value, rule, sizes)
        if self.is_reading:
            value = self.arrays.pop(key, None)
        if value is None:
            if not is_optional:
                raise InvalidArgument(f"it must have an array {key}")
            return None
        if not self.is_reading and rule.dtype_in_memory is not None:
            with np.errstate(over="ignore"):  # A number that is too large is not finite.
                value = np.asarray(value, rule.dtype)
        _check_array(key, value, rule, sizes)
        if not self.is_reading:
            self.arrays[key] = value
        elif rule.dtype_in_memory is not None:
            value = value.astype(rule.dtype_in_memory)
        return value

    def _array_dict(self, key: str, value: Any, rule: _Rule) -> Arrays:
        prefix = f"{key}/"
        if self.is_reading:
            names = [name for name in self.arrays if name.startswith(prefix)]
            value = {name.removeprefix(prefix): self.arrays.pop(name) for name in names}
        for name, each in value.items():
            _check_array(prefix + name, each, rule, {})
            if not self.is_reading:
                self.arrays[prefix + name] = each
        found: Arrays = value
        return found

    def _byte_strings(self, key: str, value: Any) -> Any:
        """Return a tuple of byte strings."""
        names = f"{key}_bytes", f"{key}_offsets"
        if not self.is_reading:
            ends = np.cumsum([0, *map(len, value)], dtype=np.int64)
            self.arrays |= dict(zip(names, (_as_array(b"".join(value)), ends), strict=True))
            return value
        content, ends = self._bytes(names[0]), self.arrays.pop(names[1])
        if ends.dtype != np.int64 or not rises_to(len(content), ends):
            raise InvalidArgument(f"{names[1]} must rise from 0 to {len(content)}")
        return tuple(content[first:last] for first, last in pairwise(ends.tolist()))

    def _bytes(self, name: str) -> bytes:
        found = self.arrays.pop(name)
        _check_array(name, found, _Rule({}, axes="N", dtype=np.uint8), {})
        return found.tobytes()

    def _matrix(self, key: str, value: Any, rule: _Rule, sizes: dict[str, int]) -> Any:
        """Return a sparse matrix; its numbers have the smallest type in a file."""
        names = [f"{key}/{part}" for part in ("shape", "ends", "columns", "values")]
        if not self.is_reading:
            smallest = [
                each.astype(np.min_scalar_type(int(each.max(initial=0))))
                for each in (value.indices, value.data)
            ]
            parts = [np.array(value.shape), value.indptr.astype(np.int64), *smallest]
            self.arrays |= dict(zip(names, parts, strict=True))
            return value
        shape, ends, columns, values = (self.arrays.pop(name) for name in names)
        _check_array(names[0], shape, _Rule({}, dtype=np.int64, axes="A"), {"A": 2})
        _check_array(names[1], ends, _Rule({}, dtype=np.int64, axes="E"), {"E": int(shape[0]) + 1})
        below = min(int(shape[1]), MAX_COLUMNS)
        lengths: dict[str, int] = {}
        for name, each, limits in (
            (names[2], columns, {"least": 0, "below": below}),
            (names[3], values, rule.limits),
        ):
            _check_array(name, each, _Rule(limits, axes="N", dtype=each.dtype), lengths)
            if each.dtype.kind != "u":
                raise InvalidArgument(f"{name} must be whole numbers from 0, got {each.dtype}")
        if not rises_to(len(columns), ends):
            raise InvalidArgument(f"{names[1]} must rise from 0 to {len(columns)}")
        for letter, size in zip(rule.axes or "", shape.tolist(), strict=False):
            _check_size(key, letter, size, sizes)
        parts = [values.astype(rule.dtype), columns.astype(np.int32), ends]
        return sparse.csr_array(tuple(parts), tuple(shape.tolist()))


def _as_array(content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(content, np.uint8)


def _scalar(place: str, value: Any, kind: type[Any], rule: _Rule) -> Any:
    is_odd_bool = kind is not bool and isinstance(value, bool)
    if is_odd_bool or not isinstance(value, _SCALARS[kind]):
        raise InvalidArgument(f"{place} must be of type {kind.__name__}, got {shorten(value)}")
    if kind in (int, float):
        if isinstance(value, int | np.integer) and abs(int(value)) >= MAX_INT:
            raise InvalidArgument(f"{place} must be a number of 64 bits, got {shorten(value)}")
        if kind is int and rule.limits.keys() == {"least"}:
            check_count(place, value, least=int(rule.limits["least"]))
        check_range(place, value, **rule.limits)
    elif rule.choices is not None:
        check_choice(place, value, rule.choices)
    return sys.intern(str(value)) if kind is str else kind(value)


def plain(value: Any, place: str) -> Any:
    """Return a value as JSON knows it, numpy's scalars and arrays included."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(each, f"{place}[{number}]") for number, each in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            _scalar(f"a key of {place}", key, str, _Rule({}))
        return {str(key): plain(each, f"{place}.{key}") for key, each in value.items()}
    if value is None:
        return None
    for kind in _SCALARS:
        if isinstance(value, _SCALARS[kind]):
            return _scalar(place, value, kind, _Rule({}))
    raise InvalidArgument(f"{place} must be a plain value, got {shorten(value)}")


def _check_array(key: str, value: Any, rule: _Rule, sizes: dict[str, int]) -> None:
    if not isinstance(value, np.ndarray) or (rule.dtype and value.dtype != rule.dtype):
        found = value.dtype if isinstance(value, np.ndarray) else shorten(value)
        raise InvalidArgument(f"{key} must be {np.dtype(rule.dtype).name}, got {found}")
    if rule.axes is not None:
        if value.ndim != len(rule.axes):
            expected = len(rule.axes)
            raise InvalidArgument(f"{key} must have {expected} axes, got shape {value.shape}")
        for letter, size in zip(rule.axes, value.shape, strict=True):
            _check_size(key, letter, size, sizes)
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise InvalidArgument(f"{key} must be finite")
    if rule.limits and value.size:
        for extreme in (value.min(), value.max()):
            check_range(key, extreme.item(), **rule.limits)


def _check_size(key: str, letter: str, size: int, sizes: dict[str, int]) -> None:
    if sizes.setdefault(letter, size) != size:
        raise InvalidArgument(
            f"the length {size} of {key} must be {sizes[letter]}, that of axis {letter} elsewhere"
        )
