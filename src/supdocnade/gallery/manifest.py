"""The manifest of an index, `index.json`: its model, its folders and its segments.

All other files of an index have a number of their own and never change. A change of the index
writes new files, then replaces the manifest atomically, and then removes the files that it no
longer names; a process that is killed leaves the old index or the new one.
"""

import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from supdocnade.errors import StorageError
from supdocnade.gallery.segment import SegmentEntry
from supdocnade.storage import write_atomically

FORMAT, KIND = 2, "Gallery"
MANIFEST_NAME = "index.json"
MAKE_AGAIN = "supdocnade index --replace makes it again"
_NUMBERED = re.compile(r"\.?(segment|deleted|order)-(\d+)\..+")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Contents of an index."""

    model: str
    """Fingerprint of the model."""
    folders: tuple[str, ...] = ()
    """Absolute paths of the folders of the photographs, which rows refer to by number."""
    segments: tuple[SegmentEntry, ...] = ()
    order: str | None = None
    """Name of the file of the order of the photographs; None while a run is unfinished."""


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of an index, checked."""
    stored, path = _read(folder), folder / MANIFEST_NAME
    if stored.get("format") != FORMAT:
        raise StorageError(
            f"{folder} has format {stored.get('format')!r}, this version reads {FORMAT}; "
            f"{MAKE_AGAIN}."
        )
    try:
        entries = tuple(SegmentEntry(**each) for each in stored["segments"])
        manifest = Manifest(
            model=stored["model"],
            folders=tuple(stored["folders"]),
            segments=entries,
            order=stored["order"],
        )
        names = [each.deleted for each in entries if each.deleted is not None]
        names += [each.name for each in entries]
        names += [manifest.order] if manifest.order is not None else []
        sizes = [size for each in entries for size in (each.rows, each.name_bytes, each.word_bytes)]
        texts = [manifest.model, *manifest.folders, *(each.digest for each in entries)]
        texts += [each.approximate for each in entries if each.approximate is not None]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("an entry is no text")
        if not all(type(size) is int and 0 < size < 2**48 for size in sizes):
            raise ValueError("a size is out of range")
        if not all(isinstance(name, str) and re.fullmatch(r"\d{6,}", name) for name in names):
            raise ValueError("the name of a file is no number")
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{path} is damaged: {error}.") from error
    return manifest


def is_index(folder: Path) -> bool:
    """Return whether a folder has a manifest; raise `StorageError` if it cannot be read.

    The index may have any format.
    """
    return (folder / MANIFEST_NAME).exists() and bool(_read(folder))


def _read(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST_NAME
    try:
        stored = json.loads(path.read_bytes())
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path} is damaged: {error}.") from error
    if not isinstance(stored, dict) or stored.get("kind") != KIND:
        raise StorageError(f"{folder} is not an index of supdocnade.")
    return stored


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest atomically, and remove the files that it does not name."""
    stored = {"format": FORMAT, "kind": KIND, **asdict(manifest)}
    write_atomically(folder / MANIFEST_NAME, json.dumps(stored, indent=1).encode())
    used = {f"segment-{each.name}" for each in manifest.segments}
    used |= {f"deleted-{each.deleted}" for each in manifest.segments}
    used.add(f"order-{manifest.order}")
    for path in folder.iterdir():
        if _NUMBERED.fullmatch(path.name) and path.name.partition(".")[0] not in used:
            with suppress(OSError):  # Windows does not remove files that a server has open.
                path.unlink()


def unused_number(folder: Path) -> int:
    """Return a number that no file of an index has."""
    found = (_NUMBERED.fullmatch(path.name) for path in folder.iterdir())
    return max((int(each[2]) + 1 for each in found if each is not None), default=0)


def format_number(number: int) -> str:
    """Return the name of a file with a number."""
    return f"{number:06d}"
