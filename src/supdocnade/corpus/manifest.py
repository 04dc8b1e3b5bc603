"""The manifest of a corpus: what its shards are, and the checksums of their files.

It names no paths and no types: where a file lies and what is in it follows from the number of its
shard, so nothing that stands in a manifest leads elsewhere.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from supdocnade.errors import StorageError
from supdocnade.storage import write_atomically

FORMAT = 1
NAME = "manifest.json"
LOCK = ".lock"

MAX_WORDS = 2**31 - 1
"""Ids are int32."""
MAX_TOKENS = 2**48
"""Of one shard; far more than fits on a disk, far less than overflows."""

CHECKSUM_BYTES = 16
PARTS = ("ids", "offsets", "records", "counts")
"""Files of a shard; the last is there where counts were fractions."""


@dataclass(frozen=True)
class ShardEntry:
    """What the manifest says about a shard."""

    documents: int
    tokens: int
    ids: str
    """Checksums of the files, in hexadecimal digits."""
    offsets: str
    records: str
    counts: str | None


@dataclass(frozen=True)
class Manifest:
    """What a manifest says."""

    n_words: int
    encoder: str | None
    shards: tuple[ShardEntry, ...] = ()


def checksum(content: bytes) -> str:
    """Return the checksum of a file's content."""
    return hashlib.blake2b(content, digest_size=CHECKSUM_BYTES).hexdigest()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of a folder, atomically."""
    write_atomically(folder / NAME, _encode({"format": FORMAT, **asdict(manifest)}))


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder; a damaged or foreign one raises `StorageError`."""
    path = folder / NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise StorageError(f"{folder} is no corpus: it has no {NAME}.") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        stored = json.loads(content)["corpus"]
        # Whoever changes a letter changes the checksum, or the letters that would be written.
        intact = isinstance(stored, dict) and content == _encode(stored)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StorageError(f"{path} is damaged, or no manifest of a corpus: {error}.") from error
    if not intact:
        raise StorageError(f"{path} is damaged: its contents are not those that were written.")
    if stored.get("format") != FORMAT:
        raise StorageError(
            f"{path} has format {stored.get('format')!r}, this version reads {FORMAT}."
        )
    try:
        return _build(stored)
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{path} is damaged: {error}.") from error


def _encode(stored: dict[str, Any]) -> bytes:
    text = json.dumps(stored, sort_keys=True)
    whole = {"checksum": checksum(text.encode()), "corpus": stored}
    return json.dumps(whole, sort_keys=True, indent=1).encode() + b"\n"


def _build(stored: dict[str, Any]) -> Manifest:
    """Return a manifest of which every value was checked."""
    if stored.keys() != {"format", "n_words", "encoder", "shards"}:
        raise ValueError(f"it has the entries {sorted(stored)}")
    encoder, shards = stored["encoder"], stored["shards"]
    if encoder is not None and not isinstance(encoder, str):
        raise ValueError(f"encoder must be a str or null, got {encoder!r}")
    if not isinstance(shards, list):
        raise ValueError(f"shards must be a list, got {shards!r}")
    n_words = _whole("n_words", stored["n_words"], 1, MAX_WORDS)
    return Manifest(n_words, encoder, tuple(_entry(number, e) for number, e in enumerate(shards)))


def _entry(number: int, given: Any) -> ShardEntry:
    if not isinstance(given, dict) or given.keys() != {"documents", "tokens", *PARTS}:
        raise ValueError(f"shard {number} is not described as shards are")
    for part in PARTS:
        text = given[part]
        missing = text is None and part == "counts"
        if not missing and not (isinstance(text, str) and len(text) == 2 * CHECKSUM_BYTES):
            raise ValueError(f"the checksum of shard {number}'s {part} is {text!r}")
    _whole(f"documents of shard {number}", given["documents"], 1, MAX_TOKENS)
    _whole(f"tokens of shard {number}", given["tokens"], 0, MAX_TOKENS)
    return ShardEntry(**given)


def _whole(name: str, value: object, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, got {value!r}")
    return value


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other writers out of a folder; the lock goes with the process that holds it."""
    try:
        file = open(folder / LOCK, "ab")  # noqa: SIM115 (closed by the with below)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error.strerror}.") from error
    with file:
        try:
            _lock(file)
        except OSError as error:
            raise StorageError(
                f"{folder} cannot be written now: another process is writing to it."
            ) from error
        yield


def _lock(file: IO[bytes]) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
