"""Photographs in folders, one a class: the ImageFolder convention, with optional tags."""

import os
from collections import deque
from pathlib import Path, PurePosixPath

from supdocnade.datasets.metadata import NAMES, find_metadata, read_metadata
from supdocnade.datasets.records import ImageRecord
from supdocnade.errors import StorageError

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
