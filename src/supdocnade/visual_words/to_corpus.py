"""Images to a corpus on disk, some at a time, so that their number is bounded by the disk alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_count
from supdocnade.corpus import Corpus
from supdocnade.corpus.disk_files import MANIFEST_NAME
from supdocnade.errors import InvalidArgument
from supdocnade.run_options import RunOptions
from supdocnade.visual_words.encoder import ImageEncoder
from supdocnade.visual_words.parallel import SkippedImage, encode_images, image_name

SHARD = 1000
"""Images of a shard: some 4 MB of words at 961 a image."""

Tags = Sequence[str] | None


class EncodedCorpus(NamedTuple):
    """A corpus on disk, and the images that could not be read."""

    corpus: Corpus
    skipped: tuple[SkippedImage, ...]


def encode_corpus(
    encoder: ImageEncoder,
    images: Sequence[Any],
    folder: str | Path,
    options: RunOptions = RunOptions(),
    *,
    labels: Sequence[str | None] | None = None,
    tags: Sequence[Tags] | None = None,
    shard_size: int = SHARD,
) -> EncodedCorpus:
    """Write the words of images to a corpus; those that it holds already are not read again.

    So a run that was killed goes on, and photographs are added to a corpus. Images are known by
    their names: their paths, or their places if they have none.

    Parameters
    ----------
    folder : of a new corpus, or of one that the same encoder made.
    labels, tags : of every image; None where not known.
    shard_size : images that are held in memory and written together.
    """
    check_count("shard_size", shard_size, least=1)
    for name, given in (("labels", labels), ("tags", tags)):
        if given is not None and len(given) != len(images):
            raise InvalidArgument(
                f"{name} must have one entry for each of the {len(images)} images, "
                f"got {len(given)}."
            )
    fingerprint = encoder.fingerprint()
    if (Path(folder) / MANIFEST_NAME).exists():
        corpus = Corpus.open(folder, encoder=fingerprint)
    else:
        corpus = Corpus.create(folder, n_words=encoder.n_features, encoder=fingerprint)
    names = [image_name(images, number) for number in range(len(images))]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument(f"X must name every image once, got {twice} twice.")
    held = set(corpus.names)
    missing = [number for number, name in enumerate(names) if name not in held]
    skipped: list[SkippedImage] = []
    for start in range(0, len(missing), shard_size):
        part = missing[start : start + shard_size]

        def report(stage: str, done: int, _: int | None, before: int = start) -> None:
            options.progress(stage, before + done, len(missing))

        words = encode_images(encoder, images, replace(options, progress=report), numbers=part)
        found: dict[int, NDArray[np.int32]] = {}
        for number, each in zip(part, words, strict=True):
            if isinstance(each, SkippedImage):
                skipped.append(each)
            else:
                found[number] = each
        if found:
            corpus.append(
                list(found.values()),
                names=[names[number] for number in found],
                labels=None if labels is None else [labels[number] for number in found],
                tags=None if tags is None else [tags[number] for number in found],
            )
    return EncodedCorpus(corpus, tuple(skipped))
