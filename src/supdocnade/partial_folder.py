"""Folders that are written while the process may be killed."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from supdocnade.errors import StorageError, UnwritableFile

LOCK = ".lock"


class PartialFolder:
    """The folder `OUTPUT.partial`, which keeps the work of an unfinished run.

    A run writes whole files to it, by `storage.write_atomically`, and discards it when its output
    is complete; a run that was killed is resumed from these files. One process at a time holds its
    lock.
    """

    def __init__(self, output: Path):
        self.folder = output.with_name(f"{output.name}.partial")

    @property
    def exists(self) -> bool:
        """True if an earlier run left its work."""
        return self.folder.exists()

    def create(self) -> None:
        """Create the folder unless it exists."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnwritableFile(f"{self.folder} cannot be created: {error.strerror}.") from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other runs out of the folder; the lock ends with the process that holds it."""
        with lock_folder(self.folder):
            yield

    def discard(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


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
        except OSError as error:
            raise StorageError(
                f"{folder} cannot be written now: another process is writing to it."
            ) from error
        yield


def lock_file(file: IO[bytes]) -> None:
    """Lock an open file until it is closed; `BlockingIOError` if another one has locked it."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
