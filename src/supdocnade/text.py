"""Files from users, their text, and names cleaned for display, sorted and searched."""

import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from supdocnade.errors import StorageError

MAX_FILE_BYTES = 2**30
"""Largest photograph, list, metadata file, sidecar or text. A file that takes a few kilobytes on
the disk may have any length."""

MAX_QUOTED = 80
"""Characters of a line that an error message quotes."""

_UNPRINTABLE = ("Cc", "Cs", "Cn", "Co")


@contextmanager
def open_file(path: str | os.PathLike[str]) -> Iterator[BufferedReader]:
    """Open a regular file: a pipe would wait for ever, and a device has no end."""
    try:
        at_once = getattr(os, "O_NONBLOCK", 0)
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | at_once)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise StorageError(f"{path} must be a file.")
            yield file
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.") from error


def read_file(
    path: str | os.PathLike[str], start: int = 0, size: int = -1, *, most: int = MAX_FILE_BYTES
) -> bytes:
    """Return the contents of a regular file, or `size` bytes from `start`; at most `most`."""
    with open_file(path) as file:
        length = os.fstat(file.fileno()).st_size - start
        length = length if size < 0 else min(size, length)
        if length > most:
            raise StorageError(f"{path} is too large: {length} bytes; the limit is {most} bytes.")
        file.seek(start)
        return file.read(size)


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file without its byte order mark, line ends unchanged."""
    return decode_text(read_file(path), path)


def decode_text(content: bytes, path: str | Path) -> str:
    """Return the text of UTF-8 bytes without a byte order mark, line ends unchanged.

    Errors name the path.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = f"the byte 0x{content[error.start]:02x}"
        raise StorageError(f"{path}, line {line}: expected text in UTF-8, got {byte}.") from error


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file, see `split_lines`."""
    return split_lines(read_text(path))


def split_lines(text: str) -> list[str]:
    """Return the lines of a text without their ends (LF, CR LF or CR).

    A line end at the end of the text does not start another line.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def line_error(path: str | Path, line: int, expected: str, got: object) -> StorageError:
    """Return the error for an unexpected line; of a long one it quotes the beginning.

    >>> print(line_error(Path("metadata.csv"), 3, "2 cells", "sea"))
    metadata.csv, line 3: expected 2 cells, got 'sea'.
    """
    return StorageError(f"{path}, line {line}: expected {expected}, got {str(got)[:MAX_QUOTED]!r}.")


def clean_name(name: str) -> str:
    """Return a name on one line, without characters that cannot be printed.

    >>> clean_name("rue\\tde\\x00 l'Église")
    "rue de l'Église"
    """
    spaced = "".join(" " if letter.isspace() else letter for letter in name)
    printable = [letter for letter in spaced if unicodedata.category(letter) not in _UNPRINTABLE]
    return "".join(printable).strip() or "?"


def format_percent(share: float) -> str:
    """Return a share in percent, without decimals.

    >>> format_percent(0.943), format_percent(0.002), format_percent(0.0)
    ('94 %', '< 1 %', '0 %')
    """
    return "< 1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def shorten_name(name: str, max_length: int) -> str:
    """Return a clean name, shortened with an ellipsis if it is too long.

    >>> shorten_name("forest\\n" + "x" * 50, 10)
    'forest xx…'
    """
    clean = clean_name(name)
    return clean if len(clean) <= max_length else clean[: max_length - 1] + "…"


def fold_words(text: str) -> list[str]:
    """Return the words of a text for a search, without case, accents and punctuation.

    >>> fold_words("Été/Plage_À-Nice 12.JPG")
    ['ete', 'plage', 'a', 'nice', '12', 'jpg']
    """
    return "".join(letter if letter.isalnum() else " " for letter in _fold(text)).split()


def _fold(text: str) -> str:
    """Return a text without case and accents."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if unicodedata.category(letter) != "Mn")


def natural_key(path: str) -> tuple[str, str]:
    """Return a key that sorts paths by their parts without accents, and numbers by value.

    >>> sorted(["b/img10", "b/IMG2", "b c/img1", "a"], key=natural_key)
    ['a', 'b/IMG2', 'b/img10', 'b c/img1']
    """
    # A number sorts by its length first; no character sorts before the end of a part.
    numbered = re.sub(
        "0*([0-9]+)", lambda found: chr(ord("0") + len(found[1])) + found[1], _fold(path)
    )
    return numbered.replace("/", "\0"), path
