"""`supdocnade tag`: write keywords to XMP sidecars or into JPEG files, and undo it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from supdocnade.cli.console import format_count, print_json, print_line, print_message
from supdocnade.cli.model_commands import Tag
from supdocnade.cli.predict import open_photographs, predict_all
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.folders.keyword_files import (
    KeywordWriter,
    Line,
    UnwritableRecord,
    append_text,
    new_record,
    undo_command,
    undo_record,
)
from supdocnade.folders.photo_sources import kind_of_place
from supdocnade.folders.tags import exclude_tags
from supdocnade.images.source import Source, is_local_file, source_name
from supdocnade.scene.calibration import TAG_PRECISION
from supdocnade.scene.prediction import Prediction
from supdocnade.text import clean_name


def tag(options: Tag) -> int:
    """Write the keywords of photographs, or undo what was written; return 1 if something failed."""
    if options.undo is not None:
        return 1 if undo_all(options.undo, dry_run=options.dry_run, quiet=options.quiet) else 0
    named = options.images or ()
    check_local_files(named)
    fitted, sources = open_photographs(options, named)
    check_local_files(sources)
    if options.record is not None and not options.dry_run:
        append_text(options.record, "")  # If it cannot be written, that is an error at once.
    thresholds = fitted.precise_thresholds if options.min_probability is None else None
    options = replace(options, record=options.record or new_record())
    writer = PredictionWriter(options, thresholds, fitted.tag_levels)

    def write(prediction: Prediction) -> str | None:
        try:
            lines = writer.write(prediction)
        except UnwritableRecord:
            raise
        except StorageError as error:
            return str(error)
        for path, line in lines.items():
            if options.json:
                print_json(line)
            elif not options.quiet:
                verb = "would write" if options.dry_run else "wrote"
                print_line(clean_name(f"{verb} {path}: {', '.join(line['keywords'])}"))
        return None

    try:
        return predict_all(fitted, sources, write, options)
    finally:  # Also after Ctrl-C: the summary names the record.
        if not options.quiet:
            print_message(writer.summary())


class PredictionWriter:
    """Writer of predicted keywords to the files of photographs.

    Photographs unlike those that the model was fitted on get no keywords: the precision of tags is
    known for others alone.

    Parameters
    ----------
    options : what is written. Without `record` there is no record.
    thresholds : smallest probabilities of tags that have their own.
    levels : keywords with their levels, by the tags that have some.
    """

    def __init__(
        self,
        options: Tag,
        thresholds: Mapping[str, float] | None = None,
        levels: Mapping[str, str] | None = None,
    ):
        least = options.min_probability
        self.options, self.least = options, TAG_PRECISION if least is None else least
        self.thresholds, self.n_unfamiliar = thresholds or {}, 0
        self.files = KeywordWriter(
            options.record,
            levels,
            embed=options.embed,
            by_stem=options.sidecar == "stem",
            dry_run=options.dry_run,
        )

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

    def write(self, prediction: Prediction) -> dict[Path, Line]:
        """Add keywords to the files of a photograph, as `KeywordWriter.write` does."""
        self.n_unfamiliar += prediction.unfamiliar
        return self.files.write(prediction.name, self.keywords_of(prediction))

    def summary(self) -> str:
        """Return a line with the number of files and the name of the record."""
        n_sidecars, n_embedded = self.files.n_sidecars, self.files.n_embedded
        number = format_count(n_sidecars, "sidecar")
        if self.options.embed:
            others = f" and {number} (other formats, and sidecars that existed)"
            number = format_count(n_embedded, "JPEG file")
            number += others if n_sidecars else ""
        if self.n_unfamiliar:
            unlike = format_count(self.n_unfamiliar, "photograph")
            number += f", none for {unlike} unlike the training photographs"
        if self.options.dry_run:
            return f"would write {number}"
        record = self.options.record
        undo = f"; undo with: {undo_command(record)}" if record else ""
        return f"wrote {number}{undo if n_sidecars + n_embedded else ''}"


def check_local_files(sources: Sequence[Source]) -> None:
    """Raise `InvalidArgument` if a sidecar cannot be beside one of the photographs."""
    for source in sources:
        if not is_local_file(source) or kind_of_place(source) == "tar":
            raise InvalidArgument(
                "sidecars are written beside photographs that are files on this machine, "
                f"got {source_name(source)}."
            )


def undo_all(record: Path, *, dry_run: bool, quiet: bool) -> int:
    """Take back what a record lists; return the number of failures."""
    n_changed = n_failed = 0
    for result in undo_record(record, dry_run=dry_run):
        if isinstance(result, str):
            n_changed += 1
            if dry_run:
                print_line(result)
        else:
            n_failed += 1
            print_message(f"error: {result}")
    if not quiet:
        verb = "would undo" if dry_run else "undid"
        print_line(f"{verb} the changes of {format_count(n_changed, 'file')}")
    return n_failed
