"""Encoding of images into a corpus on disk."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_shape
from supdocnade.corpus.disk import Corpus
from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.images.reading import READING, SkippedImage, image_name
from supdocnade.runs import RunOptions
from supdocnade.schema import array, damage_errors, load, save
from supdocnade.seeding import named_generator
from supdocnade.unfinished import OutputParts, digest
from supdocnade.visual_words.encoder import EncodedImages, ImageEncoder, encode_all

FEATURES, FEATURES_KIND = "features-{:05d}.safetensors", "ShardFeatures"
"""File in the folder of a corpus for each of its shards, if a network describes images."""
WORDS = "words.safetensors"
"""File in the folder of a corpus with its visual words, as `BagOfVisualWords.save` writes it."""

PART = "EncodedImages"
"""Kind of the parts in the folder of an unfinished run."""

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
    stored_words: Any = None,
) -> tuple[Corpus, tuple[SkippedImage, ...]]:
    """Write the words of images to a new corpus, in a random order.

    The order is a function of the seed and the number of images. Training reads a corpus through a
    window; shards that are sorted by class would cost it much accuracy.

    Beside the words there are the features of the images if a network describes them
    (`read_features`).

    The bytes of the corpus do not depend on the workers. `OutputParts` keeps what a run that was
    killed has read; the corpus appears when it is complete.

    Parameters
    ----------
    folder : folder of the corpus, which must not exist or be empty.
    labels, tags : label and tags of each image; None if unknown.
    seed : of the order.
    stored_words : the record of the words, written to the corpus for those who learn from it.

    Returns
    -------
    the corpus, and the images that could not be read, by their numbers among those given.
    """
    records = _make_records(images, labels, tags)
    order = named_generator(seed, "shards").permutation(len(images)).tolist()
    records = {name: [row[n] for n in order] for name, row in records.items()}
    fingerprint = encoder.fingerprint()
    plan = {"encoder": fingerprint, "records": digest(records)}
    parts = OutputParts(Path(folder), "encode", plan, [images[n] for n in order], ".safetensors")
    write_part, skipped = partial(_write_part, encoder), list[SkippedImage]()
    with parts.open():
        corpus = Corpus.create(parts.result, n_words=encoder.n_features, encoder=fingerprint)
        if stored_words is not None:
            stored_words.save(corpus.folder / WORDS)
        for path, part in parts.write(write_part, options, READING):
            numbers = order[part]
            found = _read_part(path, (len(numbers), encoder.n_features))
            if found.skipped and options.on_error == "raise":
                raise UnreadableImage(found.skipped[0].reason)
            skipped += [each._replace(number=numbers[each.number]) for each in found.skipped]
            _append(corpus, found, {name: row[part] for name, row in records.items()})
        if not len(corpus):
            parts.discard()
            raise UnreadableImage(f"none of the {len(images)} images can be read.")
        parts.publish()
    return Corpus.open(folder), tuple(skipped)


def _write_part(
    encoder: ImageEncoder, path: Path, images: Sequence[Any], options: RunOptions
) -> None:
    """Write the words of the images of a part to a file."""
    save(path, PART, encode_all(encoder, images, options))


def _read_part(path: Path, shape: tuple[int, int]) -> EncodedImages:
    """Return what `_write_part` wrote; its counts must have this shape."""
    found = load(path, PART, EncodedImages)
    with damage_errors(str(path)):
        check_shape("counts", found.counts.shape, shape)
    return found


def _append(corpus: Corpus, found: EncodedImages, known: Records) -> None:
    """Append the images of a part that could be read, and their features."""
    rows = np.flatnonzero(found.read).tolist()
    if not rows:
        return
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
