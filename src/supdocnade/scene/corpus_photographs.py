"""Photographs of a corpus as a training set, whose words stay on disk.

A bounded number of photographs is held out, by a hash of their contents, so that copies stay
together and the choice depends neither on their order nor on the others. They come last in the
training set. The features of a network are copied to a file in the same order.
"""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import check_shape
from supdocnade.corpus.disk import Corpus
from supdocnade.corpus.tokens import CorpusRows
from supdocnade.errors import InvalidArgument, UnwritableFile
from supdocnade.estimators.persistence import WORDS, VisualWords
from supdocnade.folders.tags import Tags
from supdocnade.scene.dataset import (
    SMALL_CLASS,
    Photographs,
    TrainingSet,
    check_labels,
    check_tags,
)
from supdocnade.schema import damage_errors, load
from supdocnade.visual_words.encoder import ImageEncoder
from supdocnade.visual_words.to_corpus import WORDS as WORDS_FILE
from supdocnade.visual_words.to_corpus import read_features

MAX_HELD_OUT, MAX_SAMPLE = 10_000, 10_000
"""Photographs that are held out, and others that stay in memory and in the model, which the
classifier learns from."""


def load_corpus_words(corpus: Corpus) -> VisualWords:
    """Return the visual words that are stored in the folder of a corpus."""
    path = corpus.folder / WORDS_FILE
    if not path.exists():
        raise InvalidArgument(
            f"images must be a corpus with its visual words, got {corpus.folder} without "
            f"{WORDS_FILE}."
        )
    return load(path, WORDS, VisualWords)


def read_corpus(
    corpus: Corpus,
    labels: Sequence[Any] | None,
    tags: Sequence[Tags] | None,
    encoder: ImageEncoder,
    held_out: float,
    folder: Path | None,
) -> tuple[TrainingSet, NDArray[np.bool_], NDArray[np.int64]]:
    """Return the photographs of a corpus, which of them are held out, and a sample of all.

    The sample has all photographs that are held out, and at most about `MAX_SAMPLE` of the others.

    Parameters
    ----------
    labels, tags : of the photographs. By default, those of the corpus.
    encoder : of the corpus.
    held_out : share of the photographs that are held out.
    folder : where the file of the features is made. By default, the folder for temporary files.
    """
    if corpus.encoder != encoder.fingerprint():
        raise InvalidArgument(
            f"images must be a corpus that was encoded with words, got {corpus.folder}, which was "
            f"made with encoder {corpus.encoder!r}."
        )
    if not len(corpus):
        raise InvalidArgument(f"images must have a photograph, got none in {corpus.folder}.")
    photographs = _read_records(corpus, labels, tags)
    place_B = hash_keys(photographs.content_keys())
    held_B = hold_out_by_place(photographs, place_B, held_out)
    order = np.argsort(held_B, kind="stable")
    features_BF = None
    if encoder.n_image_features:
        features_BF = _copy_features(corpus, encoder.n_image_features, held_B, folder)
    training_set = TrainingSet(
        photographs.take(order),
        cast(sparse.csr_array, CorpusRows(corpus, order)),
        np.ones(len(order), np.bool_),
        features_BF,
    )
    n_others = int((~held_B).sum())
    sample = _take_sample(training_set.photographs, place_B[order], n_others)
    rows = np.concatenate([sample, np.arange(n_others, len(order))])
    return training_set, held_B[order], rows


def _read_records(
    corpus: Corpus, labels: Sequence[Any] | None, tags: Sequence[Tags] | None
) -> Photographs:
    """Return the photographs of a corpus with their names, keys, labels and tags."""
    found = check_tags(corpus.tags if tags is None else tags, len(corpus))
    equal: dict[tuple[str, ...], Tags] = {}  # One list for all photographs with the same tags.
    names = [name or f"image {number}" for number, name in enumerate(corpus.names)]
    keys = corpus.keys
    return Photographs(
        sources=[b""] * len(corpus),
        names=names,
        labels=check_labels(corpus.labels if labels is None else labels, len(corpus)),
        tags=[each and equal.setdefault(tuple(each), each) for each in found],
        keys=[key or name for key, name in zip(keys, names, strict=True)],
    )


def hash_keys(keys: Iterable[str]) -> NDArray[np.float64]:
    """Return a number in 0 .. 1 for every key, equal for equal keys.

    >>> hash_keys(["a", "b", "a"]).round(3).tolist()
    [0.185, 0.458, 0.185]
    """
    encoded = (key.encode(errors="surrogatepass") for key in keys)
    digests = (hashlib.blake2b(key, digest_size=8).digest() for key in encoded)
    numbers = np.fromiter((int.from_bytes(digest, "little") for digest in digests), np.uint64)
    return numbers / 2.0**64


def hold_out_by_place(
    photographs: Photographs, place_B: NDArray[np.float64], fraction: float
) -> NDArray[np.bool_]:
    """Return a mask of the held-out photographs, at most `MAX_HELD_OUT`.

    No photographs of classes with fewer than five are held out, and no class as a whole.

    Parameters
    ----------
    place_B : of `hash_keys`; the smallest are held out.
    fraction : share of the photographs.
    """
    held_B = place_B < fraction
    if held_B.sum() > MAX_HELD_OUT:
        held_B = place_B < np.partition(place_B, MAX_HELD_OUT)[MAX_HELD_OUT]
    classes = photographs.classes
    label_B = photographs.label_numbers(classes) + 1  # 0 where unknown.
    n_all = np.bincount(label_B, minlength=len(classes) + 1)
    n_held = np.bincount(label_B, held_B, minlength=len(classes) + 1)
    kept = (n_all < SMALL_CLASS) | (n_held == n_all)
    # Copies with another label stay together.
    held_B[np.isin(place_B, place_B[kept[label_B]])] = False
    return held_B


def _take_sample(
    photographs: Photographs, place_B: NDArray[np.float64], n_others: int
) -> NDArray[np.int64]:
    """Return at most `MAX_SAMPLE` of the first photographs, and one of each class they lack."""
    chosen = np.argsort(place_B[:n_others], kind="stable")[:MAX_SAMPLE]
    label_B = photographs.label_numbers(photographs.classes)
    first = np.unique(label_B[:n_others], return_index=True)[1]
    missing = first[~np.isin(label_B[first], label_B[chosen])]
    return np.sort(np.concatenate([chosen, missing]))


def _copy_features(
    corpus: Corpus, n_features: int, held_B: NDArray[np.bool_], folder: Path | None
) -> NDArray[np.float32]:
    """Copy the features of all photographs to a file, the held-out ones last, and map it.

    The file has no name: it is gone with the last reference to it.
    """
    ends, start = [0, int((~held_B).sum())], 0
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as file:
            for number, features_BF in enumerate(read_features(corpus)):
                with damage_errors(str(corpus.folder)):
                    check_shape(f"features {number}", features_BF.shape[1:], (n_features,))
                held = held_B[start : start + len(features_BF)]
                start += len(held)
                for part, rows_BF in enumerate((features_BF[~held], features_BF[held])):
                    file.seek(ends[part] * n_features * 4)
                    file.write(rows_BF.data)
                    ends[part] += len(rows_BF)
            file.flush()
            return np.memmap(file, np.float32, "r", shape=(len(held_B), n_features))
    except OSError as error:
        raise UnwritableFile(f"the features cannot be copied: {error.strerror}.") from error
