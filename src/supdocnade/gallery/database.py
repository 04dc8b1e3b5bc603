"""The file of an index: an SQLite database with a write-ahead log.

A change is a transaction: a process that is killed, or whose disk is full, leaves the index before
it or after it. A reader keeps its transaction, so it sees the index as it was when it was opened.

Anybody may have made the file. Its schema must be the one below, word by word, so it has no views,
triggers or functions; it is opened read-only, and what is read from it is checked.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from supdocnade.errors import StorageError, UnwritableFile

NAME, NEW_NAME = "supdocnade-index.sqlite", "supdocnade-index.partial"
SCHEMA = (
    "CREATE TABLE about (model TEXT, is_complete INTEGER)",
    "CREATE TABLE photographs (id INTEGER PRIMARY KEY, sort_key BLOB, folder BLOB, name BLOB, "
    "words BLOB, size INTEGER, time INTEGER, topics BLOB, probabilities BLOB, digest BLOB)",
    "CREATE TABLE pictures (id INTEGER PRIMARY KEY, picture BLOB)",
    "CREATE UNIQUE INDEX places ON photographs (sort_key, folder, name)",
)
"""Sorted by names. Features and probabilities are rows of float32; texts are blobs, too."""
TEXT = ("utf-8", "surrogatepass")
"""Encoding of texts, and its errors: the name of a file may be invalid Unicode."""

_APPLICATION, _FORMAT = 0x53444E47, 3
_PAGE_BYTES, _MAX_VALUE_BYTES, _WAIT_SECONDS = 16_384, 2**20, 60.0
_MAKE_AGAIN = "supdocnade index --replace makes it again"
_UNAVAILABLE = {
    *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY),
    *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN),
}
"""SQLite's codes for a file that may be intact, but cannot be read or written now."""


@contextmanager
def database_errors(folder: Path) -> Iterator[None]:
    """Turn errors of SQLite, and errors about values in an index, into a `StorageError`."""
    path = folder / NAME
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise UnwritableFile(f"{path} cannot be written: {error.strerror}.") from error
    except (sqlite3.Error, LookupError, TypeError, ValueError, AttributeError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _UNAVAILABLE:
            raise UnwritableFile(f"{path} cannot be read or written: {error}.") from error
        raise StorageError(f"{path} is damaged: {error}; {_MAKE_AGAIN}.") from error


def open_index(folder: Path, model: str, *, write: bool = False) -> sqlite3.Connection:
    """Open the index of a model, and begin to read it; any other file raises `StorageError`."""
    path, journal = folder / NAME, folder / f"{NAME}-journal"
    if not path.exists():
        raise StorageError(f"{folder} is not an index of supdocnade: {NAME} is missing.")
    with database_errors(folder):
        if journal.exists():  # SQLite would change the file, and remove files that it names.
            raise ValueError(f"{journal.name} is not a part of an index")
        connection = _connect(path, "rw" if write else "ro")
        try:
            connection.execute("BEGIN")
            connection.execute("SELECT * FROM sqlite_schema LIMIT 1")
        except sqlite3.OperationalError:  # In a read-only folder the log cannot be made.
            connection.close()
            if write or path.with_name(f"{NAME}-wal").exists():
                raise
            connection = _connect(path, "ro&immutable=1")
            connection.execute("BEGIN")
        try:
            _check(connection, folder, model)
        except BaseException:
            connection.close()
            raise
    return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=_WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    return connection


def _check(connection: sqlite3.Connection, folder: Path, model: str) -> None:
    ((application,),) = connection.execute("PRAGMA application_id")
    ((version,),) = connection.execute("PRAGMA user_version")
    if application != _APPLICATION:
        raise StorageError(f"{folder} is not an index of supdocnade.")
    if version != _FORMAT:
        raise StorageError(
            f"{folder} has format {version}, this version reads {_FORMAT}; {_MAKE_AGAIN}."
        )
    found = connection.execute("SELECT sql FROM sqlite_schema ORDER BY name LIMIT 9").fetchall()
    if found != [(statement,) for statement in SCHEMA]:
        raise ValueError("its tables are not those of an index")
    if connection.execute("SELECT model FROM about LIMIT 2").fetchall() != [(model,)]:
        raise StorageError(f"{folder} was made with another model; {_MAKE_AGAIN}.")


def count_bytes(folder: Path) -> int:
    """Return the size of an index, which what is read from it cannot exceed."""
    return sum(path.stat().st_size for path in folder.glob(f"{NAME}*"))


def create_index(folder: Path, model: str) -> sqlite3.Connection:
    """Return a new index of a model, which `put_in_place` makes the index of the folder."""
    _remove(folder, NEW_NAME, "", "-journal", "-wal", "-shm")
    connection = _connect(folder / NEW_NAME, "rwc")
    for name, value in {
        "page_size": _PAGE_BYTES,
        "auto_vacuum": "FULL",
        "application_id": _APPLICATION,
        "user_version": _FORMAT,
    }.items():
        connection.execute(f"PRAGMA {name}={value}")
    for statement in SCHEMA:
        connection.execute(statement)
    connection.execute("INSERT INTO about VALUES (?, 0)", (model,))
    return connection


def put_in_place(folder: Path, connection: sqlite3.Connection) -> sqlite3.Connection:
    """Replace the index of a folder by a new one; programs that read the old one keep it."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    _remove(folder, NAME, "-journal", "-wal", "-shm")  # They belong to the old index.
    os.replace(folder / NEW_NAME, folder / NAME)
    return _connect(folder / NAME, "rw")


def _remove(folder: Path, name: str, *endings: str) -> None:
    for ending in endings:
        (folder / f"{name}{ending}").unlink(missing_ok=True)
