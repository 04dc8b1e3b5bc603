"""The files that give classes and tags to the photographs of a folder.

One of three may stand in the top folder:

- `metadata.jsonl`: a JSON object a line, with `file_name` and optional `label` and `tags`.
- `metadata.csv`: a header line with `file_name` and optional `label` and `tags`, then a line each.
- `tags.tsv`: `file<TAB>tag|tag` a line; a first line `file<TAB>tags` is a header.

`file_name` is a path below the top folder, with slashes. `label` takes the place of the folder's
name; empty or null, the class is not known. `tags` is a list, or one string separated by `|`;
empty, the photograph has none; null or missing, they are not known. Other columns are not read.
Empty lines are passed over.
"""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

from supdocnade.datasets.lines import read_lines, read_text, wrong_line
from supdocnade.datasets.records import distinct_tags
from supdocnade.errors import StorageError
from supdocnade.shapes import check_choice

NAMES: tuple[str, ...] = ("metadata.jsonl", "metadata.csv", "tags.tsv")
"""Of the files that are looked for."""

_TSV_HEADERS = ("file", "file_name", "filename", "image", "path")

Row = tuple[int, dict[str, Any]]
"""The number of a line, and its columns."""


class Entry(NamedTuple):
    """What one line says of a photograph."""

    line: int
    has_label: bool
    """Whether it speaks of the class; where not, the folder does."""
    label: str | None
    tags: tuple[str, ...] | None


def find_metadata(root: Path) -> Path | None:
    """Return the one such file of a folder, None where there is none."""
    found = [name for name in NAMES if (root / name).is_file()]
    if len(found) > 1:
        raise StorageError(f"{root} must hold one of {', '.join(NAMES)}, got {', '.join(found)}.")
    return root / found[0] if found else None


def read_metadata(path: Path) -> dict[str, Entry]:
    """Return what a file says, keyed by the path of each photograph below its folder.

    Whether the photographs exist is not looked at.

    Raises
    ------
    StorageError : a line is not as it should be, or names a file outside the folder or twice.
    """
    readers = {".jsonl": _json_rows, ".csv": _csv_rows, ".tsv": _tsv_rows}
    check_choice(f"the ending of {path.name}", path.suffix, tuple(readers))
    entries: dict[str, Entry] = {}
    for line, row in readers[path.suffix](path):
        name = _inside(path, line, row.get("file_name"))
        if name in entries:
            raise wrong_line(
                path, line, "each file once", f"{name}, which line {entries[name].line} names"
            )
        label = _label(path, line, row.get("label"))
        entries[name] = Entry(line, "label" in row, label, _tags(path, line, row.get("tags")))
    return entries


def _json_rows(path: Path) -> Iterator[Row]:
    for line, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise wrong_line(path, line, "a JSON object", text) from error
        if not isinstance(row, dict):
            raise wrong_line(path, line, "a JSON object", text)
        yield line, row


def _csv_rows(path: Path) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    header: list[str] = []
    line = 1
    try:
        for cells in reader:
            # A quoted cell may run over several lines; its row is called by the first.
            start, line = line, reader.line_num + 1
            if not any(cells):
                continue
            if not header:
                header = [cell.strip() for cell in cells]
                if header.count("file_name") != 1 or len(set(header)) < len(header):
                    expected = "different names of columns, one of them file_name"
                    raise wrong_line(path, start, expected, ",".join(cells))
                continue
            if len(cells) != len(header):
                raise wrong_line(path, start, f"{len(header)} cells", ",".join(cells))
            yield start, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise StorageError(f"{path}, line {line}: expected a line of CSV, got {error}.") from error


def _tsv_rows(path: Path) -> Iterator[Row]:
    for line, text in enumerate(read_lines(path), start=1):
        cells = text.split("\t")
        if not text.strip() or (line == 1 and cells[0].strip().casefold() in _TSV_HEADERS):
            continue
        if len(cells) != 2:
            raise wrong_line(path, line, "file<TAB>tag|tag", text)
        yield line, {"file_name": cells[0], "tags": cells[1]}


def _inside(path: Path, line: int, name: object) -> str:
    """Return the path of a photograph in its one spelling; it may not leave the folder."""
    if not isinstance(name, str) or not name.strip():
        raise wrong_line(path, line, "the name of a file as file_name", name)
    given = PurePosixPath(name.strip())
    if given.is_absolute() or ".." in given.parts or PureWindowsPath(name.strip()).anchor:
        raise wrong_line(path, line, f"a path below {path.parent}", name)
    return given.as_posix()


def _label(path: Path, line: int, label: object) -> str | None:
    if isinstance(label, int) and not isinstance(label, bool):
        return str(label)
    if label is not None and not isinstance(label, str):
        raise wrong_line(path, line, "a string as label", label)
    return label.strip() or None if label else None


def _tags(path: Path, line: int, tags: object) -> tuple[str, ...] | None:
    if tags is None:
        return None
    names = tags.split("|") if isinstance(tags, str) else tags
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise wrong_line(path, line, "a list of strings, or one separated by |, as tags", tags)
    return distinct_tags(names)
