"""`supdocnade tag`: write keywords to XMP sidecars, and undo it; photographs are never written."""

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from supdocnade.cli.console import format_count, print_json, print_line, print_message
from supdocnade.cli.model_commands import Tag
from supdocnade.cli.predict import open_photographs, predict_all
from supdocnade.errors import InvalidArgument, StorageError, UnwritableFile
from supdocnade.folders.keywords import (
    UnusableXMP,
    add_keywords,
    missing_keywords,
    new_packet,
    read_all_keywords,
    remove_keywords,
)
from supdocnade.folders.photo_sources import kind_of_place
from supdocnade.folders.tags import exclude_tags
from supdocnade.images.source import Source, is_local_file, source_name
from supdocnade.scene.calibration import TAG_PRECISION
from supdocnade.scene.prediction import FittedScene, Prediction
from supdocnade.storage import write_atomically
from supdocnade.text import clean_name, line_error, read_file, read_lines


def tag(options: Tag) -> int:
    """Write the keywords of photographs, or undo what was written; return 1 if something failed."""
    if options.undo is not None:
        return 1 if undo_all(options.undo, dry_run=options.dry_run, quiet=options.quiet) else 0
    named = options.images or ()
    check_local_files(named)
    fitted, sources = open_photographs(options, named)
    check_local_files(sources)
    sidecars = open_sidecars(fitted, options)

    def write(prediction: Prediction) -> str | None:
        try:
            line = sidecars.write(prediction)
        except UnwritableRecord:
            raise
        except StorageError as error:
            return str(error)
        if line is not None and options.json:
            print_json(line)
        elif line is not None and not options.quiet:
            verb = "would write" if options.dry_run else "wrote"
            path = sidecars.path_of(prediction.name)
            print_line(clean_name(f"{verb} {path}: {', '.join(line['keywords'])}"))
        return None

    try:
        return predict_all(fitted, sources, write, options)
    finally:  # Also after Ctrl-C: the summary names the record.
        if not options.quiet:
            print_message(sidecars.summary())


class Sidecars:
    """Writer of the sidecars of photographs.

    Photographs unlike those that the model was fitted on get no keywords: the precision of tags is
    known for others alone.

    Parameters
    ----------
    options : how sidecars are written. Without `record` there is no record.
    thresholds : smallest probabilities of tags that have their own.
    """

    def __init__(
        self,
        options: Tag,
        thresholds: Mapping[str, float] | None = None,
    ):
        least = options.min_probability
        self.options, self.least = options, TAG_PRECISION if least is None else least
        self.thresholds = thresholds or {}
        self.n_written = self.n_unfamiliar = 0
        self._owners: dict[str, str] = {}
        """Photograph of each sidecar, both as resolved paths."""

    def path_of(self, photograph: str) -> Path:
        """Return the path of the sidecar of a photograph."""
        path = Path(photograph)
        by_stem = self.options.sidecar == "stem"
        return path.with_suffix(".xmp") if by_stem else path.with_name(f"{path.name}.xmp")

    def keywords_of(self, prediction: Prediction) -> list[str]:
        """Return the keywords for a prediction: its tags that are probable enough, best first."""
        if prediction.unfamiliar:
            return []
        keywords = [
            tag
            for tag, probability in prediction.ranked_tags
            if probability >= self.thresholds.get(tag, self.least)
        ]
        sure = not prediction.unsure and (prediction.probability or 0.0) >= self.least
        if self.options.with_class and prediction.label is not None and sure:
            keywords = [prediction.label, *keywords]
        return exclude_tags(keywords)

    def write(self, prediction: Prediction) -> dict[str, Any] | None:
        """Add keywords to the sidecar of a photograph; return the line of the record, or None.

        It is None if nothing changes.

        Keywords that someone gave the photograph elsewhere, in the file or in its other sidecar,
        are not added.

        Raises
        ------
        StorageError : the sidecar also belongs to another photograph, is damaged, or cannot be
            written. It is then unchanged.
        """
        path, keywords = self.path_of(prediction.name), self.keywords_of(prediction)
        self.n_unfamiliar += prediction.unfamiliar
        real = os.path.realpath(prediction.name)
        target = Path(os.path.realpath(path))
        owner = self._owners.setdefault(os.fspath(target), real)
        if owner != real:
            raise StorageError(f"{path} would hold the keywords of {owner} and {prediction.name}.")
        with _xmp_errors(path):
            before = read_file(path) if os.path.lexists(path) else None
            if before is not None:
                keywords = missing_keywords(before, keywords)
            if keywords:
                keywords = exclude_tags(keywords, read_all_keywords(Path(prediction.name)))
            after = new_packet(keywords) if before is None else add_keywords(before, keywords)
        if not keywords:
            return None
        line = {"sidecar": os.fspath(target), "created": before is None, "keywords": keywords}
        if not self.options.dry_run:
            # The record first: a line about a sidecar that a kill kept unchanged does no harm.
            self._append_to_record(line)
            write_atomically(target, after)
        self.n_written += 1
        return line

    def summary(self) -> str:
        """Return a line with the number of sidecars and the name of the record."""
        number = format_count(self.n_written, "sidecar")
        if self.n_unfamiliar:
            unlike = format_count(self.n_unfamiliar, "photograph")
            number += f", none for {unlike} unlike the training photographs"
        if self.options.dry_run:
            return f"would write {number}"
        record = self.options.record
        undo = f"; undo with: supdocnade tag --undo {shlex.quote(str(record))}"
        return f"wrote {number}{undo if self.n_written and record else ''}"

    def _append_to_record(self, line: dict[str, Any]) -> None:
        if self.options.record is not None:
            try:
                append_text(self.options.record, json.dumps(line) + "\n")
            except UnwritableFile as error:
                raise UnwritableRecord(str(error)) from error


def open_sidecars(fitted: FittedScene, options: Tag) -> Sidecars:
    """Return the writer of the sidecars of photographs."""
    if options.record is None:
        name = f"supdocnade-xmp-{datetime.now():%Y%m%d-%H%M%S}.jsonl"
        options = replace(options, record=Path(name))
    elif not options.dry_run:
        append_text(options.record, "")  # If it cannot be written, that is an error at once.
    thresholds = fitted.precise_thresholds if options.min_probability is None else None
    return Sidecars(options, thresholds)


def check_local_files(sources: Sequence[Source]) -> None:
    """Raise `InvalidArgument` if a sidecar cannot be beside one of the photographs."""
    for source in sources:
        if not is_local_file(source) or kind_of_place(source) == "tar":
            raise InvalidArgument(
                "sidecars are written beside photographs that are files on this machine, "
                f"got {source_name(source)}."
            )


class UnwritableRecord(UnwritableFile):
    """The record cannot be written, so that no further sidecar may be."""


def append_text(path: Path, text: str) -> None:
    """Append ASCII text to a file, all of it or nothing; a file that does not exist is created."""
    before = path.stat().st_size if path.exists() else 0
    try:
        with open(path, "a", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        with suppress(OSError):
            os.truncate(path, before)
        raise UnwritableFile(f"{path} cannot be written: {error.strerror}.") from error


@contextmanager
def _xmp_errors(path: Path) -> Iterator[None]:
    """Turn the errors of a sidecar into a `StorageError` that names it."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
    except UnusableXMP as error:
        raise StorageError(f"{path} is left unchanged: {error}.") from error


def undo_sidecars(record: Path, *, dry_run: bool = False) -> Iterator[str | StorageError]:
    """Remove the keywords that a record lists from their sidecars.

    A sidecar that was created and has not changed since is deleted. The later of two lines about a
    sidecar is undone first.

    Yields
    ------
    A message for each sidecar that changes, or the error of one that cannot be changed.
    """
    for line in reversed(_read_record(record)):
        try:
            message = _undo_sidecar(**line, dry_run=dry_run)
        except StorageError as error:
            yield error
        else:
            if message:
                yield message


def _undo_sidecar(sidecar: str, created: bool, keywords: list[str], *, dry_run: bool) -> str:
    """Undo a line of a record; return a message, "" if the sidecar has none of the keywords."""
    path = Path(sidecar)
    with _xmp_errors(path):
        if not path.exists():
            return ""
        before = read_file(path)
        if created and before == new_packet(keywords):
            if not dry_run:
                path.unlink()
            return f"{'would delete' if dry_run else 'deleted'} {path}"
        after = remove_keywords(before, keywords)
    if after == before:
        return ""
    if not dry_run:
        write_atomically(path, after)
    return f"{'would remove' if dry_run else 'removed'} {', '.join(keywords)} from {path}"


def _read_record(record: Path) -> list[dict[str, Any]]:
    lines = []
    for number, text in enumerate(read_lines(record), start=1):
        try:
            line = json.loads(text)
            sound = (
                set(line) == {"sidecar", "created", "keywords"}
                and isinstance(line["sidecar"], str)
                and type(line["created"]) is bool
                and isinstance(line["keywords"], list)
                and all(isinstance(word, str) for word in line["keywords"])
            )
        except (ValueError, TypeError, RecursionError):
            sound = False
        if not sound:
            raise line_error(record, number, "a line of a record of supdocnade tag", text)
        lines.append(line)
    return lines


def undo_all(record: Path, *, dry_run: bool, quiet: bool) -> int:
    """Remove from sidecars what a record lists; return the number of failures."""
    n_changed = n_failed = 0
    for result in undo_sidecars(record, dry_run=dry_run):
        if isinstance(result, str):
            n_changed += 1
            if dry_run:
                print_line(result)
        else:
            n_failed += 1
            print_message(f"error: {result}")
    if not quiet:
        verb = "would undo" if dry_run else "undid"
        print_line(f"{verb} the changes of {format_count(n_changed, 'sidecar')}")
    return n_failed
