"""Encoding of images into a corpus on disk, shard by shard, in bounded memory."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from supdocnade.checks import check_count
from supdocnade.corpus.disk import Corpus
from supdocnade.corpus.manifest import is_corpus
from supdocnade.errors import InvalidArgument
from supdocnade.run_options import RunOptions
from supdocnade.visual_words.cache import ImageWords
from supdocnade.visual_words.encoder import ImageEncoder
from supdocnade.visual_words.parallel import SkippedImage, encode_images, image_name

SHARD_SIZE = 1000
"""Images per shard: about 4 MB of words at 961 per image."""


def encode_corpus(
    encoder: ImageEncoder,
    images: Sequence[Any],
    folder: str | Path,
    options: RunOptions = RunOptions(),
    *,
    labels: Sequence[str | None] | None = None,
    tags: Sequence[Sequence[str] | None] | None = None,
    shard_size: int = SHARD_SIZE,
) -> tuple[Corpus, tuple[SkippedImage, ...]]:
    """Write the words of images to a corpus; return it with the images that could not be read.

    Images that the corpus already holds are not read again, so that a killed run resumes and images
    can be added later. They are identified by name: the path, or the number of an image without
    one.

    Parameters
    ----------
    folder : folder of a new corpus, or of one written with the same encoder.
    labels, tags : label and tags of each image; None if unknown.
    shard_size : number of images that are held in memory and written together.
    """
    check_count("shard_size", shard_size, least=1)
    for name, given in (("labels", labels), ("tags", tags)):
        if given is not None and len(given) != len(images):
            raise InvalidArgument(
                f"{name} must have one entry for each of the {len(images)} images, "
                f"got {len(given)}."
            )
    fingerprint = encoder.fingerprint()
    if is_corpus(Path(folder)):
        corpus = Corpus.open(folder, encoder=fingerprint)
    else:
        corpus = Corpus.create(folder, n_words=encoder.n_features, encoder=fingerprint)
    names = [image_name(images, number) for number in range(len(images))]
    if len(set(names)) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument(f"X must name every image once, got {repeated} twice.")
    known = set(corpus.names)
    missing = [number for number, name in enumerate(names) if name not in known]
    skipped: list[SkippedImage] = []
    for start in range(0, len(missing), shard_size):
        part = missing[start : start + shard_size]

        def report(stage: str, done: int, _: int | None, before: int = start) -> None:
            options.progress(stage, before + done, len(missing))

        words = encode_images(encoder, images, replace(options, progress=report), numbers=part)
        found: dict[int, ImageWords] = {}
        for number, each in zip(part, words, strict=True):
            if isinstance(each, SkippedImage):
                skipped.append(each)
            else:
                found[number] = each
        if found:
            corpus.append(
                [each.ids for each in found.values()],
                names=[names[number] for number in found],
                keys=[each.key for each in found.values()],
                labels=None if labels is None else [labels[number] for number in found],
                tags=None if tags is None else [tags[number] for number in found],
            )
    return corpus, tuple(skipped)
