"""Photographs that are packed into shards: tar files and Parquet files.

A tar file is read as WebDataset writes it: the members `key.jpg`, `key.cls` and `key.json` belong
to one photograph. Its class is the text of `key.cls`, or `label` of the JSON object, or the first
folder on its path, as in a folder of photographs; its tags are `tags` of the JSON object. Other
members are ignored. The tar file must not be compressed: a member is then a range of its bytes.

A Parquet file is read as `datasets` of Hugging Face writes it: `image` is a struct of `bytes` and
`path`, or bytes; `label` is a string or an integer, which stands for a name if the schema has the
names of a `ClassLabel`; `tags` is a list of strings, or a string separated by `|`. `label` and
`tags` are optional, and other columns are ignored.
"""

import json
import tarfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from supdocnade.errors import StorageError, install_command
from supdocnade.folders.metadata import parse_label, parse_tags
from supdocnade.folders.photo_folder import EXTENSIONS, ImageRecord, folder_label
from supdocnade.images.source import PackedImage, open_address, read_address, storage_errors
from supdocnade.text import decode_text

N_ROW_GROUPS = 2
"""Row groups of Parquet files that stay in memory: neighbouring photographs are in one of them."""

_row_group_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class TarMember(PackedImage):
    """A photograph in a tar file."""

    start: int
    """Position of its first byte in the file."""
    size: int

    def read(self) -> bytes:
        """Return the bytes of the photograph; raise `StorageError` if they cannot be read."""
        content = read_address(self.container, self.start, self.size)
        if len(content) != self.size:
            raise StorageError(
                f"{self.name} must have {self.size} bytes, got {len(content)}: "
                f"{self.container} is truncated."
            )
        return content


@dataclass(frozen=True, slots=True)
class ParquetCell(PackedImage):
    """A photograph in a row of a Parquet file."""

    row_group: int
    row: int
    """Number within the row group."""

    def read(self) -> bytes:
        """Return the bytes of the photograph; raise `StorageError` if they cannot be read."""
        with _row_group_lock:  # So that several threads do not read the same row group.
            column = _read_row_group(self.container, self.row_group)
        content = column[self.row].as_py() if self.row < len(column) else None
        if not isinstance(content, bytes):
            raise StorageError(f"{self.name} must have the bytes of an image, got none.")
        return content


def scan_shard(address: str) -> list[ImageRecord]:
    """Return the photographs in a tar or Parquet file with their classes and tags, in its order.

    Raises
    ------
    StorageError : the file cannot be read, or a class or tags are invalid.
    """
    is_parquet = address.lower().endswith(".parquet")
    records = _scan_parquet(address) if is_parquet else _scan_tar(address)
    if not records:
        raise StorageError(f"{address} must hold photographs, got none.")
    return records


def _scan_tar(address: str) -> list[ImageRecord]:
    images: dict[str, TarMember] = {}
    labels: dict[str, str | None] = {}
    tags: dict[str, tuple[str, ...] | None] = {}
    with _open_tar(address) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            folder, slash, base = name.rpartition("/")
            stem, _, ending = base.partition(".")
            if not member.isreg() or not stem:  # A hidden file has no stem.
                continue
            key, where = f"{folder}{slash}{stem}", f"{address}/{name}"
            if f".{ending.lower()}" in EXTENSIONS:
                if key in images:
                    raise StorageError(
                        f"{where} must be the only photograph of its key, got {images[key].name}."
                    )
                images[key] = TarMember(address, name, member.offset_data, member.size)
            elif ending in ("cls", "json"):
                text = decode_text(_extract(archive, member, where), where)
                if ending == "cls":
                    labels[key] = parse_label(where, text)
                else:
                    found = _parse_object(where, text)
                    tags[key] = parse_tags(where, found.get("tags"))
                    if "label" in found:
                        labels.setdefault(key, parse_label(where, found["label"]))
    records = []
    for key, image in images.items():
        label = labels[key] if key in labels else folder_label(image.member)
        records.append(ImageRecord(image, label, tags.get(key)))
    return records


@contextmanager
def _open_tar(address: str) -> Iterator[tarfile.TarFile]:
    with open_address(address) as file, storage_errors(address):
        try:
            with tarfile.open(fileobj=file, mode="r:") as archive:
                yield archive
        except tarfile.TarError as error:
            raise StorageError(
                f"{address} must be a whole tar file that is not compressed, got another: {error}."
            ) from error


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, where: str) -> bytes:
    file = archive.extractfile(member)
    assert file is not None, "it is a regular file"
    with storage_errors(where):
        return file.read()


def _parse_object(where: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{where}: expected a JSON object, got {text[:80]!r}.") from error
    if not isinstance(found, dict):
        raise StorageError(f"{where}: expected a JSON object, got {text[:80]!r}.")
    return found


@contextmanager
def _open_parquet(address: str) -> Iterator[Any]:
    """Open a Parquet file, a `pyarrow.parquet.ParquetFile`."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise StorageError(f"{address} needs an extra: {install_command('parquet')}.") from error
    with open_address(address) as file, storage_errors(address):
        yield parquet.ParquetFile(file)


@lru_cache(maxsize=N_ROW_GROUPS)
def _read_row_group(address: str, number: int) -> Any:
    """Return the bytes of the photographs of a row group as an array of pyarrow."""
    with _open_parquet(address) as file:
        column = _image_column(address, file.schema_arrow)
        table = file.read_row_group(number, columns=[column])
    image = table.column(0).combine_chunks()
    return image.field("bytes") if column != "image" else image


def _image_column(address: str, schema: Any) -> str:
    """Return the column of the bytes of photographs: image, or bytes of the struct image."""
    from pyarrow import types

    found = schema.field("image").type if "image" in schema.names else None
    if found is not None and (types.is_binary(found) or types.is_large_binary(found)):
        return "image"
    if found is None or not types.is_struct(found) or found.get_field_index("bytes") < 0:
        got = ", ".join(f"{field.name} ({field.type})" for field in schema)
        raise StorageError(f"{address} must have a column image with bytes, got {got}.")
    return "image.bytes"


def _scan_parquet(address: str) -> list[ImageRecord]:
    _read_row_group.cache_clear()  # The file may have changed.
    with _open_parquet(address) as file:
        schema = file.schema_arrow
        in_struct = _image_column(address, schema) != "image"
        has_names = in_struct and schema.field("image").type.get_field_index("path") >= 0
        columns = [name for name in ("label", "tags") if name in schema.names]
        columns += ["image.path"] if has_names else []
        classes = _class_names(address, schema)
        cells = []
        rows: list[dict[str, Any]] = []
        for number in range(file.num_row_groups):
            n_rows = file.metadata.row_group(number).num_rows
            cells += [(number, row) for row in range(n_rows)]
            if columns:
                rows += file.read_row_group(number, columns=columns).to_pylist()
    rows = rows or [{} for _ in cells]
    names: list[Any] = [(row.get("image") or {}).get("path") for row in rows]
    if None in names or len(set(names)) < len(names):
        names = [str(number) for number in range(len(rows))]
    records = []
    for name, (group, row), values in zip(names, cells, rows, strict=True):
        where = f"{address}/{name}"
        label = _class_name(where, values.get("label"), classes)
        tags = parse_tags(where, values.get("tags"))
        records.append(ImageRecord(ParquetCell(address, name, group, row), label, tags))
    return records


def _class_names(address: str, schema: Any) -> Sequence[str] | None:
    """Return the names of the classes in the metadata of Hugging Face, None if there are none."""
    content = (schema.metadata or {}).get(b"huggingface")
    if content is None:
        return None
    try:
        names = json.loads(content)["info"]["features"]["label"]["names"]
    except KeyError:
        return None
    except (ValueError, TypeError) as error:
        raise StorageError(
            f"{address}: expected a JSON object as metadata huggingface, got {content[:80]!r}."
        ) from error
    return [str(name) for name in names]


def _class_name(where: str, label: object, classes: Sequence[str] | None) -> str | None:
    """Return the class of a row; -1 means that it is unknown, as in `datasets`."""
    if classes is None or not isinstance(label, int):
        return parse_label(where, label)
    if not -1 <= label < len(classes):
        raise StorageError(f"{where}: expected a label below {len(classes)}, got {label}.")
    return None if label == -1 else classes[label]
