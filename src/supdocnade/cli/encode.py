"""`supdocnade encode`: write the visual words of photographs as a corpus."""

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import (
    ProgressBars,
    format_count,
    print_json,
    print_line,
    print_message,
    print_warnings,
)
from supdocnade.cli.stopping import SAME_COMMAND, explain_resuming
from supdocnade.errors import InvalidArgument, UnreadableImage, UnwritableFile
from supdocnade.runs import RunOptions

if TYPE_CHECKING:
    from supdocnade.corpus.disk import Corpus
    from supdocnade.visual_words.parallel import SkippedImage


def encode(
    model: opt.Model,
    photos: opt.Photos,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="CORPUS", help="Corpus to write.")
    ],
    seed: opt.Seed = 0,
    shard_size: opt.ShardSize = 1000,
    skip_unreadable: opt.SkipUnreadable = False,
    cluster: opt.Cluster = None,
    device: opt.Device = "auto",
    jobs: opt.Jobs = -1,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Write the visual words of photographs as a corpus.

    The words are those of a trained model. PHOTOS is read as by `train`; CORPUS has the words,
    names, classes and tags of the photographs in a random order, and the visual words; `train`
    learns from it in bounded memory, without reading the photographs again. A run that was
    interrupted resumes when it is started again. The corpus is the same for any number of workers
    and any cluster.

    \b
    Examples:
      supdocnade encode scenes photos -o photos.corpus
      supdocnade encode scenes photos -o photos.corpus --cluster local
      supdocnade train photos.corpus -o large-scenes
    """
    opt.check_device(device, cluster)
    options = RunOptions(
        n_jobs=jobs,
        device=device,
        on_error="skip" if skip_unreadable else "raise",
        cluster=cluster,
    )
    try:
        corpus, skipped = encode_place(model, photos, output, options, seed, shard_size, quiet)
    except UnreadableImage as error:
        raise UnreadableImage(
            f"{str(error).rstrip('.')}; repair it, or add --skip-unreadable to leave it out, "
            "then continue with the same command."
        ) from error
    except UnwritableFile as error:
        again = shlex.join(["supdocnade", "encode", os.fspath(model), photos])
        raise UnwritableFile(
            f"{str(error).rstrip('.')}; the work so far is kept, resume with: "
            f"{again} -o {shlex.quote(os.fspath(output))}"
        ) from error
    for each in () if quiet else skipped:
        print_message(f"skipped: {each.reason}")
    if json:
        figures = {"n_images": len(corpus), "n_words": corpus.n_words, "n_tokens": corpus.n_tokens}
        names = [each.name for each in skipped]
        described = {"corpus": os.fspath(output), "fingerprint": corpus.fingerprint()}
        print_json({**described, **figures, "skipped": names})
    elif not quiet:
        print_line(f"{format_count(len(corpus), 'photograph')} encoded in {output}")


def encode_place(
    model: Path,
    photos: str,
    output: Path,
    options: RunOptions,
    seed: int,
    shard_size: int,
    quiet: bool,
) -> "tuple[Corpus, tuple[SkippedImage, ...]]":
    """Write the words of the photographs of a place; see `encode_corpus`."""
    from supdocnade.estimators.persistence import words_to_storage
    from supdocnade.folders.photo_sources import scan_photographs
    from supdocnade.scene.dataset import from_records
    from supdocnade.scene.persistence import load_scene
    from supdocnade.visual_words.to_corpus import encode_corpus

    fitted, _ = load_scene(model)
    with ProgressBars(quiet=quiet, stage_lines=False) as progress:
        # Keywords in the photographs are read when these are encoded, by the workers.
        photographs = from_records(scan_photographs(photos, progress, in_files=False).records)
    if not len(photographs):
        raise InvalidArgument(f"{photos} must hold photographs, got none.")
    explain_resuming(SAME_COMMAND)
    with ProgressBars(quiet=quiet) as progress, print_warnings(quiet=quiet):
        return encode_corpus(
            fitted.encoder,
            photographs.sources,
            output,
            replace(options, progress=progress),
            labels=photographs.labels,
            tags=photographs.tags,
            keywords=True,
            seed=seed,
            shard_size=shard_size,
            stored_words=words_to_storage(fitted.words),
        )
