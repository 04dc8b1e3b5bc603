"""Metadata files, which give the photographs of a folder tags and may give them other classes.

A metadata file in the top folder is one of

- `metadata.jsonl`: one JSON object per line with `file_name` and optional `label` and `tags`;
- `metadata.csv`: a header line with `file_name` and optional `label` and `tags`, then one row per
  photograph.

`file_name` is a path below the top folder, with slashes or backslashes. `label` replaces the name
of the sub-folder; if it is empty or null, the class is unknown. `tags` is a list, or one string
separated by `|`. Empty tags mean that the photograph has none; null or missing ones are unknown.
Columns of `metadata.csv` may also be separated by semicolons or tabs, and their names may have
capitals; `tags` may be called `keywords`. Other columns and empty lines are ignored; the notes of
`parse_rows` name such columns.
"""

import csv
import io
import json
import ntpath
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

from supdocnade.errors import StorageError
from supdocnade.images.source import is_remote, join_address, read_address
from supdocnade.text import MAX_QUOTED, decode_text, line_error, split_lines

METADATA_NAMES: tuple[str, ...] = ("metadata.jsonl", "metadata.csv")

COLUMNS = ("file_name", "label", "tags")

OTHER_NAMES = {"label": "label", "tags": "tags", "keywords": "tags"}
"""Columns by their names in lower case."""

MAX_CELL = 2**31 - 1
"""Characters of a cell of a CSV file; the default of Python's reader is 131,072."""

MAX_NAME = 1000
"""Characters of a class or a tag; names are compared with each other, which takes long for more."""

SEPARATOR = "|"
"""Separates the tags in a cell of a table; no class has it in its name."""


def distinct_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return stripped tags without empty ones and repeats, in order of first appearance.

    >>> distinct_tags(["sky", " sea", "", "sky"])
    ('sky', 'sea')
    """
    # One string for a tag of many photographs.
    return tuple(dict.fromkeys(sys.intern(tag) for tag in map(str.strip, tags) if tag))


ONE_CLASS = "one class as label (several names of a photograph are its tags)"
"""What is expected where there are several labels."""

Row = tuple[int, dict[str, Any] | StorageError]
"""Line number, and columns or the error of an invalid line."""

LineErrors = dict[int, StorageError]
"""Line number and error of invalid lines."""


class MetadataEntry(NamedTuple):
    """Class and tags of one photograph in a metadata file."""

    line: int
    has_label: bool
    """False if the name of the folder is the class."""
    label: str | None
    tags: tuple[str, ...] | None


def find_metadata(root: str | os.PathLike[str], present: Sequence[str]) -> str | None:
    """Return the metadata file of a folder, None if there is none.

    Parameters
    ----------
    present : names of the metadata files in the folder and below it.

    Raises
    ------
    StorageError : there are several, or one in a sub-folder, which would be ignored silently.
    """
    root = os.fspath(root)
    for name in present:
        if name not in METADATA_NAMES:
            path = join_address(root, name)
            raise StorageError(f"{path} must be in {root}: metadata of sub-folders is not read.")
    found = [name for name in METADATA_NAMES if name in present]
    if len(found) > 1:
        expected = ", ".join(METADATA_NAMES)
        raise StorageError(f"{root} must hold one of {expected}, got {', '.join(found)}.")
    return join_address(root, found[0]) if found else None


def summarize_errors(errors: LineErrors) -> StorageError:
    """Return the error of the first invalid line, with the number of others."""
    first, n_others = errors[min(errors)], len(errors) - 1
    if not n_others:
        return first
    lines = "another line is" if n_others == 1 else f"{n_others} other lines are"
    return StorageError(
        f"{str(first).rstrip('.')}; {lines} wrong, too: supdocnade check lists them."
    )


def read_rows(path: str | os.PathLike[str]) -> Iterator[Row]:
    """Yield the rows of a metadata file as they are read."""
    path = os.fspath(path)
    content = decode_text(read_address(path), path)
    yield from json_rows(path, content) if path.endswith(".jsonl") else csv_rows(path, content)


def parse_rows(
    path: str, rows: Iterable[Row], errors: LineErrors
) -> tuple[dict[str, MetadataEntry], list[str]]:
    """Return the entries of valid lines, and notes; the errors of others are added to `errors`.

    The notes name columns that are not read, and a list that is read as one tag.
    """
    entries: dict[str, MetadataEntry] = {}
    unknown: dict[str, None] = {}
    single: str | None = None
    for line, row in rows:
        where = f"{path}, line {line}"
        try:
            if isinstance(row, StorageError):
                raise row
            named = {OTHER_NAMES.get(key.lower(), key): cell for key, cell in row.items()}
            row = {**named, **{key: row[key] for key in COLUMNS if key in row}}
            unknown |= dict.fromkeys(key for key in row if key not in COLUMNS)
            single = _list_in_tag(row.get("tags")) if single is None else single
            name = _parse_name(path, line, row.get("file_name"))
            if name in entries:
                raise _repeated_name(path, line, name, entries[name].line)
            label = parse_label(where, row.get("label"))
            tags = parse_tags(where, row.get("tags"))
        except StorageError as error:
            errors[line] = error
        else:
            entries[name] = MetadataEntry(line, "label" in row, label, tags)
    notes, file = [], PurePosixPath(path).name
    if unknown:
        names = ", ".join(unknown)
        notes.append(f"{file}: not read: {names}; the columns are {', '.join(COLUMNS)}.")
    if single is not None:
        notes.append(f"{file}: {single!r} is read as one tag; several tags are separated by |.")
    return entries, notes


def _list_in_tag(tags: object) -> str | None:
    """Return tags that contain a separator and were probably meant as several."""
    is_list = isinstance(tags, str) and "|" not in tags and re.search("[,;]", tags)
    return str(tags) if is_list else None


def match_names(
    path: str, entries: dict[str, MetadataEntry], names: Sequence[str], errors: LineErrors
) -> dict[str, MetadataEntry]:
    """Return the entries of a metadata file by the names of photographs on disk.

    A name that is not on disk matches one with other Unicode composition, as file systems of
    macOS write it, and with slashes for the backslashes of Windows. Others stay as they are. The
    errors of names that match twice are added to `errors`.
    """
    on_disk = set(names)
    composed: dict[str, str] = {}
    matched: dict[str, MetadataEntry] = {}
    for given, entry in entries.items():
        name = given
        if name not in on_disk:
            composed = composed or {unicodedata.normalize("NFC", each): each for each in names}
            forms = (given, PureWindowsPath(given).as_posix())
            keys = [unicodedata.normalize("NFC", form) for form in forms]
            name = next((composed[key] for key in keys if key in composed), given)
        if name in matched:
            errors[entry.line] = _repeated_name(path, entry.line, name, matched[name].line)
        else:
            matched[name] = entry
    return matched


def _repeated_name(path: str, line: int, name: str, earlier: int) -> StorageError:
    return line_error(path, line, "each file once", f"{name}, which line {earlier} names")


def json_rows(path: str, content: str) -> Iterator[Row]:
    """Yield the objects of a text with one JSON object per line."""
    for line, text in enumerate(split_lines(content), start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        yield line, row if isinstance(row, dict) else line_error(path, line, "a JSON object", text)


def csv_rows(path: str, text: str, column: str = "file_name") -> Iterator[Row]:
    """Yield the rows of a table with commas, semicolons or tabs, and a column of this name."""
    first_line, folded = text.lstrip().partition("\n")[0], column.lower()
    separator = ","
    for other in ";\t":  # Semicolons: Excel, where the comma is the decimal point.
        if folded in [cell.strip().strip('"').lower() for cell in first_line.split(other)]:
            separator = other
    header: list[str] = []
    line = 1
    limit = csv.field_size_limit(MAX_CELL)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        for cells in reader:
            # A quoted cell may span several lines; a row has the number of its first line.
            start, line = line, reader.line_num + 1
            if not any(cells):
                continue
            if not header:
                header = [cell.strip() for cell in cells]
                if column not in header:
                    header = [column if name.lower() == folded else name for name in header]
                if header.count(column) != 1 or len(set(header)) < len(header):
                    expected = f"different names of columns, one of them {column}"
                    raise line_error(path, start, expected, separator.join(cells))
                continue
            if len(cells) == len(header):
                yield start, dict(zip(header, cells, strict=True))
            else:
                expected = f"{len(header)} cells"
                yield start, line_error(path, start, expected, separator.join(cells))
    except csv.Error as error:
        yield line, StorageError(f"{path}, line {line}: expected a line of CSV, got {error}.")
    finally:
        csv.field_size_limit(limit)


def _parse_name(path: str, line: int, name: object) -> str:
    """Return the normalised path of a photograph, which must lie below the folder."""
    if not isinstance(name, str) or not name.strip():
        raise line_error(path, line, "the name of a file as file_name", name)
    given = PurePosixPath(name.strip())
    is_absolute = name.strip().startswith(("/", "\\")) or ntpath.splitdrive(name.strip())[0]
    if is_absolute or ".." in given.parts:
        folder = path.rpartition("/")[0] if is_remote(path) else os.path.dirname(path)
        raise line_error(path, line, f"a path below {folder}", name)
    return given.as_posix()


def parse_label(where: str, label: object) -> str | None:
    """Return the class that a string or an integer gives, None if it is empty.

    `where` is the file and the line, for errors.
    """
    if isinstance(label, int) and not isinstance(label, bool):
        return str(label)
    if isinstance(label, list) or (isinstance(label, str) and SEPARATOR in label):
        raise _value_error(where, ONE_CLASS, label)
    if label is not None and not isinstance(label, str):
        raise _value_error(where, "a string as label", label)
    if label and len(label) > MAX_NAME:
        raise _value_error(where, f"a label of at most {MAX_NAME} characters", label)
    return sys.intern(label.strip()) or None if label else None


def parse_tags(where: str, tags: object) -> tuple[str, ...] | None:
    """Return the tags that a list or a string separated by `|` gives, None if they are unknown.

    `where` is the file and the line, for errors.
    """
    if tags is None:
        return None
    names = tags.split(SEPARATOR) if isinstance(tags, str) else tags
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _value_error(where, "a list of strings, or one separated by |, as tags", tags)
    if any(len(name) > MAX_NAME for name in names):
        raise _value_error(where, f"tags of at most {MAX_NAME} characters", tags)
    return distinct_tags(names)


def _value_error(where: str, expected: str, got: object) -> StorageError:
    return StorageError(f"{where}: expected {expected}, got {str(got)[:MAX_QUOTED]!r}.")
