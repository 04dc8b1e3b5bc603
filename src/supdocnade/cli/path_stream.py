"""Names that come through a pipe, handed on as they come."""

import os
import queue
import stat
import sys
import threading
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path

from supdocnade.errors import StorageError

AT_ONCE = 1000
"""Lines that are handed on together at most, and lines that may wait for it."""

_CHUNK = 1 << 16


def listed_names(files_from: str) -> list[list[Path]] | Iterator[list[Path]]:
    """Return the names in a file, one a line, in whatever bytes the file system has.

    Of an ordinary file they are a list of one list, and of a pipe they come in parts.

    Parameters
    ----------
    files_from : name of a file or of a pipe; "-": standard input.
    """
    try:
        if files_from == "-":
            if sys.stdin is None:
                raise StorageError("- cannot be read: standard input is closed.")
            # Unbuffered: a thread that waits in a buffered file holds its lock, and the program
            # could not end.
            file = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 (closed when read)
        else:
            file = open(files_from, "rb", buffering=0)  # noqa: SIM115
        parts = _named(files_from, file)
        is_whole = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError as error:
        raise StorageError(f"{files_from} cannot be read: {error.strerror}.") from error
    return [[name for part in parts for name in part]] if is_whole else parts


def _named(files_from: str, file: RawIOBase) -> Iterator[list[Path]]:
    try:
        for lines in arriving_lines(file):
            yield [Path(os.fsdecode(line)) for line in lines]
    except OSError as error:
        raise StorageError(f"{files_from} cannot be read: {error.strerror}.") from error


def arriving_lines(file: RawIOBase, at_once: int = AT_ONCE) -> Iterator[list[bytes]]:
    """Yield the lines of a pipe: those that are there, and only if there are none the next one.

    So whoever writes one line and waits for its answer gets it, and many lines come in large
    parts. Empty lines are left out.

    Parameters
    ----------
    file : is read by a thread of its own, and closed at its end.
    at_once : lines of a part at most.
    """
    waiting: queue.Queue[bytes | OSError | None] = queue.Queue(at_once)
    threading.Thread(target=_read, args=(file, waiting), daemon=True).start()
    while True:
        part = [waiting.get()]
        while len(part) < at_once and not waiting.empty():
            part.append(waiting.get())
        lines = [line for line in part if isinstance(line, bytes)]
        if lines:
            yield lines
        if isinstance(part[-1], OSError):
            raise part[-1]
        if part[-1] is None:
            return


def _read(file: RawIOBase, waiting: "queue.Queue[bytes | OSError | None]") -> None:
    """Put lines into a queue, and in the end None, or what went wrong."""
    rest = b""
    try:
        with file:
            while chunk := file.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    _put(line, waiting)
    except OSError as error:
        waiting.put(error)
        return
    _put(rest, waiting)
    waiting.put(None)


def _put(line: bytes, waiting: "queue.Queue[bytes | OSError | None]") -> None:
    if line.strip():
        waiting.put(line.rstrip(b"\r"))
