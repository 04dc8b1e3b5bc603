"""Names of photographs from a file or a pipe, in batches as they arrive."""

import os
import queue
import stat
import sys
import threading
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path

from supdocnade.errors import StorageError

MAX_LINES = 1000
"""Maximum number of lines per batch, and of lines read ahead."""

_CHUNK = 1 << 16

LineQueue = queue.Queue[bytes | OSError | None]


def read_paths(files_from: str) -> list[list[Path]] | Iterator[list[Path]]:
    """Return the paths in a file, one per line, in the encoding of the file system.

    The result is one batch in a list for a regular file, and an iterator over batches for a pipe.

    Parameters
    ----------
    files_from : name of a file or a pipe, or "-" for standard input.
    """
    try:
        if files_from == "-":
            if sys.stdin is None:
                raise StorageError("- cannot be read: standard input is closed.")
            # Unbuffered: a thread waiting in a buffered file would hold its lock and keep the
            # program from ending.
            file = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 (closed after reading)
        else:
            file = open(files_from, "rb", buffering=0)  # noqa: SIM115
        batches = _stream_paths(files_from, file)
        is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError as error:
        raise StorageError(f"{files_from} cannot be read: {error.strerror}.") from error
    return [[path for batch in batches for path in batch]] if is_regular else batches


def _stream_paths(files_from: str, file: RawIOBase) -> Iterator[list[Path]]:
    try:
        for batch in stream_lines(file):
            yield [Path(os.fsdecode(line)) for line in batch]
    except OSError as error:
        raise StorageError(f"{files_from} cannot be read: {error.strerror}.") from error


def stream_lines(file: RawIOBase, max_lines: int = MAX_LINES) -> Iterator[list[bytes]]:
    """Yield the lines of a pipe in batches of those available; wait only if there is none.

    So a program that writes one line and waits for its result gets it, and many lines come in
    large batches. Empty lines are skipped.

    Parameters
    ----------
    file : read by a separate thread, which closes it at its end.
    max_lines : maximum number of lines per batch.
    """
    lines: LineQueue = queue.Queue(max_lines)
    threading.Thread(target=_enqueue_lines, args=(file, lines), daemon=True).start()
    while True:
        items = [lines.get()]
        while len(items) < max_lines and not lines.empty():
            items.append(lines.get())
        batch = [item for item in items if isinstance(item, bytes)]
        if batch:
            yield batch
        if isinstance(items[-1], OSError):
            raise items[-1]
        if items[-1] is None:
            return


def _enqueue_lines(file: RawIOBase, output: LineQueue) -> None:
    """Put the lines of a file into a queue, and finally None or an error."""

    def put(line: bytes) -> None:
        if line.strip():
            output.put(line.rstrip(b"\r"))

    rest = b""
    try:
        with file:
            while chunk := file.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    put(line)
    except OSError as error:
        output.put(error)
        return
    put(rest)
    output.put(None)
