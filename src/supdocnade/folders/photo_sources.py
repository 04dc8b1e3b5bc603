"""Places that photographs come from: folders, shards, lists of photographs, single files.

A place is

- a folder, on this machine or on another file system (`s3://bucket/photos`), see `photo_folder`;
- tar or Parquet files, see `shards`: one, or several by a pattern such as `photos-{000..010}.tar`
  or `data/*.parquet`;
- a text file, `photos/train.txt`, that lists photographs, one path or address per line. Paths are
  relative to the folder of the list, whose metadata file is read. The class of a photograph is the
  first folder on such a path, and the folder that holds it if the line is absolute;
- a photograph.
"""

import glob
import os
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import PurePosixPath

from supdocnade.errors import StorageError
from supdocnade.folders.metadata import METADATA_NAMES, find_metadata, summarize_errors
from supdocnade.folders.photo_folder import (
    EXTENSIONS,
    PhotoFolder,
    add_keywords,
    folder_label,
    list_folder,
    make_records,
    read_entries,
    scan_folder,
)
from supdocnade.folders.shards import scan_shard
from supdocnade.images.source import (
    PackedImage,
    Source,
    absolute_address,
    is_remote,
    join_address,
    join_addresses,
    normalize_address,
    open_file_system,
    read_address,
    source_name,
    storage_errors,
)
from supdocnade.progress import ProgressCallback, no_progress
from supdocnade.text import decode_text, split_lines

SHARD_ENDINGS = (".tar", ".parquet")
LIST_ENDING = ".txt"

_BRACES = re.compile(r"\{(\d+)\.\.(\d+)\}")


def kind_of_place(place: Source) -> str:
    """Return what a place is: "folder", "shards", "list" or "photograph"."""
    if isinstance(place, PackedImage):
        return "photograph"
    address = os.fspath(place)
    if not is_remote(address) and os.path.isdir(address):
        return "folder"
    if address.lower().endswith(SHARD_ENDINGS):
        return "shards"
    if address.lower().endswith(LIST_ENDING):
        return "list"
    is_folder = is_remote(address) and not address.lower().endswith(EXTENSIONS)
    return "folder" if is_folder else "photograph"


def scan_photographs(
    place: str | os.PathLike[str],
    progress: ProgressCallback = no_progress,
    *,
    on_error: str = "raise",
    in_files: bool = True,
) -> PhotoFolder:
    """Return the photographs of a place with their classes and tags.

    Parameters
    ----------
    on_error, in_files : as for `scan_folder`.

    Raises
    ------
    StorageError : the place is missing or holds no photographs, or what it says about them is
        invalid.
    """
    address, kind = os.fspath(place), kind_of_place(place)
    if kind == "shards":
        records = list(chain.from_iterable(map(scan_shard, expand_pattern(address))))
        return PhotoFolder(records, Counter(), ())
    if kind == "list":
        return _scan_list(address, progress, on_error, in_files=in_files)
    return scan_folder(address, progress, on_error=on_error, in_files=in_files)


def find_sources(place: Source) -> list[tuple[str, Source]]:
    """Return the photographs of a place with their names, which in a folder are relative to it."""
    kind = kind_of_place(place)
    if isinstance(place, PackedImage) or kind == "photograph":
        return [(source_name(place), place)]
    if kind == "shards":
        records = scan_photographs(place).records
        return [(source_name(record.source), record.source) for record in records]
    if kind == "list":
        folder, names = _read_list(os.fspath(place))
        return [(name, _join(folder, name)) for name in names]
    folder = normalize_address(place)
    names = list_folder(folder).photographs
    return list(zip(names, join_addresses(folder, names), strict=True))


def folder_of_place(place: str | os.PathLike[str]) -> str:
    """Return the absolute address of the folder to which the names of `find_sources` are relative.

    Those of shards are relative to the working directory, as their paths are.
    """
    kind, address = kind_of_place(place), os.fspath(place)
    if kind == "list":
        return absolute_address(_folder_of_list(address))
    return absolute_address(address if kind == "folder" else "")


def expand_pattern(address: str) -> list[str]:
    """Return the files that a pattern stands for, sorted; an address without a pattern is itself.

    Braces stand for all numbers of a range, and `*`, `?` and `[…]` for the files that exist.

    >>> expand_pattern("photos-{08..10}.tar")
    ['photos-08.tar', 'photos-09.tar', 'photos-10.tar']
    """
    if not is_remote(address) and os.path.exists(address):
        return [address]
    if braces := _BRACES.search(address):
        first, last = braces.groups()
        numbers = range(int(first), int(last) + 1)
        if not numbers:
            raise StorageError(f"{address} must have a range that rises, got {braces[0]}.")
        before, after = address[: braces.start()], address[braces.end() :]
        each = (f"{before}{number:0{len(first)}d}{after}" for number in numbers)
        return [name for part in each for name in expand_pattern(part)]
    if not glob.has_magic(address):
        return [address]
    found = _expand_remote(address) if is_remote(address) else glob.glob(address)
    if not found:
        raise StorageError(f"{address} must stand for files, got none.")
    return sorted(found)


def _expand_remote(address: str) -> list[str]:
    system, path = open_file_system(address)
    # The file system returns paths of its own, which end as the addresses do.
    fixed = re.split(r"[*?[]", address, maxsplit=1)[0].rpartition("/")[0]
    start = len(path) - len(address) + len(fixed)
    with storage_errors(address):
        return [fixed + found[start:] for found in system.glob(path)]


def _read_list(address: str) -> tuple[str, list[str]]:
    """Return the folder of a list of photographs, and its lines, which are not empty."""
    lines = split_lines(decode_text(read_address(address), address))
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise StorageError(f"{address} must list photographs, got none.")
    folder = _folder_of_list(address)
    return folder, [_relative_name(folder, name) for name in names]


def _folder_of_list(address: str) -> str:
    return address.rpartition("/")[0] if is_remote(address) else os.path.dirname(address)


def _relative_name(folder: str, name: str) -> str:
    """Return the name of a photograph below a folder; one that is elsewhere stays absolute."""
    if _is_absolute(name):
        start = f"{folder if is_remote(folder) else os.path.abspath(folder)}/"
        return name.removeprefix(start)
    return PurePosixPath(name).as_posix()


def _is_absolute(name: str) -> bool:
    return is_remote(name) or os.path.isabs(name)


def _join(folder: str, name: str) -> str:
    return name if _is_absolute(name) else join_address(folder, name)


def _scan_list(
    address: str, progress: ProgressCallback, on_error: str, *, in_files: bool
) -> PhotoFolder:
    folder, names = _read_list(address)
    sources = [_join(folder, name) for name in names]
    repeated = [name for name, count in Counter(sources).items() if count > 1]
    if repeated:
        raise StorageError(f"{address} must name each photograph once, got {repeated[0]} twice.")
    metadata = find_metadata(folder, list(_find_metadata_names(folder)))
    entries, notes, errors = read_entries(metadata, names)
    if errors and on_error == "raise":
        raise summarize_errors(errors)
    records = make_records(sources, names, [_label(name) for name in names], entries)
    # Sidecars on another file system are known from the listing of a folder, which a list lacks.
    sidecars = set[str]() if any(map(is_remote, sources)) else None
    records, keyword_notes = add_keywords(records, sidecars, progress, in_files=in_files)
    invalid_lines = tuple(str(errors[line]) for line in sorted(errors))
    return PhotoFolder(records, Counter(), (*notes, *keyword_notes), invalid_lines)


def _find_metadata_names(folder: str) -> Iterator[str]:
    for name in METADATA_NAMES:
        address = join_address(folder, name)
        if is_remote(address):
            system, path = open_file_system(address)
            with storage_errors(address):
                exists = system.exists(path)
        else:
            exists = os.path.isfile(address)
        if exists:
            yield name


def _label(name: str) -> str | None:
    """Return the class of a photograph in a list."""
    return folder_label("/".join(name.split("/")[-2:]) if _is_absolute(name) else name)
