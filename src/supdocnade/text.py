"""Text that comes from outside: files read line by line, and names made fit to be shown."""

import unicodedata
from pathlib import Path

from supdocnade.errors import StorageError

_SHOWN = 80
_UNPRINTABLE = ("Cc", "Cs", "Cn", "Co")


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, with or without a byte order mark, line ends as they are."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = f"the byte 0x{content[error.start]:02x}"
        raise StorageError(f"{path}, line {line}: expected text in UTF-8, got {byte}.") from error


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file without their ends, be they of Unix, Windows or old Macs.

    The empty line after a last line end is none.
    """
    lines = read_text(path).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def wrong_line(path: Path, line: int, expected: str, got: object) -> StorageError:
    """Return the error for a line that is not as expected; a long one is shown in part.

    >>> print(wrong_line(Path("tags.tsv"), 3, "one tab", "sea"))
    tags.tsv, line 3: expected one tab, got 'sea'.
    """
    shown = got if isinstance(got, str) and len(got) <= _SHOWN else str(got)[:_SHOWN]
    return StorageError(f"{path}, line {line}: expected {expected}, got {shown!r}.")


def plain_name(name: str) -> str:
    """Return a name on one line, without characters that cannot be printed.

    >>> plain_name("rue\\tde\\x00 l'Église")
    "rue de l'Église"
    """
    spaced = "".join(" " if letter.isspace() else letter for letter in name)
    kept = [letter for letter in spaced if unicodedata.category(letter) not in _UNPRINTABLE]
    return "".join(kept).strip() or "?"


def short_name(name: str, most: int) -> str:
    """Return a plain name, cut where it is long.

    >>> short_name("forest\\n" + "x" * 50, 10)
    'forest xx…'
    """
    plain = plain_name(name)
    return plain if len(plain) <= most else plain[: most - 1] + "…"
