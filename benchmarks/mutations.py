"""Changes of files for fuzzing: bytes, JSON values and arrays, with all digests made again.

An attacker can compute digests, so a changed value must reach the checks behind them.
"""

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Generator = np.random.Generator

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 10**400, 0.5, -1e308, "", "x", "\udc80",
    "/tmp/x", "../../x", [], {}, [[]], [None], {"": None}, [1, "a"],
)  # fmt: skip
TYPES = ("int8", "uint8", "int32", "int64", "uint64", "float32", "float64", "bool")


def pick(rng: Generator, values: Any) -> Any:
    """Return one of some values."""
    return values[int(rng.integers(len(values)))]


def mutate_folder(folder: Path, rng: Generator) -> tuple[str, dict[Path, bytes]]:
    """Change a file of a folder, and those that must agree with it.

    Returns
    -------
    what was changed, and the former contents of the changed files.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    path = pick(rng, files)
    before = {path: path.read_bytes()}
    mutate = _mutator(path, before[path])
    if mutate is None or not rng.integers(4):
        what = mutate_bytes(path, before[path], rng)
    else:
        for other in path.parent.glob(f"{path.stem}.*"):  # The record of a shard.
            before[other] = other.read_bytes()
        what = mutate(path, rng)
        if not rng.integers(3):
            with suppress(Exception):  # The first change may have left nothing to change.
                what += f" and {mutate(path, rng)}"
    return f"{path.name}: {what}", before


def _mutator(path: Path, content: bytes) -> Callable[[Path, Generator], str] | None:
    """Return the function that changes the structure of a file; None if it has none."""
    if path.suffix == ".ids":
        return _mutate_shard
    if content[8:9] == b"{":
        return _mutate_arrays
    if path.suffix == ".sqlite":
        return _mutate_database
    return _mutate_json_file if path.suffix in (".json", ".jsonl") else None


def mutate_bytes(path: Path, content: bytes, rng: Generator) -> str:
    """Change, remove or add some bytes of a file."""
    data, way = bytearray(content), int(rng.integers(6))
    at = int(rng.integers(len(data))) if data else 0
    if way == 0 and data:
        data[at] ^= 1 << int(rng.integers(8))
    elif way == 1:
        del data[at:]
    elif way == 2:
        data[:8] = int(rng.choice([0, 1, len(data), 2**31, 2**62])).to_bytes(8, "little")
    elif way == 3:
        data[at : at + 8] = b"\xff" * 8
    elif way == 4:
        data += data[: at + 1]
    else:  # Deeply nested JSON.
        data[:] = b"[" * 100_000 if rng.integers(2) else b'{"a":' * 100_000
    path.write_bytes(data)
    return f"bytes {way} at {at}"


def mutate_json(value: Any, rng: Generator) -> str:
    """Change a value somewhere in a JSON object or list; return where."""
    where = []
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return "nothing"
        key = pick(rng, keys)
        where.append(str(key)[:40])
        below = value[key]
        if isinstance(below, dict | list) and below and rng.integers(5):
            value = below
            continue
        return f"{'.'.join(where)} {_change_value(value, key, keys, rng)}"


def _change_value(value: Any, key: Any, keys: list[Any], rng: Generator) -> str:
    """Change an entry of a JSON object or list."""
    way, below = int(rng.integers(10)), value[key]
    if way == 0:
        del value[key]
        return "removed"
    if way == 1 and isinstance(value, dict):
        value[f"{key}x"] = value.pop(key)
        return "renamed"
    if way == 2:
        for _ in range(400):
            below = [below]
        value[key] = below
        return "nested"
    if way == 3:  # Each value alone may be sound.
        other = pick(rng, keys)
        value[key], value[other] = value[other], value[key]
        return f"exchanged with {str(other)[:40]}"
    if way == 4 and type(below) in (int, float):
        value[key] = below + pick(rng, (1, -1, 2**16))
        return "shifted"
    if way == 5 and isinstance(value, list):
        value.append(below)
        return "repeated"
    value[key] = pick(rng, ODD_VALUES)
    return f"= {str(value[key])[:30]!r}"


def _mutate_json_file(path: Path, rng: Generator) -> str:
    description = json.loads(path.read_text())
    what = mutate_json(description, rng)
    path.write_text(json.dumps(description))
    return what


def _mutate_shard(path: Path, rng: Generator) -> str:
    """Change the ids of a shard of a corpus, and their checksum in its record."""
    from supdocnade.schema import load_arrays, save_arrays

    array = np.fromfile(path, "<i4")
    what = change_entries(array, rng)
    array.tofile(path)
    arrays, description = load_arrays(path.with_suffix(".safetensors"))
    description["ids"] = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    save_arrays(path.with_suffix(".safetensors"), arrays, description)
    return what


def _mutate_arrays(path: Path, rng: Generator) -> str:
    from supdocnade.schema import load_arrays, save_arrays

    arrays, description = load_arrays(path)
    if rng.integers(3) and description:
        what = mutate_json(description, rng)
    elif arrays:
        name = pick(rng, sorted(arrays))
        what = f"{name} {_mutate_array(arrays, name, rng)}"
    else:
        arrays["x"], what = np.zeros(3), "array added"
    save_arrays(path, arrays, description)
    return what


def _mutate_array(arrays: dict[str, Any], name: str, rng: Generator) -> str:
    array, way = arrays[name].copy(), int(rng.integers(9))
    if way == 0:
        del arrays[name]
        return "removed"
    if way == 1:
        with np.errstate(all="ignore"):
            array = array.astype(pick(rng, TYPES))
    elif way == 2:
        array = array.reshape(-1)[: max(array.size - 1, 0)]
    elif way == 3:
        array = array[None] if rng.integers(2) else array.reshape(-1)
    elif way == 4:
        arrays[f"{name}x"] = array
        return "copied"
    elif way == 5:  # Each array alone may be sound.
        other = pick(rng, sorted(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]
        return f"exchanged with {other}"
    elif way == 6 and array.ndim and len(array):
        length = len(array)  # All arrays of this length become shorter or longer together.
        step = int(pick(rng, (-1, 1)))
        for each in [each for each in arrays if arrays[each].shape[:1] == (length,)]:
            rows = np.arange(max(length + step, 0)) % max(length, 1)
            arrays[each] = np.ascontiguousarray(arrays[each][rows[: length + step]])
        return f"resized with all of its length by {step}"
    else:
        what = change_entries(array, rng)
        arrays[name] = np.ascontiguousarray(array)
        return what
    arrays[name] = np.ascontiguousarray(array)
    return f"way {way}"


def change_entries(array: NDArray[Any], rng: Generator) -> str:
    """Set an entry of an array to an extreme value, exchange two, or shift one."""
    if not array.size:
        return "nothing"
    flat = array.reshape(-1)
    at, other = (int(each) for each in rng.integers(array.size, size=2))
    way = int(rng.integers(4))
    if way == 0:
        flat[at], flat[other] = flat[other], flat[at]
        return f"entries {at} and {other} exchanged"
    values: list[Any] = [0, 1]
    if array.dtype.kind == "f":
        values = [np.finfo(array.dtype).min, np.finfo(array.dtype).max, 0, np.nan, np.inf]
    elif array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        near = [min(int(flat[at]) + 1, limits.max), max(int(flat[at]) - 1, limits.min)]
        values = [limits.min, limits.max, 0, array.size, *near]
        values = [each for each in values if limits.min <= each <= limits.max]
    flat[at] = pick(rng, values)
    if way == 1 and array.dtype.kind == "i" and array.size > 3:  # Differences overflow.
        limits = np.iinfo(array.dtype)
        flat[1:4] = limits.max, limits.min, -1
        return "entries 1 to 3 overflow"
    return f"entry {at} = {flat[at]}"


def _mutate_database(path: Path, rng: Generator) -> str:
    """Change a value, the tables or the settings of the database of an index."""
    from supdocnade.gallery.photo_index import SCHEMA

    if not rng.integers(10):
        other = path.with_name(path.name + pick(rng, ("-wal", "-shm", "-journal")))
        other.write_bytes(rng.bytes(int(rng.integers(40_000))))
        return f"{other.name} added"
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        if not rng.integers(6):
            statement = pick(rng, _STATEMENTS)
            connection.execute(statement)
            return str(statement)
        table, columns = pick(rng, [each for each in map(_TABLE.match, SCHEMA) if each]).groups()
        column = pick(rng, [each.split()[0] for each in columns.split(", ")])
        rows = [row for (row,) in connection.execute(f"SELECT rowid FROM {table}")]
        row = pick(rng, rows)
        query = f"SELECT {column} FROM {table} WHERE rowid = ?"
        ((value,),) = connection.execute(query, (row,))
        way = int(rng.integers(5))
        if way == 0:
            connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
            return f"{table} {row} removed"
        changed: Any = pick(rng, (None, "", "x", b"", b"x" * 9, -1, 0, 1, 2**62, 0.5, float("inf")))
        if way > 1 and isinstance(value, bytes) and value:
            changed = bytearray(value)
            at = int(rng.integers(len(changed)))
            if len(changed) >= 8 and len(changed) % 4 == 0 and way == 2:
                floats = np.frombuffer(changed, "<f4")
                change_entries(floats, rng)
            elif way == 3:
                changed[at] ^= 1 << int(rng.integers(8))
            else:
                del changed[at:]
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (changed, row))
        return f"{table}.{column} {row} = {str(changed)[:40]}"
    except sqlite3.Error as error:  # An earlier change may have left nothing to change.
        return f"nothing: {error}"
    finally:
        connection.close()


_TABLE = re.compile(r"CREATE TABLE (\w+) \((.*)\)")
_STATEMENTS = (
    "DROP TABLE pictures", "DROP INDEX places", "DELETE FROM about", "DELETE FROM photographs",
    "CREATE TABLE x (y)", "CREATE VIEW x AS SELECT 1", "PRAGMA user_version = 1",
    "PRAGMA journal_mode = DELETE", "ALTER TABLE about ADD x",
    "INSERT INTO about SELECT * FROM about", "INSERT INTO pictures VALUES (99, x'00')",
    "CREATE TRIGGER x AFTER INSERT ON about BEGIN SELECT 1; END",
    "UPDATE photographs SET id = id + 4000000000000000000",
    "UPDATE photographs SET words = zeroblob(2000000)", "PRAGMA encoding = 'UTF-16'",
)  # fmt: skip
