"""Work on an archive of photographs: `supdocnade encode`, `index` and `suggest`."""

import os
from pathlib import Path

from supdocnade.cli.console import (
    ProgressBars,
    describe_invalid_lines,
    format_count,
    offer_skipping,
    print_json,
    print_line,
    print_message,
    show_progress,
)
from supdocnade.cli.learning_commands import Encode
from supdocnade.cli.model_commands import Index, Suggest
from supdocnade.cli.predict import (
    Row,
    class_cells,
    format_row,
    format_text,
    open_photographs,
    print_passed_over,
)
from supdocnade.cli.stopping import SAME_COMMAND, explain_resuming
from supdocnade.corpus.disk import Corpus
from supdocnade.errors import InvalidArgument
from supdocnade.folders.photo_sources import scan_photographs
from supdocnade.gallery.build import build_gallery
from supdocnade.images.reading import SkippedImage
from supdocnade.images.source import absolute_address, normalize_address
from supdocnade.scene.dataset import from_records
from supdocnade.scene.persistence import load_scene
from supdocnade.scene.suggestion import suggest_photographs
from supdocnade.visual_words.to_corpus import encode_corpus

COLUMNS = (
    *("file_name", "label", "tags", "predicted_label", "probability", "predicted_tags"),
    *("uncertainty", "key"),
)
"""Columns of --csv; a person fills in label and tags."""


def suggest(options: Suggest) -> int:
    """Print the list; return 1 if some photographs cannot be read."""
    fitted, sources = open_photographs(options, options.photos)
    with show_progress(options, stage_lines=False, on_error="skip") as run:
        found, skipped = suggest_photographs(fitted, sources, options.count, run)
    for each in skipped:
        print_message(f"error: {each.reason}")
    n_read = len(sources) - len(skipped)
    if n_read and not found and not options.quiet:
        photographs = format_count(n_read, "photograph")
        print_message(f"note: the model has learned from all of the {photographs}.")
    if options.csv:
        print_line(format_row(COLUMNS))
    for prediction, uncertainty in found:
        row = {**prediction.to_dict(), "uncertainty": uncertainty, "key": prediction.key}
        if options.json:
            print_json(row)
        else:
            print_line(format_suggestion(row) if options.csv else format_text(row))
    return 1 if skipped else 0


def format_suggestion(row: Row) -> str:
    """Return a suggestion as one CSV row under `COLUMNS`."""
    return format_row(
        [
            absolute_address(row["file"]),
            "",
            "",
            *class_cells(row),
            "|".join(each["tag"] for each in row["tags"]),
            f"{row['uncertainty']:.6f}",
            row["key"] or "",
        ]
    )


def index(options: Index) -> int:
    """Write the index or bring it up to date; return 1 if some photographs cannot be read."""
    photos = [normalize_address(place) for place in options.photos]
    target = default_index(options.model) if options.output is None else options.output
    fitted = load_scene(options.model)
    if not options.quiet:
        print_passed_over(photos)
    explain_resuming(SAME_COMMAND)
    with show_progress(options) as run:
        gallery, skipped, changes = build_gallery(
            fitted, photos, target, run, start_over=options.replace
        )
    for each in skipped:
        print_message(f"error: {each.reason}")
    if options.json:
        described = {"index": os.fspath(target), "n_images": len(gallery)}
        names = [each.name for each in skipped]
        print_json({**described, **changes, "skipped": names})
    elif not options.quiet:
        said = ", ".join(f"{count:,} {name}" for name, count in changes.items() if count)
        number = format_count(len(gallery), "photograph")
        print_line(f"{number} indexed in {target}: {said or 'nothing has changed'}")
    return 1 if skipped else 0


def default_index(model: Path) -> Path:
    """Return the default path of the index of a model."""
    folder = model if model.name.strip(".") else Path(os.path.abspath(model))
    return folder.with_name(f"{folder.name}.index")


def encode(options: Encode) -> None:
    """Write a corpus."""
    output = os.fspath(options.output)
    with offer_skipping():
        corpus, skipped = encode_photographs(options)
    for each in () if options.quiet else skipped:
        print_message(f"skipped: {each.reason}")
    if options.json:
        metrics = {"n_images": len(corpus), "n_words": corpus.n_words, "n_tokens": corpus.n_tokens}
        names = [each.name for each in skipped]
        described = {"corpus": output, "fingerprint": corpus.fingerprint()}
        print_json({**described, **metrics, "skipped": names})
    elif not options.quiet:
        print_line(f"{format_count(len(corpus), 'photograph')} encoded in {output}")


def encode_photographs(options: Encode) -> tuple[Corpus, tuple[SkippedImage, ...]]:
    """Write the words of photographs; see `encode_corpus`."""
    quiet, on_error = options.quiet, "skip" if options.skip_unreadable else "raise"
    fitted = load_scene(options.model)
    with ProgressBars(quiet=quiet, stage_lines=False) as progress:
        folder = scan_photographs(
            options.photos, progress, on_error=on_error, classes=options.classes
        )
    for note in () if quiet else describe_invalid_lines(folder):
        print_message(f"note: {note}")
    photographs = from_records(folder.records)
    if not len(photographs):
        raise InvalidArgument(f"{options.photos} contains no photographs.")
    explain_resuming(SAME_COMMAND)
    with show_progress(options, on_error=on_error) as run:
        return encode_corpus(
            fitted.encoder,
            photographs.sources,
            options.output,
            run,
            labels=photographs.labels,
            tags=photographs.tags,
            seed=options.seed,
            stored_words=fitted.words,
        )
