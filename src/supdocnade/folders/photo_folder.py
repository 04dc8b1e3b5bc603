"""Folders of photographs, one sub-folder per class, with an optional metadata file.

The metadata file in the top folder gives tags and may give other classes. It is one of

- `metadata.jsonl`: one JSON object per line with `file_name` and optional `label` and `tags`;
- `metadata.csv`: a header line with `file_name` and optional `label` and `tags`, then one row per
  photograph;
- `tags.tsv`: one line `file<TAB>tag|tag` per photograph; a first line `file<TAB>tags` is a header.

`file_name` is a path below the top folder, with slashes or backslashes. `label` replaces the name
of the sub-folder; if it is empty or null, the class is unknown. `tags` is a list, or one string
separated by `|`. Empty tags mean that the photograph has none; null or missing ones are unknown.
Columns of `metadata.csv` may also be separated by semicolons or tabs. Other columns and empty lines
are ignored; `PhotoFolder.notes` names such columns, and files and folders that are passed over.

If a photograph gets no tags from a metadata file, its tags are the keywords in its XMP sidecar or
in the file itself (`keywords`).
"""

import csv
import io
import json
import os
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

from supdocnade.checks import check_choice
from supdocnade.errors import StorageError
from supdocnade.folders.keywords import read_tags
from supdocnade.progress import ProgressCallback, no_progress
from supdocnade.text import line_error, read_lines, read_text

EXTENSIONS: tuple[str, ...] = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".tif", ".tiff"),
    *(".gif", ".avif", ".heic", ".heif"),
)
"""Extensions of photographs, compared without regard to case."""

UNLABELLED = "_unlabelled"
"""Sub-folder of photographs whose class is unknown."""

METADATA_NAMES: tuple[str, ...] = ("metadata.jsonl", "metadata.csv", "tags.tsv")

COLUMNS = ("file_name", "label", "tags")

SYSTEM_FOLDERS = {"@eadir", "__macosx", "#recycle", "@recycle", "$recycle.bin", "lost+found"}
"""Folders of operating systems and disk stations, which hold no photographs of the user."""

_TABLES = (".jsonl", ".json", ".csv", ".tsv")

_TSV_HEADERS = ("file", "file_name", "filename", "image", "path")


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """Photograph on disk with its class and tags."""

    path: Path
    label: str | None = None
    """None if the class is unknown."""
    tags: tuple[str, ...] | None = None
    """Distinct tags; None if they are unknown."""


@dataclass(frozen=True, slots=True)
class PhotoFolder:
    """Photographs of a folder, and a record of what was not read."""

    records: list[ImageRecord]
    """Sorted by path."""
    passed_over: Counter[str]
    """Number of files that are no photographs, by the ending of their names in lower case."""
    notes: tuple[str, ...]
    """Sentences about files, folders and columns that were not read."""
    invalid_lines: tuple[str, ...] = ()
    """Sentences about lines of the metadata file that were not read."""


def distinct_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return stripped tags without empty ones and repeats, in order of first appearance.

    >>> distinct_tags(["sky", " sea", "", "sky"])
    ('sky', 'sea')
    """
    return tuple(dict.fromkeys(tag for tag in map(str.strip, tags) if tag))


def read_folder(root: str | os.PathLike[str]) -> list[ImageRecord]:
    """Return the photographs below a folder, sorted by path; see `scan_folder`."""
    return scan_folder(root).records


def scan_folder(
    root: str | os.PathLike[str],
    progress: ProgressCallback = no_progress,
    *,
    on_error: str = "raise",
) -> PhotoFolder:
    """Return the photographs below a folder with their classes and tags.

    The class of a photograph is the first sub-folder on its path (see `folder_label`), unless a
    metadata file gives another one. The tags of photographs for which the metadata gives none are
    their keywords (see `keywords`), or unknown.

    Parameters
    ----------
    on_error : "skip" leaves out lines of the metadata that are invalid or name a file that is not a
        photograph; `invalid_lines` of the result describes them.

    Raises
    ------
    StorageError : the folder is missing or has no photograph, its metadata cannot be read, or some
        of its lines are invalid.
    """
    root = Path(root)
    photographs, others = list_folder(root)
    names = [path.as_posix() for path in photographs]
    notes = describe_passed_over(others)
    if not names:
        got = "; ".join(["none", *(note.rstrip(".") for note in notes)])
        raise StorageError(f"{root} must hold photographs ({', '.join(EXTENSIONS)}), got {got}.")
    _check_metadata_location(root)
    metadata = find_metadata(root)
    entries: dict[str, MetadataEntry] = {}
    errors: Errors = {}
    if metadata:
        rows, errors = _read_rows(metadata)
        entries = _match_names(metadata, _parse_rows(metadata, rows, errors), names, errors)
        notes += _describe_rows(metadata, rows)
    if errors and on_error == "raise":
        raise _summarize(errors)
    records = []
    for name in names:
        label, tags = folder_label(name), None
        if name in entries:
            tags = entries[name].tags
            label = entries[name].label if entries[name].has_label else label
        records.append(ImageRecord(root / name, label, tags))
    untagged = [number for number, record in enumerate(records) if record.tags is None]
    found, keyword_notes = read_tags([records[i].path for i in untagged], progress)
    for number, keywords in zip(untagged, found, strict=True):
        if keywords is not None:
            records[number] = replace(records[number], tags=distinct_tags(keywords))
    notes += [*keyword_notes, *_describe_relabelled(root, records)]
    invalid_lines = tuple(str(errors[line]) for line in sorted(errors))
    return PhotoFolder(records, _count_endings(others), tuple(notes), invalid_lines)


def _describe_relabelled(root: Path, records: Sequence[ImageRecord]) -> list[str]:
    """Return a sentence about classes that the metadata gives instead of those of the folders."""
    relabelled = [
        record
        for record in records
        if record.label != folder_label(record.path.relative_to(root).as_posix())
    ]
    if not relabelled:
        return []
    number, first = len(relabelled), relabelled[0]
    return [
        f"the metadata gives {number} photograph{'s' if number > 1 else ''} another class than the "
        f"folder, such as {first.label or 'none'} for {first.path}; the metadata counts."
    ]


def _check_metadata_location(root: Path) -> None:
    """Raise if a sub-folder holds a metadata file, which would be ignored silently."""
    for folder, _, files in os.walk(root):
        for name in METADATA_NAMES:
            if name in files and Path(folder) != root:
                raise StorageError(
                    f"{Path(folder) / name} must be in {root}: metadata of sub-folders is not read."
                )


def find_photographs(root: Path) -> list[PurePosixPath]:
    """Return the paths of all photographs below a folder, relative to it, sorted."""
    return list_folder(root)[0]


def list_folder(root: Path) -> tuple[list[PurePosixPath], list[PurePosixPath]]:
    """Return the paths of all photographs below a folder, and of all that is passed over.

    Paths are relative to the folder and sorted. Hidden files and folders are skipped, and so are
    metadata files and XMP sidecars. Each folder is read once, also if several links lead to it or
    the links form a loop.
    """
    found: list[PurePosixPath] = []
    others: list[PurePosixPath] = []
    visited: set[tuple[int, int]] = set()
    folders, links = deque([PurePosixPath()]), deque[PurePosixPath]()
    while folders or links:
        # Links come last, so that a folder gets its own name rather than that of a link.
        is_linked = not folders
        below = links.popleft() if is_linked else folders.popleft()
        try:
            status = os.stat(root / below)
            if (status.st_dev, status.st_ino) in visited:
                continue
            visited.add((status.st_dev, status.st_ino))
            visible = [name for name in os.listdir(root / below) if not name.startswith(".")]
        except OSError as error:
            raise StorageError(f"{root / below} cannot be read: {error.strerror}.") from error
        for name in sorted(visible):
            path = root / below / name
            if name.lower() in SYSTEM_FOLDERS:
                others.append(below / name)
            elif os.path.isdir(path):
                (links if is_linked or path.is_symlink() else folders).append(below / name)
            # A broken link counts as a photograph, so that reading it reports the error.
            elif name.lower().endswith(EXTENSIONS) and (
                os.path.isfile(path) or not os.path.exists(path)
            ):
                found.append(below / name)
            elif name not in METADATA_NAMES and not name.lower().endswith(".xmp"):
                others.append(below / name)
    found.sort(key=lambda path: path.parts)
    others.sort(key=lambda path: path.parts)
    return found, others


def describe_passed_over(others: Sequence[PurePosixPath], *, with_tables: bool = True) -> list[str]:
    """Return sentences about the files and folders that `list_folder` passed over.

    Parameters
    ----------
    with_tables : name tables in which someone may expect tags.

    >>> describe_passed_over([PurePosixPath("a.CR2"), PurePosixPath("sea/b.cr2")])
    ['passed over: 2 .cr2.']
    """
    notes = []
    tables = [
        path
        for path in others
        if with_tables and len(path.parts) == 1 and path.suffix.lower() in _TABLES
    ]
    if counts := _count_endings(path for path in others if path not in tables):
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        kinds = ", ".join(f"{count} {ending}" for ending, count in ordered)
        notes.append(f"passed over: {kinds}.")
    if folders := [path for path in others if path.name.lower() in SYSTEM_FOLDERS]:
        several = f" and {len(folders) - 1} more" if len(folders) > 1 else ""
        notes.append(f"passed over: the system folder {folders[0]}{several}.")
    if tables:
        names, expected = ", ".join(map(str, tables)), ", ".join(METADATA_NAMES)
        notes.append(f"passed over: {names}; tags are read from one of {expected}.")
    return notes


def _count_endings(others: Iterable[PurePosixPath]) -> Counter[str]:
    return Counter(
        path.suffix.lower() or "without ending"
        for path in others
        if path.name.lower() not in SYSTEM_FOLDERS
    )


def folder_label(name: str) -> str | None:
    """Return the class of a photograph from its path below the top folder, None if it has none.

    >>> folder_label("coast/2020/beach.jpg"), folder_label("beach.jpg")
    ('coast', None)
    """
    first, *rest = name.split("/")
    return first if rest and first != UNLABELLED else None


Row = tuple[int, dict[str, Any]]
"""Line number and columns."""

Errors = dict[int, StorageError]
"""Line number and error of invalid lines."""


class MetadataEntry(NamedTuple):
    """Class and tags of one photograph in a metadata file."""

    line: int
    has_label: bool
    """False if the class is that of the folder."""
    label: str | None
    tags: tuple[str, ...] | None


def find_metadata(root: Path) -> Path | None:
    """Return the metadata file of a folder, None if there is none."""
    found = [name for name in METADATA_NAMES if (root / name).is_file()]
    if len(found) > 1:
        expected = ", ".join(METADATA_NAMES)
        raise StorageError(f"{root} must hold one of {expected}, got {', '.join(found)}.")
    return root / found[0] if found else None


def read_metadata(path: Path) -> dict[str, MetadataEntry]:
    """Return the entries of a metadata file by path of the photograph, which need not exist.

    Raises
    ------
    StorageError : a line is invalid, or names a file outside the folder or a second time.
    """
    rows, errors = _read_rows(path)
    entries = _parse_rows(path, rows, errors)
    if errors:
        raise _summarize(errors)
    return entries


def _summarize(errors: Errors) -> StorageError:
    """Return the error of the first invalid line, with the number of others."""
    first, n_others = errors[min(errors)], len(errors) - 1
    if not n_others:
        return first
    lines = "another line is" if n_others == 1 else f"{n_others} other lines are"
    return StorageError(
        f"{str(first).rstrip('.')}; {lines} wrong, too: supdocnade check lists them."
    )


def _read_rows(path: Path) -> tuple[list[Row], Errors]:
    """Return the lines of a metadata file, and the errors of those that cannot be read."""
    readers = {".jsonl": _json_rows, ".csv": _csv_rows, ".tsv": _tsv_rows}
    check_choice(f"the ending of {path.name}", path.suffix, tuple(readers))
    rows: list[Row] = []
    errors: Errors = {}
    for line, row in readers[path.suffix](path):
        if isinstance(row, StorageError):
            errors[line] = row
        else:
            rows.append((line, row))
    return rows, errors


def _parse_rows(path: Path, rows: list[Row], errors: Errors) -> dict[str, MetadataEntry]:
    """Return the entries of valid lines; the errors of others are added to `errors`."""
    entries: dict[str, MetadataEntry] = {}
    for line, row in rows:
        try:
            name = _parse_name(path, line, row.get("file_name"))
            if name in entries:
                raise _repeated_name(path, line, name, entries[name].line)
            label = _parse_label(path, line, row.get("label"))
            tags = _parse_tags(path, line, row.get("tags"))
        except StorageError as error:
            errors[line] = error
        else:
            entries[name] = MetadataEntry(line, "label" in row, label, tags)
    return entries


def _match_names(
    path: Path, entries: dict[str, MetadataEntry], names: Sequence[str], errors: Errors
) -> dict[str, MetadataEntry]:
    """Return the entries of a metadata file by the names of photographs on disk.

    A name that is not on disk matches one with other Unicode composition, as file systems of
    macOS write it, and with slashes for the backslashes of Windows. The errors of others are added
    to `errors`.
    """
    on_disk = set(names)
    composed = {unicodedata.normalize("NFC", name): name for name in names}
    matched: dict[str, MetadataEntry] = {}
    for given, entry in entries.items():
        forms = (given, PureWindowsPath(given).as_posix())
        keys = [unicodedata.normalize("NFC", form) for form in forms]
        found = [given] if given in on_disk else [composed[key] for key in keys if key in composed]
        if not found:
            reason = "is no photograph" if (path.parent / given).exists() else "does not exist"
            text = f"{path}, line {entry.line} names {given}, which {reason}."
            errors[entry.line] = StorageError(text)
        elif found[0] in matched:
            earlier = matched[found[0]].line
            errors[entry.line] = _repeated_name(path, entry.line, found[0], earlier)
        else:
            matched[found[0]] = entry
    return matched


def _repeated_name(path: Path, line: int, name: str, earlier: int) -> StorageError:
    return line_error(path, line, "each file once", f"{name}, which line {earlier} names")


def _describe_rows(path: Path, rows: list[Row]) -> list[str]:
    """Return sentences about columns that are not read, and lists that are read as one tag."""
    notes = []
    unknown = dict.fromkeys(name for _, row in rows for name in row if name not in COLUMNS)
    if unknown:
        names = ", ".join(unknown)
        notes.append(f"{path.name}: not read: {names}; the columns are {', '.join(COLUMNS)}.")
    single = [
        tags
        for _, row in rows
        if isinstance(tags := row.get("tags"), str) and "|" not in tags and re.search("[,;]", tags)
    ]
    if single:
        notes.append(
            f"{path.name}: {single[0]!r} is read as one tag; several tags are separated by |."
        )
    return notes


def _json_rows(path: Path) -> Iterator[tuple[int, Any]]:
    for line, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        yield line, row if isinstance(row, dict) else line_error(path, line, "a JSON object", text)


def _csv_rows(path: Path) -> Iterator[tuple[int, Any]]:
    text = read_text(path)
    first_line, _, _ = text.lstrip().partition("\n")
    separator = ","
    for other in ";\t":  # Semicolons: Excel, where the comma is the decimal point.
        if "file_name" in [cell.strip().strip('"') for cell in first_line.split(other)]:
            separator = other
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    header: list[str] = []
    line = 1
    try:
        for cells in reader:
            # A quoted cell may span several lines; a row has the number of its first line.
            start, line = line, reader.line_num + 1
            if not any(cells):
                continue
            if not header:
                header = [cell.strip() for cell in cells]
                if header.count("file_name") != 1 or len(set(header)) < len(header):
                    expected = "different names of columns, one of them file_name"
                    raise line_error(path, start, expected, separator.join(cells))
                continue
            if len(cells) == len(header):
                yield start, dict(zip(header, cells, strict=True))
            else:
                expected = f"{len(header)} cells"
                yield start, line_error(path, start, expected, separator.join(cells))
    except csv.Error as error:
        text = f"{path}, line {line}: expected a line of CSV, got {error}."
        yield line, StorageError(text)


def _tsv_rows(path: Path) -> Iterator[tuple[int, Any]]:
    for line, text in enumerate(read_lines(path), start=1):
        cells = text.split("\t")
        if not text.strip() or (line == 1 and cells[0].strip().casefold() in _TSV_HEADERS):
            continue
        if len(cells) == 2:
            yield line, {"file_name": cells[0], "tags": cells[1]}
        else:
            yield line, line_error(path, line, "file<TAB>tag|tag", text)


def _parse_name(path: Path, line: int, name: object) -> str:
    """Return the normalised path of a photograph, which must lie below the folder."""
    if not isinstance(name, str) or not name.strip():
        raise line_error(path, line, "the name of a file as file_name", name)
    given = PurePosixPath(name.strip())
    if given.is_absolute() or ".." in given.parts or PureWindowsPath(name.strip()).anchor:
        raise line_error(path, line, f"a path below {path.parent}", name)
    return given.as_posix()


def _parse_label(path: Path, line: int, label: object) -> str | None:
    if isinstance(label, int) and not isinstance(label, bool):
        return str(label)
    if label is not None and not isinstance(label, str):
        raise line_error(path, line, "a string as label", label)
    return label.strip() or None if label else None


def _parse_tags(path: Path, line: int, tags: object) -> tuple[str, ...] | None:
    if tags is None:
        return None
    names = tags.split("|") if isinstance(tags, str) else tags
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise line_error(path, line, "a list of strings, or one separated by |, as tags", tags)
    return distinct_tags(names)
