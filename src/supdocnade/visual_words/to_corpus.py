"""Encoding of images into a corpus on disk, shard by shard, in bounded memory.

`encode_corpus` appends images in their order, and adds to a corpus. `encode_shuffled` shuffles them
and makes every shard a task of its own, which a cluster can run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_count
from supdocnade.cluster import shard_options
from supdocnade.corpus.disk import Corpus
from supdocnade.corpus.manifest import is_corpus
from supdocnade.errors import InvalidArgument, StorageError, UnreadableImage
from supdocnade.runs import PartProgress, RunOptions
from supdocnade.seeding import named_generator
from supdocnade.storage import Arrays, damage_errors, load_arrays, save_arrays
from supdocnade.unfinished import ShardParts, digest
from supdocnade.visual_words.cache import ImageWords
from supdocnade.visual_words.encoder import ImageEncoder
from supdocnade.visual_words.parallel import READING, SkippedImage, encode_images, image_name

SHARD_SIZE = 1000
"""Images per shard: about 4 MB of words at 961 per image."""

FEATURES = "features-{:05d}.safetensors"
"""File in the folder of a corpus for each of its shards, if a network describes images."""
WORDS = "words.safetensors"
"""File in the folder of a corpus with its visual words, as `BagOfVisualWords.save` writes it."""
StoredWords = tuple[Arrays, dict[str, Any]]
"""Visual words as arrays and a description, as `words_to_storage` returns them."""


def encode_corpus(
    encoder: ImageEncoder,
    images: Sequence[Any],
    folder: str | Path,
    options: RunOptions = RunOptions(),
    *,
    labels: Sequence[str | None] | None = None,
    tags: Sequence[Sequence[str] | None] | None = None,
    shard_size: int = SHARD_SIZE,
    stored_words: StoredWords | None = None,
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
    stored_words : written to the corpus, for those who learn from it.
    """
    names = _check_lists(images, labels, tags, shard_size)
    corpus = _open_or_create(folder, encoder, stored_words)
    known = set(corpus.names)
    missing = [number for number, name in enumerate(names) if name not in known]
    skipped: list[SkippedImage] = []
    progress = PartProgress(options.progress, len(missing))
    for start in range(0, len(missing), shard_size):
        progress.before, part = start, missing[start : start + shard_size]
        words = encode_images(encoder, images, replace(options, progress=progress), numbers=part)
        found: dict[int, ImageWords] = {}
        for number, each in zip(part, words, strict=True):
            if isinstance(each, SkippedImage):
                skipped.append(each)
            else:
                found[number] = each
        if found:
            if encoder.n_image_features:
                _write_features(corpus, [each.features_F for each in found.values()])
            corpus.append(
                [each.ids for each in found.values()],
                names=[names[number] for number in found],
                keys=[each.key for each in found.values()],
                labels=None if labels is None else [labels[number] for number in found],
                tags=None if tags is None else [tags[number] for number in found],
            )
    return corpus, tuple(skipped)


class ShardImages(NamedTuple):
    """The images of one shard."""

    sources: list[Any]
    names: list[str]
    labels: list[str | None]
    tags: list[list[str] | None]


class EncodedShard(NamedTuple):
    """The images of one shard that could be read, and those that could not."""

    ids: list[NDArray[np.int32]]
    features: Arrays
    """Features of the images, if a network describes them."""
    records: dict[str, list[Any]]
    """Names, keys, labels and tags."""
    skipped: list[SkippedImage]


def encode_shuffled(
    encoder: ImageEncoder,
    images: Sequence[Any],
    folder: str | Path,
    options: RunOptions = RunOptions(),
    *,
    labels: Sequence[str | None] | None = None,
    tags: Sequence[Sequence[str] | None] | None = None,
    keywords: bool = False,
    seed: int = 0,
    shard_size: int = SHARD_SIZE,
    stored_words: StoredWords | None = None,
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
    keywords : whether the keywords in the file of an image are its tags if they are unknown; they
        are read together with the image.
    seed : of the order.
    shard_size : number of images of a shard.
    stored_words : written to the corpus, for those who learn from it.

    Returns
    -------
    the corpus, and the images that could not be read, by their numbers among those given.
    """
    names = _check_lists(images, labels, tags, shard_size)
    order = named_generator(seed, "shards").permutation(len(images))
    numbers = [order[n : n + shard_size].tolist() for n in range(0, len(images), shard_size)]
    shards = [
        ShardImages(
            sources=[images[n] for n in part],
            names=[names[n] for n in part],
            labels=[None if labels is None else labels[n] for n in part],
            tags=[None if tags is None else _listed(tags[n]) for n in part],
        )
        for part in numbers
    ]
    plan = {
        "encoder": encoder.fingerprint(),
        "shards": digest([shard[1:] for shard in shards]),
        "keywords": keywords,
    }
    images_of = [shard.sources for shard in shards]
    parts = ShardParts(Path(folder), "encode", plan, images_of, ".safetensors")
    skipped: list[SkippedImage] = []
    with parts.open():
        corpus = _open_or_create(parts.result, encoder, stored_words)
        encoded = _encode_shards(encoder, keywords, shards, parts, options)
        n_known, n_documents = len(corpus), 0
        for part, shard in zip(numbers, encoded, strict=True):
            skipped += [each._replace(number=part[each.number]) for each in shard.skipped]
            if shard.ids and n_documents >= n_known:  # A run that was killed appended the others.
                if shard.features:
                    _write_features(corpus, shard.features["features"])
                corpus.append(shard.ids, **shard.records)
            n_documents += len(shard.ids)
        if not n_documents:
            parts.discard()
            raise UnreadableImage(f"none of the {len(images)} images can be read.")
        parts.publish()
    return Corpus.open(folder), tuple(skipped)


def _encode_shards(
    encoder: ImageEncoder,
    keywords: bool,
    shards: Sequence[ShardImages],
    parts: ShardParts,
    options: RunOptions,
) -> Iterator[EncodedShard]:
    """Yield the shards in their order; those without a part are encoded."""
    progress = PartProgress(options.progress, sum(len(shard.names) for shard in shards))
    write = partial(_write_shard, encoder, keywords, shard_options(options, progress))
    for shard, path in zip(shards, parts.write(write, shards, options), strict=True):
        encoded = _read_shard(path)
        if encoded.skipped and options.on_error == "raise":
            raise UnreadableImage(encoded.skipped[0].reason)
        progress.before += len(shard.names)
        progress(READING, 0)
        yield encoded


def _write_shard(
    encoder: ImageEncoder, keywords: bool, options: RunOptions, task: tuple[Path, ShardImages]
) -> None:
    """Write the words of the images of a shard to a file: the same whenever it is done."""
    path, shard = task
    read: list[int] = []
    found: list[ImageWords] = []
    skipped: list[SkippedImage] = []
    images = encode_images(encoder, shard.sources, options, keywords=keywords)
    for number, words in enumerate(images):
        if isinstance(words, SkippedImage):
            skipped.append(words)
        else:
            read.append(number)
            found.append(words)
    arrays = {
        "ids": np.concatenate([np.empty(0, np.int32), *(np.sort(words.ids) for words in found)]),
        "ends": np.cumsum([len(words.ids) for words in found], dtype=np.int64),
    }
    if encoder.n_image_features:
        features = np.array([words.features_F for words in found], np.float32)
        arrays["features"] = features.reshape(len(found), encoder.n_image_features)
    records = {
        name: [getattr(shard, name)[number] for number in read]
        for name in ("names", "labels", "tags")
    }
    records["keys"] = [words.key for words in found]
    for row, words in enumerate(found):
        if records["tags"][row] is None and words.keywords:
            records["tags"][row] = list(words.keywords)
    save_arrays(path, arrays, {**records, "skipped": [list(each) for each in skipped]})


def _read_shard(path: Path) -> EncodedShard:
    """Return what `_write_shard` wrote."""
    arrays, records = load_arrays(path)
    with damage_errors(str(path)):
        ids = np.split(arrays.pop("ids"), arrays.pop("ends"))[:-1]
        skipped = [SkippedImage(*each) for each in records.pop("skipped")]
        if records.keys() != {"names", "labels", "tags", "keys"}:
            raise InvalidArgument(f"its records are {sorted(records)}")
        return EncodedShard(ids, arrays, records, skipped)


def _write_features(corpus: Corpus, features: Any) -> None:
    """Write the features of the images of the shard that is appended next."""
    path = corpus.folder / FEATURES.format(len(corpus.shards))
    save_arrays(path, {"features": np.asarray(features, np.float32)}, {})


def read_features(corpus: Corpus) -> Iterator[NDArray[np.float32]]:
    """Yield the features of the images of each shard, (images, features), by a network."""
    for number, shard in enumerate(corpus.shards):
        path = corpus.folder / FEATURES.format(number)
        arrays, _ = load_arrays(path)
        if "features" not in arrays or len(arrays["features"]) != shard.entry.documents:
            raise StorageError(f"{path} is damaged: it must have {shard.entry.documents} images.")
        yield arrays["features"]


def _check_lists(
    images: Sequence[Any],
    labels: Sequence[Any] | None,
    tags: Sequence[Any] | None,
    shard_size: int,
) -> list[str]:
    """Return the names of images; raise `InvalidArgument` if an argument does not fit to them."""
    check_count("shard_size", shard_size, least=1)
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
    return names


def _open_or_create(
    folder: str | Path, encoder: ImageEncoder, stored_words: StoredWords | None
) -> Corpus:
    fingerprint = encoder.fingerprint()
    if is_corpus(Path(folder)):
        corpus = Corpus.open(folder, encoder=fingerprint)
    else:
        corpus = Corpus.create(folder, n_words=encoder.n_features, encoder=fingerprint)
    path = corpus.folder / WORDS
    if stored_words is not None and not path.exists():
        save_arrays(path, *stored_words)
    return corpus


def _listed(tags: Sequence[str] | None) -> list[str] | None:
    return None if tags is None else list(tags)
