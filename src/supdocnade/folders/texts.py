"""Texts to learn topics from: a folder of text files, a JSONL file or a CSV file.

- A folder: every file in it and below it is a text, except hidden ones. If there are several
  sub-folders, the first one on the path of a file is the label of its text.
- `.jsonl`: one JSON object per line, with the text and perhaps a label.
- `.csv` or `.tsv`: a header line, then one row per text; columns are separated by commas,
  semicolons or tabs.

Files are in UTF-8.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.folders.metadata import Row, csv_rows, json_rows
from supdocnade.text import line_error, natural_key, read_text


class Texts(NamedTuple):
    """Texts with their names and labels."""

    names: list[str]
    """Path below the folder, or number of the line in a file."""
    texts: list[str]
    labels: list[str | None]
    """None where unknown."""

    def select(self, rows: Sequence[int]) -> "Texts":
        """Return some of the texts."""
        return Texts(
            [self.names[row] for row in rows],
            [self.texts[row] for row in rows],
            [self.labels[row] for row in rows],
        )


def read_texts(place: Path, text_field: str = "text", label_field: str | None = None) -> Texts:
    """Return the texts of a folder or file, even those without any letter or digit.

    Parameters
    ----------
    text_field, label_field : fields of the objects of a JSONL file, or columns of a CSV file. The
        label field by default is `label`, which need not exist.

    Raises
    ------
    StorageError : a file cannot be read, is not in UTF-8, or lacks a field.
    """
    if place.is_dir():
        return _read_folder(place)
    ending = place.suffix.lower()
    if place.exists() and ending not in (".jsonl", ".csv", ".tsv"):
        raise InvalidArgument(
            f"{place} must be a folder of text files, a .jsonl or a .csv file, got another file."
        )
    path, content = os.fspath(place), read_text(place)
    is_jsonl = ending == ".jsonl"
    rows = json_rows(path, content) if is_jsonl else csv_rows(path, content, text_field)
    return _from_rows(place, rows, text_field, label_field)


def _read_folder(root: Path) -> Texts:
    paths = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths += [Path(folder, name) for name in files if not name.startswith(".")]
    names = sorted((path.relative_to(root).as_posix() for path in paths), key=natural_key)
    first = [name.partition("/")[0] if "/" in name else None for name in names]
    several = len(set(first) - {None}) > 1
    texts = [read_text(root / name) for name in names]
    return Texts(names, texts, first if several else [None] * len(names))


def _from_rows(path: Path, rows: Iterator[Row], text_field: str, label_field: str | None) -> Texts:
    found, has_label = Texts([], [], []), False
    field = label_field or "label"
    for line, row in rows:
        if isinstance(row, StorageError):
            raise row
        text, label = row.get(text_field), row.get(field)
        if not isinstance(text, str):
            raise line_error(
                path, line, f"a text in {text_field!r}", "null" if text is None else text
            )
        if not isinstance(label, str | int | None) or isinstance(label, bool):
            raise line_error(path, line, f"a string in {field!r}", label)
        has_label = has_label or field in row
        found.names.append(f"line {line}")
        found.texts.append(text)
        found.labels.append(str(label).strip() or None if label is not None else None)
    if label_field is not None and not has_label:
        raise StorageError(f"{path} must have a field {label_field!r}, got none.")
    return found
