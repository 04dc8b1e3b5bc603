"""The manifest of a corpus on disk: a line of JSON for the corpus, then a line for every shard.

A shard is appended by its line alone, whatever the number of shards before it. The checksum of a
line depends on all lines before it, so the last one identifies the whole corpus. A kill while a
line is written leaves its beginning at the end of the file; readers ignore it, and the next append
replaces it. The manifest names no paths and no types: both follow from the number of a shard, so no
manifest leads to files elsewhere.
"""

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from supdocnade.errors import StorageError, UnwritableFile
from supdocnade.storage import write_atomically

FORMAT = 2
MANIFEST_NAME = "manifest.jsonl"

MAX_VOCABULARY = 2**31 - 1
"""Word ids are int32."""
MAX_SHARD_TOKENS = 2**48
"""Far more tokens than fit on a disk, far fewer than overflow."""

CHECKSUM_BYTES = 16
PARTS = ("ids", "offsets", "records", "counts")
"""Files of a shard; the last exists only if some counts are fractions."""


@dataclass(frozen=True)
class ShardEntry:
    """Sizes of a shard, and the checksums of its files in hexadecimal digits."""

    documents: int
    tokens: int
    ids: str
    offsets: str
    records: str
    counts: str | None


@dataclass
class Manifest:
    """Contents of a manifest; `append_entry` adds to them."""

    n_words: int
    encoder: str | None
    shards: list[ShardEntry] = field(default_factory=list)
    end: int = 0
    """Bytes of all whole lines."""
    checksum: str = ""
    """Checksum of the last line."""


def checksum(content: bytes) -> str:
    """Return the checksum of the content of a file."""
    return hashlib.blake2b(content, digest_size=CHECKSUM_BYTES).hexdigest()


def is_corpus(folder: Path) -> bool:
    """Return whether a folder has a manifest."""
    return (folder / MANIFEST_NAME).exists()


def write_manifest(folder: Path, manifest: Manifest) -> Manifest:
    """Replace the manifest of a folder, atomically; return it with its end and checksum."""
    stored = {"format": FORMAT, "n_words": manifest.n_words, "encoder": manifest.encoder}
    lines, last = [], ""
    for each in (stored, *map(asdict, manifest.shards)):
        line, last = _encode_line(each, last)
        lines.append(line)
    content = b"".join(lines)
    write_atomically(folder / MANIFEST_NAME, content)
    return replace(manifest, end=len(content), checksum=last)


def append_entry(folder: Path, manifest: Manifest, entry: ShardEntry) -> None:
    """Add a shard to a manifest and to its file; `check_current` must have been called."""
    path = folder / MANIFEST_NAME
    line, last = _encode_line(asdict(entry), manifest.checksum)
    try:
        with open(path, "r+b") as file:
            file.truncate(manifest.end)  # The beginning of a line that a kill left.
            file.seek(manifest.end)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            os.truncate(path, manifest.end)
        raise UnwritableFile(f"{path} cannot be written: {error.strerror}.") from error
    manifest.shards.append(entry)
    manifest.end += len(line)
    manifest.checksum = last


def check_current(folder: Path, manifest: Manifest) -> None:
    """Raise `StorageError` if the manifest of a folder is not the given one.

    Only the end of the file is read: its checksum depends on everything before it.
    """
    ending = _ending(manifest.checksum)
    with _open(folder / MANIFEST_NAME) as file:
        file.seek(manifest.end - len(ending))
        found = file.read()
    if not found.startswith(ending) or b"\n" in found[len(ending) :]:
        raise StorageError(f"{folder} has changed since it was opened; open it again to append.")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder; a damaged or foreign one raises `StorageError`."""
    path = folder / MANIFEST_NAME
    with _open(path) as file:
        content = file.read()
    *lines, rest = content.split(b"\n")
    # The rest is the beginning of a line, or a whole one without its end.
    if not lines or b"}" in rest[:-1]:
        raise StorageError(f"{path} is damaged: its last line is not one that was written.")
    manifest, last = None, ""
    for number, line in enumerate(lines):
        stored, last = _decode_line(path, number, line, last)
        try:
            if manifest is None:
                manifest = _parse_corpus(path, stored)
            else:
                manifest.shards.append(_parse_entry(number - 1, stored))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(f"{path} is damaged: {error}.") from error
    assert manifest is not None
    manifest.end, manifest.checksum = len(content) - len(rest), last
    return manifest


def _open(path: Path) -> Any:
    try:
        return open(path, "rb")
    except FileNotFoundError as error:
        raise StorageError(f"{path.parent} is not a corpus: it has no {path.name}.") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error


def _encode_line(stored: dict[str, Any], previous: str) -> tuple[bytes, str]:
    """Return a line, and its checksum, which depends on that of the line before it."""
    text = json.dumps(stored, sort_keys=True)
    found = checksum((previous + text).encode())
    return text[:-1].encode() + _ending(found), found


def _ending(found: str) -> bytes:
    """Return the end of a line that has a checksum."""
    return f', "checksum": "{found}"}}\n'.encode()


def _decode_line(path: Path, number: int, line: bytes, previous: str) -> tuple[dict[str, Any], str]:
    """Return the content of a line and its checksum."""
    try:
        stored = json.loads(line)
        del stored["checksum"]
        # Any changed byte changes the checksum, or differs from what would be written.
        encoded, found = _encode_line(stored, previous)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StorageError(
            f"{path} is damaged, or not a corpus manifest: line {number + 1}: {error}."
        ) from error
    if encoded != line + b"\n":
        raise StorageError(f"{path} is damaged: line {number + 1} is not the one that was written.")
    return stored, found


def _parse_corpus(path: Path, stored: dict[str, Any]) -> Manifest:
    """Return the manifest that the first line describes, without shards."""
    if stored.get("format") != FORMAT:
        raise StorageError(
            f"{path} has format {stored.get('format')!r}, this version reads {FORMAT}."
        )
    if stored.keys() != {"format", "n_words", "encoder"}:
        raise ValueError(f"it has the entries {sorted(stored)}")
    encoder = stored["encoder"]
    if encoder is not None and not isinstance(encoder, str):
        raise ValueError(f"encoder must be a str or null, got {encoder!r}")
    return Manifest(_check_int("n_words", stored["n_words"], 1, MAX_VOCABULARY), encoder)


def _parse_entry(number: int, given: Any) -> ShardEntry:
    if not isinstance(given, dict) or given.keys() != {"documents", "tokens", *PARTS}:
        expected = sorted({"documents", "tokens", *PARTS})
        raise ValueError(f"shard {number} must have the entries {expected}, got {given!r}")
    for part in PARTS:
        text = given[part]
        missing = text is None and part == "counts"
        if not missing and not (isinstance(text, str) and len(text) == 2 * CHECKSUM_BYTES):
            raise ValueError(f"the checksum of shard {number}'s {part} is {text!r}")
    _check_int(f"documents of shard {number}", given["documents"], 1, MAX_SHARD_TOKENS)
    _check_int(f"tokens of shard {number}", given["tokens"], 0, MAX_SHARD_TOKENS)
    return ShardEntry(**given)


def _check_int(name: str, value: object, minimum: int, maximum: int) -> int:
    if type(value) is not int or not minimum <= value <= maximum:
        raise ValueError(
            f"{name} must be a whole number from {minimum} to {maximum}, got {value!r}"
        )
    return value
