"""`supdocnade encode`: write the visual words of photographs as a corpus."""

import os
import shlex

from supdocnade.cli.console import (
    ProgressBars,
    print_json,
    print_line,
    print_message,
    print_warnings,
)
from supdocnade.cli.formats import format_count
from supdocnade.cli.learning_commands import Encode
from supdocnade.cli.stopping import SAME_COMMAND, explain_resuming
from supdocnade.corpus.disk import Corpus
from supdocnade.errors import InvalidArgument, UnreadableImage, UnwritableFile
from supdocnade.folders.photo_sources import scan_photographs
from supdocnade.images.reading import SkippedImage
from supdocnade.runs import RunOptions
from supdocnade.scene.dataset import from_records
from supdocnade.scene.persistence import load_scene
from supdocnade.visual_words.to_corpus import encode_corpus


def encode(options: Encode) -> None:
    """Write a corpus, and say how to go on if that fails."""
    output = os.fspath(options.output)
    try:
        corpus, skipped = encode_photographs(options)
    except UnreadableImage as error:
        raise UnreadableImage(
            f"{str(error).rstrip('.')}; repair it, or add --skip-unreadable to leave it out, "
            "then continue with the same command."
        ) from error
    except UnwritableFile as error:
        again = ["supdocnade", "encode", os.fspath(options.model), options.photos, "-o", output]
        raise UnwritableFile(
            f"{str(error).rstrip('.')}; the work so far is kept, resume with: {shlex.join(again)}"
        ) from error
    for each in () if options.quiet else skipped:
        print_message(f"skipped: {each.reason}")
    if options.json:
        figures = {"n_images": len(corpus), "n_words": corpus.n_words, "n_tokens": corpus.n_tokens}
        names = [each.name for each in skipped]
        described = {"corpus": output, "fingerprint": corpus.fingerprint()}
        print_json({**described, **figures, "skipped": names})
    elif not options.quiet:
        print_line(f"{format_count(len(corpus), 'photograph')} encoded in {output}")


def encode_photographs(options: Encode) -> tuple[Corpus, tuple[SkippedImage, ...]]:
    """Write the words of photographs; see `encode_corpus`."""
    quiet = options.quiet
    fitted, _ = load_scene(options.model)
    with ProgressBars(quiet=quiet, stage_lines=False) as progress:
        # Keywords in the photographs are read when these are encoded, by the workers.
        folder = scan_photographs(options.photos, progress, in_files=False)
    photographs = from_records(folder.records)
    if not len(photographs):
        raise InvalidArgument(f"{options.photos} must hold photographs, got none.")
    explain_resuming(SAME_COMMAND)
    with ProgressBars(quiet=quiet) as progress, print_warnings(quiet=quiet):
        run = RunOptions(
            n_jobs=options.jobs,
            device=options.device,
            on_error="skip" if options.skip_unreadable else "raise",
            cluster=options.cluster,
            progress=progress,
        )
        return encode_corpus(
            fitted.encoder,
            photographs.sources,
            options.output,
            run,
            labels=photographs.labels,
            tags=photographs.tags,
            keywords=True,
            seed=options.seed,
            shard_size=options.shard_size,
            stored_words=fitted.words,
        )
