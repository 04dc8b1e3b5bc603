"""Fitting of a scene model on a corpus on disk, in bounded memory.

The visual words exist already, and the corpus has the words of every photograph, its label and its
tags. A bounded number of photographs is held out, by a hash of their contents, so that copies stay
together and the choice depends neither on their order nor on the others. Damped counts are written
to a corpus of their own, first those to fit on, then the held-out ones for the final fit, and the
features of a network to a file in the same order; topics are learned from there. In memory are the
held-out photographs, a sample of the others, and the labels and tags of all.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.corpus.disk import Corpus
from supdocnade.errors import InvalidArgument, StorageError, UnwritableFile
from supdocnade.estimators.bag_of_visual_words import BagOfVisualWords, words_of
from supdocnade.folders.tags import Tags
from supdocnade.runs import RunOptions
from supdocnade.scene.dataset import (
    SMALL_CLASS,
    Photographs,
    TrainingSet,
    check_labels,
    check_tags,
    fingerprint_records,
)
from supdocnade.scene.fitting import fit_on_all, fit_on_part
from supdocnade.scene.prediction import FittedScene
from supdocnade.scene.settings import WORD_SETTINGS, SceneSettings
from supdocnade.unfinished import PartialFolder
from supdocnade.visual_words.encoder import damp_counts
from supdocnade.visual_words.to_corpus import WORDS, read_features

SettingsT = TypeVar("SettingsT", bound=SceneSettings)

MAX_HELD_OUT, MAX_SAMPLE = 10_000, 10_000
"""Photographs that are held out, and others that stay in memory and in the model. An SVM is trained
on them."""

MAX_EXACT_SVM = 4000
"""Labelled photographs in memory with an exact SVM, 0.4 GB; the kernel of more is approximated."""

SHARD_SIZE = 1000
"""Photographs that are damped and written at a time."""


def fit_scene_corpus(
    corpus: Corpus,
    labels: Sequence[Any] | None,
    tags: Sequence[Tags] | None,
    words: BagOfVisualWords,
    settings: SceneSettings,
    seed: int,
    options: RunOptions,
) -> FittedScene:
    """Fit a scene model on a corpus.

    Parameters
    ----------
    labels, tags : of the photographs; None: those of the corpus.
    words : the fitted visual words that the corpus was encoded with.
    """
    _check_corpus(corpus, words)
    photographs = _read_records(corpus, labels, tags)
    place_B = hash_keys(key for _, key in _identify(corpus))
    held_B = hold_out_by_place(photographs, place_B, settings.held_out)
    held, others = np.flatnonzero(held_B), np.flatnonzero(~held_B)
    sampled = _take_sample(photographs, place_B, others)
    stored = np.concatenate([sampled, held])
    with _working_folder(options) as folder:
        features_BF = None
        if words.encoder_.n_image_features:
            features_BF = _write_features(corpus, words.encoder_.n_image_features, held_B, folder)
        position_B = np.argsort(np.concatenate([others, held]))  # In the working folder.
        in_memory = TrainingSet(
            _take_named(photographs, corpus, stored),
            sparse.csr_array(corpus.counts(stored), dtype=np.int64),
            np.isin(stored, sampled),
            None if features_BF is None else np.array(features_BF[position_B[stored]]),
        )
        damped = Corpus.create(folder / "words", n_words=corpus.n_words)
        _append_damped(damped, corpus, others, settings.damping)
        part = _from_corpus(photographs.take(others), damped, features_BF)
        n_labelled = len(stored) - in_memory.photographs.labels.count(None)
        approximate = n_labelled > MAX_EXACT_SVM
        data = in_memory.damp(settings.damping)
        rows = np.arange(len(stored))
        sample, held_out = data.take(rows[: len(sampled)]), data.take(rows[len(sampled) :])
        chosen = fit_on_part(
            part, sample, held_out, settings, seed, options, approximate=approximate
        )
        _append_damped(damped, corpus, held, settings.damping)
        whole = _from_corpus(photographs.take(np.concatenate([others, held])), damped, features_BF)
        keys = (key for _, key in _identify(corpus))
        return fit_on_all(
            words_of(words),
            whole,
            data,
            chosen,
            settings,
            seed,
            options,
            training_set=in_memory,
            fingerprint=fingerprint_records(keys, photographs.labels, photographs.tags),
            approximate=approximate,
        )


def load_corpus_words(corpus: Corpus) -> BagOfVisualWords:
    """Return the visual words that are stored in the folder of a corpus."""
    path = corpus.folder / WORDS
    if not path.exists():
        raise InvalidArgument(
            f"words must be the fitted visual words of {corpus.folder}, since it has no {WORDS}, "
            "got None."
        )
    return BagOfVisualWords.load(path)


def with_word_settings(settings: SettingsT, words: BagOfVisualWords) -> SettingsT:
    """Return settings in which those of visual words are replaced by those of `words`."""
    of_words = {name: getattr(words, name) for name in WORD_SETTINGS}
    return replace(settings, **of_words | words.encoder_.count_learned())


def _check_corpus(corpus: Corpus, words: BagOfVisualWords) -> None:
    if corpus.encoder != words.encoder_.fingerprint():
        raise InvalidArgument(
            f"images must be a corpus that was encoded with words, got {corpus.folder}, which was "
            f"made with encoder {corpus.encoder!r}."
        )
    if not len(corpus):
        raise InvalidArgument(f"images must have a photograph, got none in {corpus.folder}.")


def _read_records(
    corpus: Corpus, labels: Sequence[Any] | None, tags: Sequence[Tags] | None
) -> Photographs:
    """Return labels and tags of all photographs, without names and keys."""
    found = check_tags(corpus.tags if tags is None else tags, len(corpus))
    equal: dict[tuple[str, ...], Tags] = {}  # One list for all photographs with the same tags.
    return Photographs(
        sources=[b""] * len(corpus),
        names=[""] * len(corpus),
        labels=check_labels(corpus.labels if labels is None else labels, len(corpus)),
        tags=[each and equal.setdefault(tuple(each), each) for each in found],
    )


def _identify(corpus: Corpus) -> Iterator[tuple[str, str]]:
    """Return an iterator over the names and keys of photographs."""
    number = 0
    for records in corpus.records():
        for name, key in zip(records["names"], records["keys"], strict=True):
            name = name or f"image {number}"
            number += 1
            yield name, key or name


def _take_named(photographs: Photographs, corpus: Corpus, rows: NDArray[np.int64]) -> Photographs:
    """Return some of the photographs, with their names and keys."""
    numbers = set(rows.tolist())
    known = {n: pair for n, pair in enumerate(_identify(corpus)) if n in numbers}
    names, keys = zip(*(known[number] for number in rows.tolist()), strict=True)
    return replace(photographs.take(rows), names=list(names), keys=list(keys))


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
    photographs: Photographs, place_B: NDArray[np.float64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return at most `MAX_SAMPLE` of the rows, and one of each class if it is not among them."""
    chosen = rows[np.argsort(place_B[rows], kind="stable")[:MAX_SAMPLE]]
    label_B = photographs.label_numbers(photographs.classes)
    first = rows[np.unique(label_B[rows], return_index=True)[1]]
    missing = first[~np.isin(label_B[first], label_B[chosen])]
    return np.sort(np.concatenate([chosen, missing]))


def _from_corpus(
    photographs: Photographs, corpus: Corpus, features_BF: NDArray[np.float32] | None
) -> TrainingSet:
    """Return a training set that stays on disk; only topics can be learned from it.

    Parameters
    ----------
    features_BF : features of these photographs, and maybe of others after them.
    """
    n_photographs = len(photographs)
    return TrainingSet(
        photographs,
        cast(sparse.csr_array, corpus),
        np.ones(n_photographs, np.bool_),
        None if features_BF is None else features_BF[:n_photographs],
    )


def _write_features(
    corpus: Corpus, n_features: int, held_B: NDArray[np.bool_], folder: Path
) -> NDArray[np.float32]:
    """Write the features of all photographs to a file, the held-out ones last, and map it."""
    path = folder / "features"
    ends, start = [0, int((~held_B).sum())], 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for number, features_BF in enumerate(read_features(corpus)):
                if features_BF.dtype != np.float32 or features_BF.shape[1:] != (n_features,):
                    raise StorageError(
                        f"{corpus.folder} is damaged: a photograph must have {n_features} features "
                        f"of float32, got {features_BF.shape[1:]} of {features_BF.dtype} in shard "
                        f"{number}."
                    )
                held = held_B[start : start + len(features_BF)]
                start += len(held)
                for part, rows_BF in enumerate((features_BF[~held], features_BF[held])):
                    file.seek(ends[part] * n_features * 4)
                    file.write(rows_BF.data)
                    ends[part] += len(rows_BF)
    except OSError as error:
        raise UnwritableFile(f"{path} cannot be written: {error.strerror}.") from error
    return np.memmap(path, np.float32, "r", shape=(len(held_B), n_features))


def _append_damped(
    target: Corpus, source: Corpus, rows: NDArray[np.int64], damping: float | None
) -> None:
    for start in range(0, len(rows), SHARD_SIZE):
        target.append(damp_counts(source.counts(rows[start : start + SHARD_SIZE]), damping))


@contextmanager
def _working_folder(options: RunOptions) -> Iterator[Path]:
    """Make a folder for damped counts; a resumed run writes the same ones again."""
    if options.checkpoint is None:
        with TemporaryDirectory() as temporary:
            yield Path(temporary) / "documents"
        return
    partial = PartialFolder(options.checkpoint / "documents", "fit")
    with partial.lock():
        partial.discard()  # What a kill left.
        partial.write_plan({})
        try:
            yield partial.folder / "documents"
        finally:
            partial.discard()
