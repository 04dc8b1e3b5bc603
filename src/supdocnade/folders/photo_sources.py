"""Places that photographs come from: folders, tar files, lists of photographs, single files.

A place is

- a folder, on this machine or on another file system (`s3://bucket/photos`), see `photo_folder`;
- tar files, as WebDataset writes them, see `scan_tar`: one, or several by a pattern such as
  `photos-{000..010}.tar`;
- a text file, `photos/train.txt`, that lists photographs, one path per line. Paths are relative to
  the folder of the list, whose metadata file is read. The class of a photograph is the first folder
  on such a path, and the folder that holds it if the line is absolute;
- a photograph.
"""

import glob
import json
import os
import re
import tarfile
from collections import Counter
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from supdocnade.errors import StorageError
from supdocnade.folders.metadata import METADATA_NAMES, parse_label, parse_tags
from supdocnade.folders.photo_folder import (
    EXTENSIONS,
    FolderListing,
    ImageRecord,
    PhotoFolder,
    describe_photographs,
    folder_label,
    list_folder,
    scan_folder,
)
from supdocnade.images.reading import check_images
from supdocnade.images.source import (
    PackedImage,
    Source,
    absolute_address,
    is_remote,
    join_address,
    join_addresses,
    normalize_address,
    open_address,
    open_file_system,
    read_address,
    source_name,
    storage_errors,
)
from supdocnade.runs import ProgressCallback, no_progress
from supdocnade.text import decode_text, split_lines

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")

MAX_TEXT = 1 << 20
"""Largest size of a member that describes a photograph, in bytes."""


def kind_of_place(place: Source) -> str:
    """Return what a place is: "folder", "tar", "list" or "photograph"."""
    if isinstance(place, PackedImage):
        return "photograph"
    address = os.fspath(place)
    if not is_remote(address) and os.path.isdir(address):
        return "folder"
    for kind, ending in (("tar", ".tar"), ("list", ".txt"), ("photograph", EXTENSIONS)):
        if address.lower().endswith(ending):
            return kind
    return "folder" if is_remote(address) else "photograph"


def scan_photographs(
    place: str | os.PathLike[str],
    progress: ProgressCallback = no_progress,
    *,
    on_error: str = "raise",
    classes: str | None = None,
) -> PhotoFolder:
    """Return the photographs of a place with their classes and tags.

    Parameters
    ----------
    on_error, classes : as for `scan_folder`.

    Raises
    ------
    StorageError : the place is missing or holds no photographs, or what it says about them is
        invalid.
    """
    address, kind = os.fspath(place), kind_of_place(place)
    if kind == "tar":
        files = expand_pattern(address)
        records = list(chain.from_iterable(scan_tar(each, classes or "top") for each in files))
        return PhotoFolder(records, ())
    if kind == "folder" or kind == "photograph":
        return scan_folder(address, progress, on_error=on_error, classes=classes)
    folder, names = _list_photographs(address)
    sources = [join_address(folder, name) for name in names]
    repeated = [name for name, count in Counter(sources).items() if count > 1]
    if repeated:
        raise StorageError(f"{address} must name each photograph once, got {repeated[0]} twice.")
    metadata = [name for name in METADATA_NAMES if _exists(join_address(folder, name))]
    listing = FolderListing(photographs=names, metadata=metadata)
    return describe_photographs(
        folder, listing, sources, progress, on_error, classes=classes, is_complete=False
    )


def find_sources(place: Source) -> list[tuple[str, Source]]:
    """Return the photographs of a place with their names, which in a folder are relative to it."""
    kind = kind_of_place(place)
    if isinstance(place, PackedImage) or kind == "photograph":
        return [(source_name(place), place)]
    if kind == "tar":
        return [(source_name(each.source), each.source) for each in scan_photographs(place).records]
    if kind == "list":
        folder, names = _list_photographs(os.fspath(place))
        return [(name, join_address(folder, name)) for name in names]
    folder = normalize_address(place)
    names = list_folder(folder).photographs
    return list(zip(names, join_addresses(folder, names), strict=True))


def expand_folders(images: Any) -> list[Any]:
    """Return a list of images, with the photographs of folders and other places in their stead."""
    found: list[Any] = []
    for source in [images] if isinstance(images, str | os.PathLike) else check_images(images):
        is_place = isinstance(source, str | os.PathLike)
        found += [each for _, each in find_sources(source)] if is_place else [source]
    return found


def require_sources(place: str | os.PathLike[str]) -> list[tuple[str, Source]]:
    """Return the photographs of a place, see `find_sources`; there must be some."""
    is_local_file = kind_of_place(place) == "photograph" and not is_remote(place)
    if is_local_file and not os.path.exists(place):
        raise StorageError(f"{place} must be a place of photographs, but it does not exist.")
    found = find_sources(place)
    if not found:
        raise StorageError(f"{place} contains no photographs.")
    return found


def expand_pattern(address: str) -> list[str]:
    """Return the files that a pattern stands for; an address without a pattern is itself.

    Braces stand for all numbers of a range, and `*`, `?` and `[…]` for the files on this machine.

    >>> expand_pattern("photos-{08..10}.tar")
    ['photos-08.tar', 'photos-09.tar', 'photos-10.tar']
    """
    if not is_remote(address) and os.path.exists(address):
        return [address]
    if found := _RANGE.search(address):
        first, last = found.groups()
        numbers = range(int(first), int(last) + 1)
        if not numbers:
            raise StorageError(f"{address} must have a range that rises, got {found[0]}.")
        parts = (_RANGE.sub(f"{number:0{len(first)}d}", address, count=1) for number in numbers)
        return [name for part in parts for name in expand_pattern(part)]
    if is_remote(address) or not glob.has_magic(address):
        return [address]
    names = glob.glob(address)
    if not names:
        raise StorageError(f"{address} must stand for files, got none.")
    return sorted(names)


def _list_photographs(address: str) -> tuple[str, list[str]]:
    """Return the folder of a list, and the names in it; names of files elsewhere are absolute."""
    folder = _folder_of_list(address)
    start = f"{absolute_address(folder)}/"
    lines = [line.strip() for line in split_lines(decode_text(read_address(address), address))]
    # Whoever wrote the list must not make this program connect to another machine.
    if elsewhere := next(filter(is_remote, lines), None):
        raise StorageError(f"{address} must list paths of files, got {elsewhere!r}.")
    names = [str(PurePosixPath(line)) for line in lines if line]
    if not names:
        raise StorageError(f"{address} must list photographs, got none.")
    return folder, [name.removeprefix(start) for name in names]


def _folder_of_list(address: str) -> str:
    return address.rpartition("/")[0] if is_remote(address) else os.path.dirname(address)


def _exists(address: str) -> bool:
    if not is_remote(address):
        return os.path.isfile(address)
    system, path = open_file_system(address)
    with storage_errors(address):
        return bool(system.exists(path))


def scan_tar(address: str, classes: str = "top") -> list[ImageRecord]:
    """Return the photographs in a tar file with their classes and tags, in its order.

    The members `key.jpg`, `key.cls` and `key.json` belong to one photograph. Its class is the text
    of `key.cls`, or `label` of the JSON object, or a folder on its path, as in a folder of
    photographs, but it has none if `classes` is "none"; its tags are `tags` of the JSON object.
    Other members are ignored. The file must not be compressed:
    a member is then a range of its bytes.

    Raises
    ------
    StorageError : the file cannot be read, or a class or tags are invalid.
    """
    with open_address(address) as file, storage_errors(address):
        try:
            with tarfile.open(fileobj=file, mode="r:") as archive:
                records = _read_records(address, archive, classes)
        except tarfile.TarError as error:
            raise StorageError(
                f"{address} must be a whole tar file that is not compressed, got another: {error}."
            ) from error
    if not records:
        raise StorageError(f"{address} contains no photographs.")
    return records


def _read_records(address: str, archive: tarfile.TarFile, classes: str) -> list[ImageRecord]:
    images: dict[str, PackedImage] = {}
    labels: dict[str, str] = {}
    described: dict[str, dict[str, Any]] = {}
    for member in archive:
        name = member.name.removeprefix("./")
        folder, slash, base = name.rpartition("/")
        stem, _, ending = base.partition(".")
        # A hidden file has no stem; a sparse member is not a range of bytes.
        if not member.isreg() or member.issparse() or not stem:
            continue
        key, where = f"{folder}{slash}{stem}", f"{address}/{name}"
        if f".{ending.lower()}" in EXTENSIONS:
            if key in images:
                raise StorageError(
                    f"{where} must be the only photograph of its key, got {images[key].name}."
                )
            images[key] = PackedImage(address, name, member.offset_data, member.size)
        elif ending == "cls":
            labels[key] = _read_text(archive, member, where)
        elif ending == "json":
            described[key] = _read_object(archive, member, where)
    return [
        _make_record(image, labels.get(key), described.get(key, {}), classes)
        for key, image in images.items()
    ]


def _make_record(
    image: PackedImage, label: str | None, described: dict[str, Any], classes: str
) -> ImageRecord:
    tags = parse_tags(image.name, described.get("tags"))
    if classes == "none" or (label is None and "label" not in described):
        return ImageRecord(image, folder_label(image.member, classes), tags)
    given = described.get("label") if label is None else label
    return ImageRecord(image, parse_label(image.name, given), tags)


def _read_text(archive: tarfile.TarFile, member: tarfile.TarInfo, where: str) -> str:
    if member.size > MAX_TEXT:
        raise StorageError(f"{where} must have at most {MAX_TEXT} bytes, got {member.size}.")
    file = archive.extractfile(member)
    assert file is not None, "it is a regular file"
    with storage_errors(where):
        return decode_text(file.read(), where)


def _read_object(archive: tarfile.TarFile, member: tarfile.TarInfo, where: str) -> dict[str, Any]:
    text = _read_text(archive, member, where)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise StorageError(f"{where}: expected a JSON object, got {text[:80]!r}.")
    return found
