"""Learning the visual words of images: a bounded sample of patches, k-means, and examples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import DecodeConfig, decode
from supdocnade.images.regions import Regions
from supdocnade.likelihood.cpu.threads import limit_threads, one_torch_thread
from supdocnade.run_options import RunOptions
from supdocnade.seeding import named_generator
from supdocnade.visual_words.codebook import Codebook, fit_codebook
from supdocnade.visual_words.encoder import Description, ImageEncoder
from supdocnade.visual_words.parallel import SkippedImage, over_images

SAMPLE_SIZE = 100_000
"""Patches that words are learned from, unless there are more words than it has room for."""

SAMPLES_PER_WORD = 20
"""At least so many patches for every word."""

SAMPLING, CUTTING = "sampling patches", "cutting out examples"
"""Stages reported to `RunOptions.progress`."""

LEAST_PER_IMAGE = 64
"""From fewer images more patches are taken than from more images fewer: reading costs most."""


class PatchSample(NamedTuple):
    """Patches of many images."""

    values_ND: NDArray[np.float32]
    contrast_N: NDArray[np.float32]
    centres_N2: NDArray[np.float32]
    patch_size_N: NDArray[np.int32]
    image_N: NDArray[np.int64]
    """Numbers of the images they are from."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedWords:
    """An encoder, with examples of every word."""

    encoder: ImageEncoder
    examples: NDArray[np.uint8]
    """(words, examples, side, side, 3) patches of every word, the most typical first."""
    n_examples_K: NDArray[np.int32]
    """(words,) how many of them there are."""
    skipped: tuple[SkippedImage, ...]
    """Images of the sample that could not be read."""


def fit_words(
    images: Sequence[Any],
    description: Description,
    regions: Regions,
    options: RunOptions = RunOptions(),
    *,
    n_words: int,
    seed: int,
    contrast_percentile: float = 0.0,
    sample_size: int | None = None,
    n_examples: int = 16,
) -> FittedWords:
    """Learn visual words from images.

    Parameters
    ----------
    contrast_percentile : patches of less contrast than this percentile of the sample are shortened.
    sample_size : patches that are looked at; None: 100,000, or 20 for every word if that is more.
    n_examples : patches kept of every word.
    """
    size = sample_size or max(SAMPLE_SIZE, SAMPLES_PER_WORD * n_words)
    sample, skipped = sample_patches(images, description, size, seed, options)
    if contrast_percentile > 0:
        floor = float(np.float32(np.percentile(sample.contrast_N, contrast_percentile)))
        weak = sample.contrast_N < floor
        sample.values_ND[weak] *= (sample.contrast_N[weak] / np.float32(floor))[:, None]
        description = replace(description, sift=replace(description.sift, contrast_floor=floor))
    n_threads = None if options.n_jobs is None else effective_n_jobs(options.n_jobs)
    with limit_threads(n_threads):
        codebook = fit_codebook(sample.values_ND, n_words, seed, progress=options.progress)
    encoder = ImageEncoder(description=description, codebook=codebook, regions=regions)
    examples, count_K = _examples(images, encoder, sample, n_examples, options)
    return FittedWords(
        encoder=encoder, examples=examples, n_examples_K=count_K, skipped=tuple(skipped)
    )


def sample_patches(
    images: Sequence[Any],
    description: Description,
    sample_size: int,
    seed: int,
    options: RunOptions = RunOptions(),
) -> tuple[PatchSample, list[SkippedImage]]:
    """Return about `sample_size` patches at most, as many from every image, chosen at random."""
    if not len(images):
        raise InvalidArgument("X must have an image, got none.")
    per_image = max(sample_size // len(images), min(LEAST_PER_IMAGE, sample_size))
    n_images = min(len(images), max(sample_size // per_image, 1))
    shuffled = named_generator(seed, "sample").permutation(len(images))
    numbers = np.sort(shuffled[:n_images]).tolist()
    parts, skipped = [], []
    for part in over_images(
        _SampleOne(description, per_image, seed),
        images,
        options,
        stage=SAMPLING,
        numbers=numbers,
    ):
        if isinstance(part, SkippedImage):
            skipped.append(part)
        else:
            parts.append(part)
    if not parts:
        raise InvalidArgument(
            f"X must have an image that can be read, got {len(skipped)} that cannot: "
            f"{skipped[0].reason}"
        )
    return PatchSample(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True))), skipped


class _SampleOne:
    """Draws patches of an image; a class, so that it travels to other processes."""

    def __init__(self, description: Description, per_image: int, seed: int):
        self.description, self.per_image, self.seed = description, per_image, seed

    def __call__(self, source: Any, name: str, number: int) -> PatchSample:
        found, _ = self.description.describe(source, name)
        count = len(found.values_SD)
        generator = named_generator(self.seed, "patches", number)
        chosen = found.take(np.sort(generator.permutation(count)[: self.per_image]))
        return PatchSample(
            chosen.values_SD,
            chosen.contrast_S,
            chosen.centres_S2,
            chosen.patch_size_S,
            np.full(len(chosen.values_SD), number),
        )


def _examples(
    images: Sequence[Any],
    encoder: ImageEncoder,
    sample: PatchSample,
    n_examples: int,
    options: RunOptions,
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Cut out the patches of the sample that are nearest to every word."""
    n_words = encoder.codebook.n_words
    side = max(encoder.description.sift.patch_sizes)
    patches = np.zeros((n_words, n_examples, side, side, 3), np.uint8)
    if n_examples == 0:
        return patches, np.zeros(n_words, np.int32)
    word_N, rank_N = _typical(encoder.codebook, sample)
    wanted = np.flatnonzero(rank_N < n_examples)
    wanted = wanted[np.argsort(sample.image_N[wanted], kind="stable")]
    numbers, first = np.unique(sample.image_N[wanted], return_index=True)
    colors = replace(encoder.description.decoding, color=True)
    by_image = dict(zip(numbers.tolist(), np.split(wanted, first[1:]), strict=True))

    places = {
        number: [(sample.centres_N2[n], int(sample.patch_size_N[n])) for n in chosen]
        for number, chosen in by_image.items()
    }
    results = over_images(
        _CutOne(colors, places, side),
        images,
        replace(options, on_error="raise"),
        stage=CUTTING,
        numbers=numbers.tolist(),
    )
    for number, cut in zip(numbers.tolist(), results, strict=True):
        chosen = by_image[number]
        patches[word_N[chosen], rank_N[chosen]] = cut
    return patches, np.bincount(word_N[wanted], minlength=n_words).astype(np.int32)


class _CutOne:
    """Cuts patches out of an image; a class, so that it travels to other processes."""

    def __init__(self, decoding: DecodeConfig, places: dict[int, list[Any]], side: int):
        self.decoding, self.places, self.side = decoding, places, side

    def __call__(self, source: Any, name: str, number: int) -> NDArray[np.uint8]:
        image = decode(source, self.decoding, name=name)
        return np.stack(
            [cut_patch(image, centre, size, self.side) for centre, size in self.places[number]]
        )


def _typical(
    codebook: Codebook, sample: PatchSample
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the word of every patch, and its place among the most typical ones of that word.

    Nearest first, but the best patch of every image before the second best of any.
    """
    with one_torch_thread():
        word_N = codebook.assign(sample.values_ND)
    away_N = np.square(sample.values_ND - codebook.centres_KD[word_N]).sum(axis=1)
    order = np.lexsort((away_N, sample.image_N, word_N))
    turn_N = _count_repeats(word_N[order].astype(np.int64) * 2**32 + sample.image_N[order], order)
    order = np.lexsort((away_N, turn_N, word_N))
    return word_N, _count_repeats(word_N[order], order)


def _count_repeats(keys: NDArray[Any], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often the key of every item stood before it in the order; equal keys adjoin."""
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    lengths = np.diff(np.append(starts, len(keys)))
    repeats = np.empty(len(keys), np.int64)
    repeats[order] = np.arange(len(keys)) - np.repeat(starts, lengths)
    return repeats


def cut_patch(
    image: NDArray[np.uint8], centre: NDArray[np.floating], size: int, side: int
) -> NDArray[np.uint8]:
    """Return a patch of an image as side × side pixels; beyond the border its edge goes on."""
    steps = (np.arange(side) + 0.5) * size / side - size / 2
    rows = np.clip(np.floor(centre[0] + steps), 0, image.shape[0] - 1).astype(np.int64)
    columns = np.clip(np.floor(centre[1] + steps), 0, image.shape[1] - 1).astype(np.int64)
    return image[np.ix_(rows, columns)]
