"""Folders of photographs, one sub-folder per class, with an optional metadata file.

The folder is on this machine or on another file system, `s3://bucket/photos`. Its metadata file
gives tags and may give other classes (`metadata`). If a photograph gets no tags from it, its tags
are the keywords in its XMP sidecar or in the file itself (`keywords`). `PhotoFolder.notes` names
files that are not photographs, and columns of the metadata that are not read.
"""

import os
import re
import sys
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from supdocnade.errors import StorageError
from supdocnade.folders.keywords import read_tags
from supdocnade.folders.metadata import (
    METADATA_NAMES,
    LineErrors,
    MetadataEntry,
    distinct_tags,
    find_metadata,
    match_names,
    parse_label,
    parse_rows,
    read_rows,
    summarize_errors,
)
from supdocnade.images.raw_preview import RAW_EXTENSIONS
from supdocnade.images.source import (
    Source,
    is_absolute,
    is_remote,
    join_addresses,
    normalize_address,
    open_file_system,
    source_name,
    storage_errors,
)
from supdocnade.runs import ProgressCallback, no_progress

EXTENSIONS: tuple[str, ...] = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".tif", ".tiff"),
    *(".gif", ".avif", ".heic", ".heif", *RAW_EXTENSIONS),
)
"""Extensions of photographs, compared without regard to case."""

UNLABELLED = "_unlabelled"
"""Sub-folder of photographs whose class is unknown."""

SYSTEM_FOLDERS = {"@eadir", "__macosx", "#recycle", "@recycle", "$recycle.bin", "lost+found"}
"""Folders of operating systems and disk stations, which hold no photographs of the user."""

_DATE = re.compile(
    r".*(?<!\d)(19|20)\d\d([01]\d([0-3]\d)?)?(?!\d).*|0[1-9]|1[0-2]|1\d\d[A-Z0-9_]{5}"
)
"""Names of folders by date, such as 2019, 2019-07-14 Rome, 20190714 and 07, and 100CANON."""

_TABLES = (".jsonl", ".json", ".csv", ".tsv")


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """Photograph with its class and tags."""

    source: Source
    label: str | None = None
    """None if the class is unknown."""
    tags: tuple[str, ...] | None = None
    """Distinct tags; None if they are unknown."""

    @property
    def path(self) -> Path:
        """The path of a photograph that is a file on this machine."""
        return Path(source_name(self.source))


@dataclass(frozen=True, slots=True)
class PhotoFolder:
    """Photographs of a folder or another place, and a record of what was not read."""

    records: list[ImageRecord]
    """Those of a folder are sorted by path."""
    notes: tuple[str, ...]
    """Sentences about files, folders and columns that were not read."""
    invalid_lines: tuple[str, ...] = ()
    """Sentences about lines of the metadata file that were not read."""
    levels: dict[str, str] = field(default_factory=dict)
    """Levels of keywords, such as Animals|Cats|Tiger, by normalised tags."""


@dataclass(frozen=True, slots=True)
class FolderListing:
    """Names of the files below a folder, relative to it, with slashes, sorted by path.

    Names are strings, not paths: millions of them take less memory.
    """

    photographs: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """Files that are not photographs."""
    metadata: list[str] = field(default_factory=list)
    sidecars: list[str] = field(default_factory=list)
    """XMP files."""

    def add(self, name: str, *, regular: bool = True) -> None:
        """Add a file.

        A pipe or a device is not regular, and no photograph.
        """
        base = name.rpartition("/")[2]
        ending = base.lower()
        if ending.endswith(EXTENSIONS) and regular:
            self.photographs.append(name)
        elif base in METADATA_NAMES:
            self.metadata.append(name)
        elif ending.endswith(".xmp"):
            self.sidecars.append(name)
        else:
            self.others.append(name)

    def sort(self) -> None:
        """Sort all names by the parts of their paths."""
        for names in (self.photographs, self.others, self.metadata, self.sidecars):
            names.sort(key=lambda name: name.replace("/", "\0"))


def read_folder(root: str | os.PathLike[str]) -> list[ImageRecord]:
    """Return the photographs below a folder, sorted by path; see `scan_folder`."""
    return scan_folder(root).records


def scan_folder(
    root: str | os.PathLike[str],
    progress: ProgressCallback = no_progress,
    *,
    on_error: str = "raise",
    classes: str | None = None,
) -> PhotoFolder:
    """Return the photographs below a folder with their classes and tags.

    The class of a photograph is a sub-folder on its path (see `folder_label`), unless a metadata
    file gives another one. The tags of photographs for which the metadata gives none are
    their keywords (see `keywords`), or unknown.

    Parameters
    ----------
    on_error : "skip" leaves out lines of the metadata that are invalid or name a file that is not a
        photograph; `invalid_lines` of the result describes them.
    classes : "top" or "leaf", see `folder_label`, or "none": photographs have no classes. By
        default top, but folders are not classes if the names of all look like dates.

    Raises
    ------
    StorageError : the folder is missing or has no photograph, its metadata cannot be read, or some
        of its lines are invalid.
    """
    root = normalize_address(root)
    listing = list_folder(root)
    notes = describe_passed_over(listing.others)
    if not listing.photographs:
        none = f"{root} contains no photographs ({', '.join(EXTENSIONS)})"
        raise StorageError(f"{'; '.join([none, *(note.rstrip('.') for note in notes)])}.")
    sources = join_addresses(root, listing.photographs)
    found = describe_photographs(root, listing, sources, progress, on_error, classes=classes)
    return replace(found, notes=(*notes, *found.notes))


def describe_photographs(
    root: str,
    listing: FolderListing,
    sources: Sequence[str],
    progress: ProgressCallback,
    on_error: str,
    *,
    classes: str | None = None,
    is_complete: bool = True,
) -> PhotoFolder:
    """Return photographs with the classes and tags that a folder, its metadata and keywords give.

    Parameters
    ----------
    listing : names of the photographs, of sidecars and of metadata files. Names of photographs that
        are not below the folder are absolute.
    sources : of the photographs.
    on_error, classes : as for `scan_folder`.
    is_complete : whether all photographs below the folder are listed. If not, the metadata may name
        others, and sidecars are looked for.
    """
    names = listing.photographs
    metadata = find_metadata(root, listing.metadata)
    errors: LineErrors = {}
    entries: dict[str, MetadataEntry] = {}
    notes: list[str] = []
    if metadata is not None:
        entries, notes = parse_rows(metadata, read_rows(metadata), errors)
        entries = match_names(metadata, entries, names, errors)
    for name in entries.keys() - set(names) if is_complete else ():
        reason = "is not a photograph" if name in listing.others else "does not exist"
        line = entries.pop(name).line
        errors[line] = StorageError(f"{metadata}, line {line} names {name}, which {reason}.")
    if errors and on_error == "raise":
        raise summarize_errors(errors)
    labels = [folder_label(name, classes or "top") for name in names]
    dates = sorted({label for label in labels if label is not None and _DATE.fullmatch(label)})
    if dates and classes is None:
        notes.append(f"folder names look like dates: {', '.join(dates[:3])}")
        if {*labels} <= {*dates, None}:
            labels = [None] * len(labels)
            notes[-1] += (
                ", so they are not classes (--classes none); --classes top or leaf learns them."
            )
        else:
            notes[-1] += "; --classes none learns tags alone, --classes leaf the last folders."
    for name in sorted({label for label in labels if label is not None}):
        parse_label(f"the sub-folder {name}", name)
    records = []
    for source, name, label in zip(sources, names, labels, strict=True):
        entry = entries.get(name)
        if entry is not None and entry.has_label and classes != "none":
            label = entry.label
        records.append(ImageRecord(source, label, None if entry is None else entry.tags))
    # Sidecars on another file system are known from the listing of a folder, which a list lacks.
    is_known = is_complete or any(map(is_remote, sources))
    sidecars = set(join_addresses(root, listing.sidecars)) if is_known else None
    untagged = [number for number, record in enumerate(records) if record.tags is None]
    photographs = [sources[number] for number in untagged]
    tags, keyword_notes, levels = read_tags(photographs, progress, sidecars=sidecars)
    for number, keywords in zip(untagged, tags, strict=True):
        if keywords is not None:
            records[number] = replace(records[number], tags=distinct_tags(keywords))
    invalid_lines = tuple(str(errors[line]) for line in sorted(errors))
    return PhotoFolder(records, (*notes, *keyword_notes), invalid_lines, levels)


def list_folder(root: str | os.PathLike[str]) -> FolderListing:
    """Return the names of the photographs and other files below a folder.

    Hidden files and folders, and those of the system, are skipped. On this machine, each folder is
    read once, also if several links lead to it or the links form a loop. A sub-folder that cannot
    be read counts as a photograph, as a broken link does, so that reading it reports the error.
    """
    listing = _list_remote(os.fspath(root)) if is_remote(root) else _list_local(Path(root))
    listing.sort()
    return listing


def _list_local(root: Path) -> FolderListing:
    listing = FolderListing()
    visited: set[tuple[int, int]] = set()
    folders, links = deque([""]), deque[str]()
    while folders or links:
        # Links come last, so that a folder gets its own name rather than that of a link.
        is_linked = not folders
        below = links.popleft() if is_linked else folders.popleft()
        try:
            status = os.stat(root / below)
            if (status.st_dev, status.st_ino) in visited:
                continue
            visited.add((status.st_dev, status.st_ino))
            with os.scandir(root / below) as entries:
                visible = [entry for entry in entries if not _is_hidden(entry.name)]
        except OSError as error:
            if below:
                listing.photographs.append(below)
                continue
            raise StorageError(f"{root} cannot be read: {error.strerror}.") from error
        for entry in sorted(visible, key=lambda entry: entry.name):
            name = f"{below}/{entry.name}" if below else entry.name
            if entry.is_symlink():
                if os.path.isdir(entry.path):
                    links.append(name)
                else:
                    # A broken link counts as a photograph.
                    regular = os.path.isfile(entry.path) or not os.path.exists(entry.path)
                    listing.add(name, regular=regular)
            elif entry.is_dir():
                (links if is_linked else folders).append(name)
            else:
                listing.add(name, regular=entry.is_file())
    return listing


def _list_remote(root: str) -> FolderListing:
    system, top = open_file_system(root)
    with storage_errors(root):
        paths = system.find(top)
    listing = FolderListing()
    for path in paths:
        name = path[len(top) :].strip("/")
        if name and not any(map(_is_hidden, name.split("/"))):
            listing.add(name)
    return listing


def _is_hidden(name: str) -> bool:
    """Return whether a file or folder is hidden, or is a folder of the system."""
    return name.startswith(".") or name.lower() in SYSTEM_FOLDERS


def describe_passed_over(others: Sequence[str], *, with_tables: bool = True) -> list[str]:
    """Return sentences about the files that are not photographs.

    `with_tables` names tables in which someone may expect tags.

    >>> describe_passed_over(["a.MOV", "sea/b.mov"])
    ['ignored: 2 .mov.']
    """
    notes = []
    tables = {
        name
        for name in others
        if with_tables and "/" not in name and name.lower().endswith(_TABLES)
    }
    if counts := count_endings(name for name in others if name not in tables):
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        kinds = ", ".join(f"{count} {ending}" for ending, count in ordered)
        notes.append(f"ignored: {kinds}.")
    if tables:
        names, expected = ", ".join(sorted(tables)), ", ".join(METADATA_NAMES)
        notes.append(f"ignored: {names}; tags are read from one of {expected}.")
    return notes


def count_endings(names: Iterable[str]) -> Counter[str]:
    """Return the number of files by the ending of their names in lower case."""
    return Counter(PurePosixPath(name).suffix.lower() or "without ending" for name in names)


def folder_label(name: str, classes: str = "top") -> str | None:
    """Return the class of a photograph from its path below the top folder, None if it has none.

    It is the first folder on the path ("top") or the last ("leaf"), always the last of an absolute
    path or address, or none ("none").

    >>> folder_label("coast/2020/beach.jpg"), folder_label("beach.jpg"), folder_label("/a/b/c.jpg")
    ('coast', None, 'b')
    """
    folders = name.split("/")[:-1]
    if not folders or classes == "none":
        return None
    label = folders[-1 if classes == "leaf" or is_absolute(name) else 0]
    # One string for all photographs of a class.
    return sys.intern(label) if label and label != UNLABELLED else None
