"""Atomic writes of files, and locks of folders."""

import hashlib
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from supdocnade.errors import StorageError, UnwritableFile

LOCK = ".lock"
"""File in a folder that its writer has locked."""

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
                _keep_attributes(path, file.name)
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


def _keep_attributes(path: Path, replacement: str) -> None:
    """Give a new file the permissions of the old one, and on Linux its extended attributes."""
    os.chmod(replacement, path.stat().st_mode & 0o777)
    if sys.platform == "linux":
        for name in os.listxattr(path):
            with suppress(OSError):
                os.setxattr(replacement, name, os.getxattr(path, name))


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
