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
import hashlib
import io
import json
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_choice
from supdocnade.errors import StorageError
from supdocnade.text import read_lines, read_text, wrong_line

# A photograph with what is known of it, and which photographs are copies of each other.


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """One photograph on disk."""

    path: Path
    label: str | None = None
    """Its class; None: not known."""
    tags: tuple[str, ...] | None = None
    """Its tags, each once; (): it is known to have none; None: they are not known."""


def distinct_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags without outer spaces, each once, in order of first appearance.

    >>> distinct_tags(["sky", " sea", "", "sky"])
    ('sky', 'sea')
    """
    return tuple(dict.fromkeys(tag for tag in map(str.strip, tags) if tag))


def copies(records: Sequence[ImageRecord]) -> NDArray[np.int64]:
    """Return a group number for every photograph, the same for files of identical content.

    Groups count from 0 in order of first appearance; most hold one photograph. Only files of equal
    size are read.

    Returns
    -------
    (records,) int64.

    Raises
    ------
    StorageError : a file cannot be read.
    """
    sizes = [_size(record.path) for record in records]
    shared = {size for size, count in Counter(sizes).items() if count > 1}
    numbers: dict[object, int] = {}
    groups = np.empty(len(records), np.int64)
    for i, (record, size) in enumerate(zip(records, sizes, strict=True)):
        content = (size, _digest(record.path)) if size in shared else size
        groups[i] = numbers.setdefault(content, len(numbers))
    return groups


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error


def _digest(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, hashlib.blake2b).digest()
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error


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


# Photographs in folders, one a class: the ImageFolder convention, with optional tags.

EXTENSIONS: tuple[str, ...] = (
    *(".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"),
    *(".gif", ".avif", ".heic", ".heif"),
)
"""What the name of a photograph ends in, in any case of letters."""

UNLABELLED = "_unlabelled"
"""The folder of photographs whose class is not known."""


def read_folder(root: str | os.PathLike[str]) -> list[ImageRecord]:
    """Return the photographs below a folder, sorted by path, with their classes and tags.

    The class of a photograph is the name of the first folder below `root` on the way to it; deeper
    folders belong to the same class. In `root` itself or in `_unlabelled` it has none. A file
    `metadata.jsonl`, `metadata.csv` or `tags.tsv` in `root` (see `datasets.metadata`) gives tags
    and may give other classes; photographs that it does not name stay, their tags not known.

    Raises
    ------
    StorageError : the folder is missing or has no photograph, or a line of its metadata is wrong
        or names a file that is no photograph there.
    """
    root = Path(root)
    found = [path.as_posix() for path in photographs(root)]
    if not found:
        raise StorageError(f"{root} must hold photographs ({', '.join(EXTENSIONS)}), got none.")
    _check_places(root)
    metadata = find_metadata(root)
    entries = read_metadata(metadata) if metadata else {}
    known = set(found)
    for name, entry in entries.items():
        if name not in known:
            reason = "is no photograph" if (root / name).exists() else "does not exist"
            raise StorageError(f"{metadata}, line {entry.line} names {name}, which {reason}.")
    records = []
    for name in found:
        label, tags = folder_label(name), None
        if name in entries:
            tags = entries[name].tags
            label = entries[name].label if entries[name].has_label else label
        records.append(ImageRecord(root / name, label, tags))
    return records


def _check_places(root: Path) -> None:
    """Refuse metadata where nobody looks for it: its tags would be lost without a word."""
    for folder, _, files in os.walk(root):
        for name in NAMES:
            if name in files and Path(folder) != root:
                raise StorageError(
                    f"{Path(folder) / name} must be in {root}: metadata of sub-folders is not read."
                )


def photographs(root: Path) -> list[PurePosixPath]:
    """Return the paths of all photographs below a folder, relative to it, sorted.

    Hidden files and folders are passed over. Every folder is read once: a link to one that is also
    there itself, or that another link led to, adds nothing, and loops of links end.
    """
    found: list[PurePosixPath] = []
    seen: set[tuple[int, int]] = set()
    folders, links = deque([PurePosixPath()]), deque[PurePosixPath]()
    while folders or links:
        # Links come last, so that a folder is called by its own name rather than by a link's.
        is_linked = not folders
        below = links.popleft() if is_linked else folders.popleft()
        try:
            status = os.stat(root / below)
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            visible = [name for name in os.listdir(root / below) if not name.startswith(".")]
        except OSError as error:
            raise StorageError(f"{root / below} cannot be read: {error.strerror}.") from error
        for name in sorted(visible):
            path = root / below / name
            if os.path.isdir(path):
                (links if is_linked or path.is_symlink() else folders).append(below / name)
            # A link to nothing is a photograph that cannot be read, which readers will say.
            elif name.lower().endswith(EXTENSIONS) and (
                os.path.isfile(path) or not os.path.exists(path)
            ):
                found.append(below / name)
    return sorted(found, key=lambda path: path.parts)


def folder_label(name: str) -> str | None:
    """Return the class that the path of a photograph below its folder stands for, if any.

    >>> folder_label("coast/2020/beach.jpg"), folder_label("beach.jpg")
    ('coast', None)
    """
    first, *rest = name.split("/")
    return first if rest and first != UNLABELLED else None
