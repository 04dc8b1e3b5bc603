"""Encoding of images into a corpus on disk, in shards that are tasks of their own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_count, check_shape
from supdocnade.cluster import shard_options
from supdocnade.corpus.disk import Corpus, is_corpus
from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.images.reading import READING, SkippedImage, image_name
from supdocnade.runs import PartProgress, RunOptions
from supdocnade.schema import array, damage_errors, load, save
from supdocnade.seeding import named_generator
from supdocnade.unfinished import ShardParts, digest
from supdocnade.visual_words.encoder import EncodedImages, ImageEncoder, encode_all

SHARD_SIZE = 1000
"""Images per shard: about 4 MB of words at 961 per image."""

FEATURES, FEATURES_KIND = "features-{:05d}.safetensors", "ShardFeatures"
"""File in the folder of a corpus for each of its shards, if a network describes images."""
WORDS = "words.safetensors"
"""File in the folder of a corpus with its visual words, as `BagOfVisualWords.save` writes it."""

PART = "EncodedImages"
"""Kind of the file of a shard in the folder of an unfinished run."""

Records = dict[str, list[Any]]
"""One entry of each image by name."""


@dataclass(frozen=True, eq=False)
class ShardFeatures:
    """Features of the images of a shard by a network."""

    features_BF: NDArray[np.float32] = array("BF", np.float32, stored_as=np.float16)
    """(images, features)."""


def encode_corpus(
    encoder: ImageEncoder,
    images: Sequence[Any],
    folder: str | Path,
    options: RunOptions = RunOptions(),
    *,
    labels: Sequence[str | None] | None = None,
    tags: Sequence[Sequence[str] | None] | None = None,
    seed: int = 0,
    shard_size: int = SHARD_SIZE,
    stored_words: Any = None,
) -> tuple[Corpus, tuple[SkippedImage, ...]]:
    """Write the words of images to a new corpus, in a random order.

    The order is a function of the seed and the number of images. Training reads a corpus through a
    window; shards that are sorted by class would cost it much accuracy.

    Beside the words there are the features of the images if a network describes them
    (`read_features`).

    The bytes of the corpus do not depend on the workers. Shards are kept in `FOLDER.partial`, from
    which a run that was killed resumes, and the corpus appears when it is complete.

    Parameters
    ----------
    folder : folder of the corpus, which must not exist or be empty.
    options : `cluster` makes each shard a task of a cluster, whose machines must find the images
        and the folder under the same names.
    labels, tags : label and tags of each image; None if unknown.
    seed : of the order.
    shard_size : number of images of a shard.
    stored_words : the record of the words, written to the corpus for those who learn from it.

    Returns
    -------
    the corpus, and the images that could not be read, by their numbers among those given.
    """
    records = _make_records(images, labels, tags)
    check_count("shard_size", shard_size, least=1)
    order = named_generator(seed, "shards").permutation(len(images))
    numbers = [order[n : n + shard_size].tolist() for n in range(0, len(images), shard_size)]
    shards = [[images[n] for n in part] for part in numbers]
    of_shards = [
        {name: [row[n] for n in part] for name, row in records.items()} for part in numbers
    ]
    plan = {"encoder": encoder.fingerprint(), "shards": digest(of_shards)}
    parts = ShardParts(Path(folder), "encode", plan, shards, ".safetensors")
    skipped: list[SkippedImage] = []
    progress = PartProgress(options.progress, len(images))
    alone = shard_options(options, progress, parts.words)
    write = partial(_write_shard, encoder, alone)
    with parts.open():
        corpus = _open_or_create(parts.result, encoder, stored_words)
        n_known, n_documents = len(corpus), 0
        for part, known, path in zip(
            numbers, of_shards, parts.write(write, shards, options), strict=True
        ):
            found = _read_shard(path, (len(part), encoder.n_features))
            if found.skipped and options.on_error == "raise":
                raise UnreadableImage(found.skipped[0].reason)
            skipped += [each._replace(number=part[each.number]) for each in found.skipped]
            rows = np.flatnonzero(found.read)
            if len(rows) and n_documents >= n_known:  # A run that was killed appended the others.
                _append(corpus, found, known, rows)
            n_documents += len(rows)
            progress.before += len(part)
            progress(READING, 0)
        if not n_documents:
            parts.discard()
            raise UnreadableImage(f"none of the {len(images)} images can be read.")
        parts.publish()
    return Corpus.open(folder), tuple(skipped)


def _write_shard(encoder: ImageEncoder, options: RunOptions, task: tuple[Path, list[Any]]) -> None:
    """Write the words of the images of a shard to a file: the same whenever it is done."""
    path, images = task
    save(path, PART, encode_all(encoder, images, options))


def _read_shard(path: Path, shape: tuple[int, int]) -> EncodedImages:
    """Return what `_write_shard` wrote; its counts must have this shape."""
    found = load(path, PART, EncodedImages)
    with damage_errors(str(path)):
        check_shape("counts", found.counts.shape, shape)
    return found


def _append(corpus: Corpus, found: EncodedImages, known: Records, rows: NDArray[np.int64]) -> None:
    """Append the images of a shard that could be read, and their features."""
    if found.global_features is not None:
        path = corpus.folder / FEATURES.format(len(corpus.shards))
        save(path, FEATURES_KIND, ShardFeatures(found.global_features[rows]))
    records = {**known, "keys": found.keys}
    corpus.append(
        found.counts[rows],
        **{name: [values[row] for row in rows] for name, values in records.items()},
    )


def read_features(corpus: Corpus) -> Iterator[NDArray[np.float32]]:
    """Yield the features of the images of each shard, (images, features), by a network."""
    for number, shard in enumerate(corpus.shards):
        path = corpus.folder / FEATURES.format(number)
        features_BF = load(path, FEATURES_KIND, ShardFeatures).features_BF
        with damage_errors(str(path)):
            check_shape("features", features_BF.shape[:1], (len(shard),))
        yield features_BF


def _make_records(
    images: Sequence[Any],
    labels: Sequence[str | None] | None,
    tags: Sequence[Sequence[str] | None] | None,
) -> Records:
    """Return names, labels and tags of images, one entry each."""
    for name, given in (("labels", labels), ("tags", tags)):
        if given is not None and len(given) != len(images):
            raise InvalidArgument(
                f"{name} must have one entry for each of the {len(images)} images, "
                f"got {len(given)}."
            )
    names = [image_name(images, number) for number in range(len(images))]
    if len(set(names)) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument(f"X must name every image once, got {repeated} twice.")
    unknown = [None] * len(images)
    return {
        "names": names,
        "labels": unknown if labels is None else list(labels),
        "tags": [None if each is None else list(each) for each in tags or unknown],
    }


def _open_or_create(folder: str | Path, encoder: ImageEncoder, stored_words: Any) -> Corpus:
    if is_corpus(Path(folder)):
        corpus = Corpus.open(folder)
    else:
        fingerprint = encoder.fingerprint()
        corpus = Corpus.create(folder, n_words=encoder.n_features, encoder=fingerprint)
    path = corpus.folder / WORDS
    if stored_words is not None and not path.exists():
        stored_words.save(path)
    return corpus
