"""Keywords in the files of photographs: XMP sidecars, or JPEG files; and how to take them back.

A record has a line for each file that is written, before it is. That of a JPEG file has the bytes
that are replaced and digests of the file before and after, so that it can be restored as it was.
"""

import base64
import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from supdocnade.errors import StorageError, UnwritableFile
from supdocnade.folders.jpeg_packet import START, find_segment, read_packet, replace_packet
from supdocnade.folders.keywords import (
    UnusableXMP,
    add_keywords,
    missing_keywords,
    new_packet,
    read_settled_keywords,
    remove_keywords,
)
from supdocnade.folders.tags import exclude_tags
from supdocnade.images.decode import read_embedded_keywords
from supdocnade.storage import sync_folder, write_atomically
from supdocnade.text import line_error, read_file, read_lines

Line = dict[str, Any]
"""A line of the record."""


class KeywordWriter:
    """Writer of keywords to the sidecars of photographs, or into JPEG files.

    Parameters
    ----------
    record : file that lists what is written, first. By default, nothing is listed.
    levels : keywords with their levels, by the tags that have some.
    predicted : the keywords come from a model, and nobody has confirmed them.
    embed : write into JPEG files, and into sidecars that exist; other formats get sidecars.
    by_stem : name sidecars a.xmp instead of a.jpg.xmp.
    dry_run : write nothing.
    """

    def __init__(
        self,
        record: Path | None = None,
        levels: Mapping[str, str] | None = None,
        *,
        predicted: bool = True,
        embed: bool = False,
        by_stem: bool = False,
        dry_run: bool = False,
    ):
        self.record, self.levels, self.predicted = record, levels or {}, predicted
        self.embed, self.by_stem, self.dry_run = embed, by_stem, dry_run
        self.n_sidecars = self.n_embedded = 0
        self._owners: dict[str, str] = {}
        """Photograph of each sidecar, both as resolved paths."""
        if record is not None and record.exists() and not dry_run:
            # A kill may have cut its last line. If it cannot be written, that is an error at once.
            content = read_file(record)
            append_text(record, "" if content.endswith(b"\n") or not content else "\n")

    def path_of(self, photograph: str) -> Path:
        """Return the path of the sidecar of a photograph."""
        path = Path(photograph)
        return path.with_suffix(".xmp") if self.by_stem else path.with_name(f"{path.name}.xmp")

    def write(self, name: str, keywords: list[str]) -> dict[Path, Line]:
        """Add keywords to the files of a photograph; return the lines of the record by file.

        Keywords that someone gave the photograph, or removed, in the file or in a sidecar are not
        added.

        Raises
        ------
        StorageError : a file is damaged, or cannot be written, or the sidecar also belongs to
            another photograph. It is then unchanged.
        """
        photograph, sidecar = Path(name), self.path_of(name)
        if not keywords:
            return {}
        keywords = exclude_tags(keywords, read_settled_keywords(photograph))
        keywords = [self.levels.get(word, word) for word in keywords]
        changes: dict[Path, tuple[Line, bytes]] = {}
        if self.embed and read_file(photograph, 0, len(START)) == START:
            changes[photograph] = self._embed(photograph, keywords)
        if not changes or os.path.lexists(sidecar):
            real = os.path.realpath(photograph)
            owner = self._owners.setdefault(os.path.realpath(sidecar), real)
            if owner != real:
                raise StorageError(
                    f"{sidecar} would hold the keywords of {owner} and {photograph}."
                )
            changes[sidecar] = self._add_to_sidecar(sidecar, keywords)
        lines = {path: line for path, (line, _) in changes.items() if line["keywords"]}
        for path, line in lines.items():
            if not self.dry_run:
                # The record first: a line about a file that a kill kept unchanged does no harm.
                self._append_to_record(line)
                write_atomically(Path(os.path.realpath(path)), changes[path][1])
            self.n_embedded += path == photograph
            self.n_sidecars += path == sidecar
        return lines

    def _append_to_record(self, line: Line) -> None:
        if self.record is not None:
            try:
                append_text(self.record, json.dumps(line) + "\n")
            except UnwritableFile as error:
                raise UnwritableRecord(str(error)) from error

    def _add_to_sidecar(self, sidecar: Path, keywords: list[str]) -> tuple[Line, bytes]:
        """Return the line of the record, with the keywords that it lacks, and the new sidecar."""
        with _xmp_errors(sidecar):
            before = read_file(sidecar) if os.path.lexists(sidecar) else None
            missing, after = self._add(before, keywords, [])
        if missing and before is not None:
            _check_not_read_only(sidecar)
        path = os.path.realpath(sidecar)
        return {"sidecar": path, "created": before is None, "keywords": missing}, after

    def _embed(self, photograph: Path, keywords: list[str]) -> tuple[Line, bytes]:
        """Return the line of the record, with the keywords that it lacks, and the new JPEG file."""
        path = Path(os.path.realpath(photograph))
        with _xmp_errors(photograph):
            before, status = read_file(path), path.stat()
            start, end = find_segment(before)
            # Most programs read no IPTC keywords where there are some in XMP.
            missing, packet = self._add(
                read_packet(before), keywords, read_embedded_keywords(path)[1]
            )
            after = replace_packet(before, packet) if missing else before
        if missing:
            _check_not_read_only(path)
        line = {
            "photo": os.fspath(path),
            "keywords": missing,
            "segment": base64.b64encode(before[start:end]).decode(),
            "modified": status.st_mtime_ns,
            "before": _digest(before),
            "after": _digest(after),
        }
        return line, after

    def _add(
        self, packet: bytes | None, keywords: list[str], given: list[str]
    ) -> tuple[list[str], bytes]:
        """Return the keywords that a packet lacks, and the packet with them; see `add_keywords`."""
        if packet is None:
            return keywords, new_packet(keywords, given, predicted=self.predicted)
        missing = missing_keywords(packet, keywords)
        return missing, add_keywords(packet, missing, given, predicted=self.predicted)


def _check_not_read_only(path: Path) -> None:
    """Raise if a file is protected: replacing it needs permission for its folder alone."""
    if not (path.stat().st_mode & 0o222 and os.access(path, os.W_OK)):
        raise UnwritableFile(f"{path} is left unchanged: it is read-only.")


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def new_record() -> Path:
    """Return the path of a record that is named after the time."""
    return Path(f"supdocnade-xmp-{datetime.now():%Y%m%d-%H%M%S}.jsonl")


def undo_command(record: Path) -> str:
    """Return the command that takes back what a record lists."""
    return f"supdocnade tag --undo {shlex.quote(str(record))}"


class UnwritableRecord(UnwritableFile):
    """The record cannot be written, so that no further file may be."""


def append_text(path: Path, text: str) -> None:
    """Append ASCII text to a file, all of it or nothing; a file that does not exist is created."""
    before = path.stat().st_size if path.exists() else 0
    try:
        with open(path, "a", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # A backup must be there before its photograph is changed.
        if not before:
            sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            os.truncate(path, before)
        raise UnwritableFile(f"{path} cannot be written: {error.strerror}.") from error


@contextmanager
def _xmp_errors(path: Path) -> Iterator[None]:
    """Turn the errors of a file with XMP into a `StorageError` that names it."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
    except UnusableXMP as error:
        raise StorageError(f"{path} is left unchanged: {error}.") from error


def undo_record(record: Path, *, dry_run: bool = False) -> Iterator[str | StorageError]:
    """Take back what a record lists, the last line first.

    From a sidecar the keywords are removed; one that was created and has not changed since is
    deleted. A JPEG file is restored as it was, unless it has changed since: that is an error.

    Yields
    ------
    A message for each file that changes, or the error of one that cannot be changed.
    """
    lines = _read_record(record)
    states: dict[str, list[str]] = {}  # Digests of each JPEG file before its lines.
    for line in lines:
        states.setdefault(line.get("photo", ""), []).append(line.get("before", ""))
    for line in reversed(lines):
        undone = states[line.get("photo", "")]
        try:
            if "sidecar" in line:
                message = _undo_sidecar(line, dry_run=dry_run)
            else:
                message = _undo_photograph(line, undone, dry_run=dry_run)
        except StorageError as error:
            yield error
        else:
            if message:
                yield message
        del undone[-1:]


def _undo_sidecar(line: Line, *, dry_run: bool) -> str:
    """Undo a line of a record; return a message, "" if the sidecar has none of the keywords."""
    path, keywords = Path(line["sidecar"]), line["keywords"]
    with _xmp_errors(path):
        if not path.exists():
            return ""
        before = read_file(path)
        packets = [new_packet(keywords, predicted=each) for each in (True, False)]
        if line["created"] and before in packets:
            _check_not_read_only(path)
            if not dry_run:
                path.unlink()
            return f"{'would delete' if dry_run else 'deleted'} {path}"
        after = remove_keywords(before, keywords)
    if after == before:
        return ""
    _check_not_read_only(path)
    if not dry_run:
        write_atomically(path, after)
    return f"{'would remove' if dry_run else 'removed'} {', '.join(keywords)} from {path}"


def _undo_photograph(line: Line, undone: list[str], *, dry_run: bool) -> str:
    """Undo a line of a record; return a message, "" if the file has a digest of one without it."""
    path = Path(line["photo"])
    with _xmp_errors(path):
        if not path.exists() or not undone:
            return ""
        content = read_file(path)
        if _digest(content) in undone:
            return ""
        start, end = find_segment(content)
        restored = content[:start] + base64.b64decode(line["segment"]) + content[end:]
        if (_digest(content), _digest(restored)) != (line["after"], line["before"]):
            raise UnusableXMP("it has changed since it was written")
    _check_not_read_only(path)
    if dry_run:
        undone.clear()  # Earlier lines depend on what this one would leave.
    else:
        write_atomically(path, restored)
        with suppress(OSError, OverflowError):
            os.utime(path, ns=(line["modified"], line["modified"]))
    verb = "would restore" if dry_run else "restored"
    return f"{verb} {path}, without {', '.join(line['keywords'])}"


_LINES: tuple[dict[str, type], ...] = (
    {"sidecar": str, "created": bool, "keywords": list},
    {"photo": str, "keywords": list, "segment": str, "modified": int, "before": str, "after": str},
)
"""Names and types of the entries of a line about a sidecar, and of one about a JPEG file."""


def _read_record(record: Path) -> list[Line]:
    lines = []
    for number, text in enumerate(read_lines(record), start=1):
        try:
            line = json.loads(text)
            sound = {name: type(value) for name, value in line.items()} in _LINES and all(
                isinstance(word, str) for word in line["keywords"]
            )
            base64.b64decode(line.get("segment", ""))
        except (ValueError, TypeError, AttributeError, RecursionError):
            sound = False
        is_cut = text.startswith("{") and not text.endswith("}")  # Its file was not written.
        if not sound and not is_cut:
            raise line_error(record, number, "a line of a record of supdocnade tag", text)
        if sound:
            lines.append(line)
    return lines
