"""Files whose schema is a record class: `save` writes a record, `load` reads and checks it.

A record is a dataclass or a named tuple. The annotations of its fields say what a file must hold:

=========================== ====================================================================
annotation                  in the file
=========================== ====================================================================
bool, int, float, str       JSON; numbers are finite, and integers have 64 bits
X | None, A | B             JSON of the first that fits
tuple[X, ...], list[X]      a JSON list
tuple[A, B]                 a JSON list of this length
dict[str, X]                a JSON object
a record                    a JSON object; its arrays are named `field/array`
Any                         any JSON value, which the record checks itself
an array (`array`)          an array of one type and finite; None if it may be missing
dict of arrays (`array`)    arrays named `field/key`
=========================== ====================================================================

A file must have every field and nothing else. Conditions on several fields are checked by the
`__post_init__` of the record, which raises `InvalidArgument`. A file that violates any of this
raises a `StorageError` that names the file; a record that does is not saved.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from reprlib import repr as shorten
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from supdocnade.checks import check_choice, check_range
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.storage import Arrays, damage_errors, load_arrays, save_arrays

FORMAT = 1
"""Of all files that `save` writes."""

MAX_INT = 2**63

Record = TypeVar("Record")

_SCALARS = {
    bool: (bool, np.bool_),
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
    str: (str,),
}


@dataclass(frozen=True)
class _Rule:
    """What a field says beyond its annotation."""

    limits: Mapping[str, float]
    choices: tuple[str, ...] | None = None
    axes: str | None = None
    dtype: Any = None
    finite: bool = True


class _Field(NamedTuple):
    name: str
    kind: Any
    rule: _Rule


def stored(
    default: Any = MISSING,
    *,
    choices: tuple[str, ...] | None = None,
    axis: str | None = None,
    **limits: float,
) -> Any:
    """Return a field of a record, with conditions on its values.

    Parameters
    ----------
    choices : values that a string may have.
    axis : letter of the axis of the record's arrays whose length a list has.
    limits : `least`, `above`, `most` or `below`, of every number in the field.
    """
    return field(default=default, metadata={"rule": _Rule(limits, choices, axis)})


def array(
    axes: str | None = None, dtype: Any = np.float64, *, finite: bool = True, default: Any = MISSING
) -> Any:
    """Return a field of a record that is an array, or a dictionary of arrays.

    Parameters
    ----------
    axes : a letter for each axis; equal letters have equal lengths in a record. By default, the
        record checks the shape.
    dtype : type of the numbers; None allows any.
    finite : whether all numbers must be finite.
    """
    rule = _Rule({}, axes=axes, dtype=dtype, finite=finite)
    return field(default=default, metadata={"rule": rule, "array": True})


def save(path: Path, kind: str, record: Any) -> None:
    """Write a record to a file, atomically.

    Parameters
    ----------
    kind : name of what the file holds, which `load` compares.
    """
    save_arrays(path, *to_file(kind, record))


def load(path: Path, kind: str, record_type: type[Record]) -> Record:
    """Read a record that `save` wrote; a damaged or foreign file raises `StorageError`."""
    return from_file(kind, record_type, *load_arrays(path), str(path))


def to_file(kind: str, record: Any) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the description of a file with a record."""
    converter = _Converter({}, is_reading=False)
    with save_errors(kind):
        description = converter.record("", record, type(record))
    return converter.arrays, {"format": FORMAT, "kind": kind, **description}


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


@cache
def _fields_of(record_type: Any) -> tuple[list[_Field], list[_Field]]:
    """Return the fields of a record that are JSON, and those that are arrays."""
    hints = get_type_hints(record_type)
    if not is_dataclass(record_type):
        return [_Field(name, hints[name], _Rule({})) for name in record_type._fields], []
    values: list[_Field] = []
    arrays: list[_Field] = []
    for each in fields(record_type):
        rule = each.metadata.get("rule", _Rule({}))
        where = arrays if "array" in each.metadata else values
        where.append(_Field(each.name, hints[each.name], rule))
    return values, arrays


def _is_record(kind: Any) -> bool:
    return is_dataclass(kind) or (isinstance(kind, type) and hasattr(kind, "_fields"))


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
            names = {each.name for each in values}
            if not isinstance(value, dict) or value.keys() != names:
                found = sorted(value) if isinstance(value, dict) else shorten(value)
                raise InvalidArgument(f"{place or 'it'} must have {sorted(names)}, got {found}")
            given = value
        else:
            given = {each.name: getattr(value, each.name) for each in (*values, *arrays)}
        sizes: dict[str, int] = {}
        converted = {
            each.name: self.value(prefix + each.name, given[each.name], each.kind, each.rule)
            for each in values
        }
        for name, kind, rule in arrays:
            key = prefix.replace(".", "/") + name
            converted |= {name: self._array(key, given.get(name), kind, rule, sizes)}
        for name, _, rule in values:
            if rule.axes is not None and given[name] is not None:
                _check_size(prefix + name, rule.axes, len(given[name]), sizes)
        if self.is_reading:
            return record_type(**converted)
        return {each.name: converted[each.name] for each in values}

    def value(self, place: str, value: Any, kind: Any, rule: _Rule) -> Any:
        """Return a plain value as the kind says."""
        origin, parts = get_origin(kind), get_args(kind)
        if kind is Any:
            return plain(value, place)
        if kind in _SCALARS:
            return _scalar(place, value, kind, rule)
        if origin in (Union, UnionType):
            return self._union(place, value, parts, rule)
        if origin in (tuple, list):
            return self._list(place, value, kind, rule)
        if origin in (dict, Mapping):
            if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
                raise InvalidArgument(f"{place} must be an object, got {shorten(value)}")
            return {k: self.value(f"{place}.{k}", v, parts[1], rule) for k, v in value.items()}
        if _is_record(kind):
            return self.record(place, value, kind)
        raise InvalidArgument(f"{place} must be a plain value, got {shorten(value)}")

    def _union(self, place: str, value: Any, kinds: tuple[Any, ...], rule: _Rule) -> Any:
        if value is None and NoneType in kinds:
            return None
        others = [kind for kind in kinds if kind is not NoneType]
        if not self.is_reading and type(value) in others:
            return self.value(place, value, type(value), rule)
        if len(others) == 1:
            return self.value(place, value, others[0], rule)
        for kind in others:
            try:
                return self.value(place, value, kind, rule)
            except InvalidArgument:
                continue
        names = " or ".join(str(kind) if get_args(kind) else kind.__name__ for kind in others)
        raise InvalidArgument(f"{place} must be {names}, got {shorten(value)}")

    def _list(self, place: str, value: Any, kind: Any, rule: _Rule) -> Any:
        parts = get_args(kind)
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, list | tuple):
            raise InvalidArgument(f"{place} must be a list, got {shorten(value)}")
        if get_origin(kind) is list or parts[1:] == (...,):
            parts = (parts[0],) * len(value)
        if len(value) != len(parts):
            raise InvalidArgument(f"{place} must have {len(parts)} values, got {shorten(value)}")
        items = [
            self.value(f"{place}[{number}]", each, part, rule)
            for number, (each, part) in enumerate(zip(value, parts, strict=True))
        ]
        return tuple(items) if self.is_reading and get_origin(kind) is tuple else items

    def _array(self, key: str, value: Any, kind: Any, rule: _Rule, sizes: dict[str, int]) -> Any:
        if get_origin(kind) is dict:
            return self._array_dict(key, value, rule)
        if self.is_reading:
            value = self.arrays.pop(key, None)
        if value is None:
            if NoneType not in get_args(kind):
                raise InvalidArgument(f"it must have an array {key}")
            return None
        _check_array(key, value, rule, sizes)
        if not self.is_reading:
            self.arrays[key] = value
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


def _scalar(place: str, value: Any, kind: type[Any], rule: _Rule) -> Any:
    is_odd_bool = kind is not bool and isinstance(value, bool)
    if is_odd_bool or not isinstance(value, _SCALARS[kind]):
        raise InvalidArgument(f"{place} must be of type {kind.__name__}, got {shorten(value)}")
    if kind in (int, float):
        if isinstance(value, int | np.integer) and abs(int(value)) >= MAX_INT:
            raise InvalidArgument(f"{place} must be a number of 64 bits, got {shorten(value)}")
        check_range(place, value, **rule.limits)
    elif rule.choices is not None:
        check_choice(place, value, rule.choices)
    return kind(value)


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
    if rule.finite and value.dtype.kind == "f" and not np.isfinite(value).all():
        raise InvalidArgument(f"{key} must be finite")


def _check_size(key: str, letter: str, size: int, sizes: dict[str, int]) -> None:
    if sizes.setdefault(letter, size) != size:
        raise InvalidArgument(
            f"the length {size} of {key} must be {sizes[letter]}, that of axis {letter} elsewhere"
        )
