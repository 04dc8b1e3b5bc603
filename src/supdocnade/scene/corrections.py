"""Corrections: classes and tags that a person has given to photographs.

A file of corrections has the columns of a metadata file (`folders.metadata`) and one more, `key`,
the digest of the contents of a photograph. A photograph that has a key is found by it, wherever it
is and whatever its name; one without a key is found by its path, `file_name`. A later line about
the same photograph replaces an earlier one. A class or tags that a line leaves empty stay as they
are; a line with neither of them withdraws the correction. `tags` are all tags of a photograph. If
somebody has judged single ones, they are in `judged`, which training ignores, since it must know
which tags a photograph does not have.
"""

import json
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePath
from typing import NamedTuple

from supdocnade.errors import InvalidArgument, StorageError, UnreadableImage, UnwritableFile
from supdocnade.folders.metadata import parse_label, parse_tags, read_rows
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.images.reading import read_with_key
from supdocnade.images.source import absolute_address, source_name
from supdocnade.storage import lock_file
from supdocnade.text import line_error, read_file

MAX_CORRECTIONS, MAX_BYTES = 100_000, 64 * 2**20
"""Photographs and bytes of a file that a server writes."""


class Correction(NamedTuple):
    """Class and tags that a person has given to a photograph."""

    file_name: str
    """Path, or the name that an uploaded photograph had."""
    key: str | None = None
    """Digest of its contents, see `content_key`; None if it is known by its path."""
    label: str | None = None
    """None if the class is not corrected."""
    tags: tuple[str, ...] | None = None
    """All of its tags; None if they are not corrected."""
    judged: dict[str, bool] | None = None
    """Single tags, and whether the photograph has them, if `tags` is None."""

    @property
    def is_withdrawn(self) -> bool:
        """True if nothing is corrected."""
        return self.label is None and self.tags is None and not self.judged

    @property
    def identity(self) -> str:
        """The key, or the absolute path, which are equal for the same photograph."""
        return self.key or absolute_address(self.file_name)

    def to_line(self) -> str:
        """Return the correction as a line of JSON in ASCII, without what is None."""
        given = {name: value for name, value in self._asdict().items() if value is not None}
        return json.dumps(given) + "\n"


def read_corrections(path: str | os.PathLike[str]) -> dict[str, Correction]:
    """Return the corrections in a JSON lines, CSV or TSV file by `Correction.identity`.

    Raises
    ------
    StorageError : the file cannot be read, or a line is invalid.
    """
    name = os.fspath(path)
    found: dict[str, Correction] = {}
    for line, row in read_rows(name):
        if isinstance(row, StorageError):
            raise row
        where = f"{name}, line {line}"
        file_name, key = row.get("file_name"), row.get("key") or None
        label, tags, judged = row.get("label"), row.get("tags"), row.get("judged")
        if not isinstance(file_name, str) or not file_name.strip():
            raise line_error(name, line, "the name of a file as file_name", file_name)
        if key is not None and not isinstance(key, str):
            raise line_error(name, line, "a string as key", key)
        if judged is not None and not _are_judged(judged):
            raise line_error(name, line, "true or false for each tag in judged", judged)
        correction = Correction(
            file_name.strip(),
            key,
            parse_label(where, label),
            # An empty cell of a table is one that nobody has filled in.
            parse_tags(where, None if tags == "" else tags),
            judged,
        )
        _replace(found, correction)
    return found


def _are_judged(found: object) -> bool:
    """Return whether a value can be `Correction.judged`."""
    return isinstance(found, dict) and all(type(each) is bool for each in found.values())


def _replace(corrections: dict[str, Correction], new: Correction) -> None:
    """Let a correction take the place of an earlier one, or withdraw it."""
    corrections.pop(new.identity, None)
    if not new.is_withdrawn:
        corrections[new.identity] = new


class CorrectionFile:
    """A file to which a server appends corrections; no other server may have it open.

    Parameters
    ----------
    path : of a JSON lines file, which is created if it is missing.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        if self.path.suffix != ".jsonl":
            raise InvalidArgument(f"the file of corrections must end in .jsonl, got {self.path}.")
        self._lock = threading.Lock()
        try:
            self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 (closed by `close`)
        except OSError as error:
            raise UnwritableFile(f"{self.path} cannot be written: {error.strerror}.") from error
        try:
            lock_file(self._file)
            self._corrections = read_corrections(self.path)
            content = read_file(self.path)
            if content and not content.endswith(b"\n"):
                self._append(b"\n")
        except OSError as error:
            self.close()
            raise StorageError(
                f"{self.path} cannot be used now: another server keeps its corrections there."
            ) from error
        except StorageError:
            self.close()
            raise

    def __len__(self) -> int:
        """Return the number of photographs that are corrected."""
        return len(self._corrections)

    def has(self, path: str) -> bool:
        """Return whether a photograph that is known by its path is corrected."""
        return path in self._corrections

    def newest(self, offset: int, limit: int) -> list[Correction]:
        """Return a page of the corrections, the last one first."""
        with self._lock:
            return list(self._corrections.values())[::-1][offset : offset + limit]

    def add(self, correction: Correction) -> None:
        """Write a correction to the disk, all of it or nothing.

        Raises
        ------
        StorageError : there is no room for it, the file cannot be written, or another one is in
            its place.
        """
        line = correction.to_line().encode("ascii")
        with self._lock:
            is_new = correction.identity not in self._corrections
            size = os.fstat(self._file.fileno()).st_size + len(line)
            if size > MAX_BYTES or (is_new and len(self) >= MAX_CORRECTIONS):
                raise StorageError(
                    f"{self.path.name} has reached its limit, {MAX_CORRECTIONS} photographs or "
                    f"{MAX_BYTES // 2**20} MiB; train on it, and start the server with a new file."
                )
            self._append(line)
            _replace(self._corrections, correction)

    def close(self) -> None:
        """Close the file, so that another server may open it."""
        self._file.close()

    def _append(self, content: bytes) -> None:
        before = os.fstat(self._file.fileno())
        try:
            if not os.path.samestat(before, os.stat(self.path)):
                raise UnwritableFile(f"{self.path.name} was replaced by another file.")
            if self._file.write(content) != len(content):
                raise OSError(None, "no space left on device")
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                os.truncate(self._file.fileno(), before.st_size)
            raise UnwritableFile(
                f"{self.path.name} cannot be written: {error.strerror or error}."
            ) from error


def correct_records(
    records: Sequence[ImageRecord], corrections: Mapping[str, Correction]
) -> tuple[list[ImageRecord], list[str]]:
    """Return the photographs that are corrected, with their new classes and tags, and notes.

    Photographs are read only while corrections by contents are missing, those with the same file
    name first.

    Parameters
    ----------
    corrections : by `Correction.identity`.
    """
    complete = {key: each for key, each in corrections.items() if each[2:4] != (None, None)}
    missing, found = complete, dict[int, Correction]()
    for number, record in enumerate(records):
        path = absolute_address(source_name(record.source))
        if (correction := missing.get(path)) is not None and correction.key is None:
            found[number] = missing.pop(path)
    names = {PurePath(each.file_name).name for each in missing.values()}
    numbers = sorted(
        range(len(records)),
        key=lambda number: PurePath(source_name(records[number].source)).name not in names,
    )
    for number in numbers:
        if not any(each.key for each in missing.values()):
            break
        try:
            _, key = read_with_key(records[number].source)
        except (UnreadableImage, StorageError):
            continue
        if key in missing:
            found[number] = missing.pop(key)
    corrected = [_correct(records[number], found[number]) for number in sorted(found)]
    if not missing:
        return corrected, []
    example = next(iter(missing.values())).file_name
    which = "1 correction is of a photograph"
    if len(missing) > 1:
        which = f"{len(missing)} corrections are of photographs"
    return corrected, [f"{which} not found here, such as {example}."]


def _correct(record: ImageRecord, correction: Correction) -> ImageRecord:
    return replace(
        record,
        label=record.label if correction.label is None else correction.label,
        tags=record.tags if correction.tags is None else correction.tags,
    )
