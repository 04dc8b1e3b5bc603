"""Photographs in tar files, as WebDataset writes them.

The members `key.jpg`, `key.cls` and `key.json` belong to one photograph. Its class is the text of
`key.cls`, or `label` of the JSON object, or the first folder on its path, as in a folder of
photographs; its tags are `tags` of the JSON object. Other members are ignored. The file must not be
compressed: a member is then a range of its bytes.
"""

import json
import tarfile
from typing import Any

from supdocnade.errors import StorageError
from supdocnade.folders.metadata import parse_label, parse_tags
from supdocnade.folders.photo_folder import EXTENSIONS, ImageRecord, folder_label
from supdocnade.images.source import PackedImage, open_address, storage_errors
from supdocnade.text import decode_text

MAX_TEXT = 1 << 20
"""Largest size of a member that describes a photograph, in bytes."""


def scan_tar(address: str) -> list[ImageRecord]:
    """Return the photographs in a tar file with their classes and tags, in its order.

    `StorageError` is raised if the file cannot be read, or a class or tags are invalid.
    """
    with open_address(address) as file, storage_errors(address):
        try:
            with tarfile.open(fileobj=file, mode="r:") as archive:
                records = _read_records(address, archive)
        except tarfile.TarError as error:
            raise StorageError(
                f"{address} must be a whole tar file that is not compressed, got another: {error}."
            ) from error
    if not records:
        raise StorageError(f"{address} must hold photographs, got none.")
    return records


def _read_records(address: str, archive: tarfile.TarFile) -> list[ImageRecord]:
    images: dict[str, PackedImage] = {}
    classes: dict[str, str] = {}
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
            classes[key] = _read_text(archive, member, where)
        elif ending == "json":
            described[key] = _read_object(archive, member, where)
    return [
        _make_record(image, classes.get(key), described.get(key, {}))
        for key, image in images.items()
    ]


def _make_record(image: PackedImage, label: str | None, described: dict[str, Any]) -> ImageRecord:
    tags = parse_tags(image.name, described.get("tags"))
    if label is None and "label" not in described:
        return ImageRecord(image, folder_label(image.member), tags)
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
