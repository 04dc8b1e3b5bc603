"""Learning of visual words: a sample of patches, k-means, and example patches of each word."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument
from supdocnade.images.reading import SkippedImage, map_images
from supdocnade.runs import RunOptions
from supdocnade.seeding import named_generator
from supdocnade.threads import limit_threads
from supdocnade.visual_words.codebook import Codebook, PatchExamples, fit_codebook
from supdocnade.visual_words.describer import (
    Describer,
    FunctionDescriber,
    NetworkDescriber,
    SIFTDescriber,
)
from supdocnade.visual_words.encoder import ImageEncoder, Regions
from supdocnade.visual_words.settings import VisualWordSettings

SAMPLE_SIZE, NETWORK_SAMPLE_SIZE, SAMPLES_PER_WORD = 100_000, 40_000, 20
"""Default number of patches in the sample, for SIFT and for networks, which have ten times as many
features per patch, and the minimum per word."""

N_EXAMPLES = 16
"""Maximum number of example patches per word."""

MIN_PER_IMAGE = 64
"""Patches taken from an image. If there are more images than the sample needs at this rate, some
images are not read: reading an image costs more than describing its patches."""

MAX_PIXEL_BYTES = 2**27
"""Memory for the pixels of sampled patches; if all do not fit, examples are chosen among fewer."""

SAMPLING = "sampling patches"
"""Stage reported to `RunOptions.progress`."""


class PatchSample(NamedTuple):
    """Patches of one or several images."""

    values_ND: NDArray[np.float32]
    """(patches, descriptor size)."""
    contrast_N: NDArray[np.float32]
    image_N: NDArray[np.int64]
    """Number of the image of each patch."""
    features_BF: NDArray[np.float32]
    """(images, features) of the images; no columns unless a network describes them."""
    candidate_M: NDArray[np.int64]
    """Numbers of the patches whose pixels are stored."""
    pixels_M: NDArray[np.uint8]
    """(candidates, side, side, 3) pixels in colour."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedWords:
    """An encoder with examples of each word."""

    encoder: ImageEncoder
    examples: PatchExamples
    skipped: tuple[SkippedImage, ...]
    """Images of the sample that could not be read."""


def learn_words(
    images: Sequence[Any],
    settings: VisualWordSettings,
    seed: int,
    options: RunOptions = RunOptions(),
    *,
    min_words: int | None = None,
) -> FittedWords:
    """Learn the visual words of images.

    Parameters
    ----------
    settings : how to run, such as `n_jobs`, has no effect here: `options` says it.
    min_words : as for `BagOfVisualWords.fit`.
    """
    settings.check()
    describer: Describer
    if settings.features == "sift":
        describer = settings.sift()
    elif isinstance(settings.features, str):
        describer = NetworkDescriber.find(settings.features)
    else:
        decoding = replace(settings.sift().decoding, color=True)
        describer = FunctionDescriber(function=settings.features, decoding=decoding)
    return fit_words(
        images,
        describer,
        settings.regions(),
        options,
        n_words=settings.n_words,
        min_words=min_words,
        n_nearest=settings.n_nearest,
        mirror=settings.mirror,
        seed=seed,
        contrast_percentile=settings.contrast_percentile,
        sample_size=settings.sample_size,
    )


def fit_words(
    images: Sequence[Any],
    describer: Describer,
    regions: Regions,
    options: RunOptions = RunOptions(),
    *,
    n_words: int,
    min_words: int | None = None,
    n_nearest: int = 1,
    mirror: bool = False,
    seed: int,
    contrast_percentile: float = 0.0,
    sample_size: int | None = None,
    n_examples: int = N_EXAMPLES,
) -> FittedWords:
    """Learn visual words from images.

    Parameters
    ----------
    min_words : as for `fit_codebook`.
    n_nearest : number of words of a patch.
    mirror : whether the encoder adds the words of mirror images.
    contrast_percentile : patches with less contrast than this percentile of the sample get shorter
        descriptors.
    sample_size : number of patches in the sample; by default 100,000, or 20 per word if more.
    n_examples : maximum number of example patches per word.
    """
    is_sift = isinstance(describer, SIFTDescriber)
    least = SAMPLE_SIZE if is_sift else NETWORK_SAMPLE_SIZE
    size = sample_size or max(least, SAMPLES_PER_WORD * n_words)
    sample, skipped = sample_patches(
        images,
        describer,
        size,
        seed,
        options,
        with_pixels=n_examples > 0,
    )
    if isinstance(describer, NetworkDescriber):
        describer = describer.fit(sample.values_ND, sample.features_BF)
        sample = sample._replace(values_ND=describer.project(sample.values_ND))
    elif isinstance(describer, SIFTDescriber) and contrast_percentile > 0:
        floor = float(np.float32(np.percentile(sample.contrast_N, contrast_percentile)))
        weak = sample.contrast_N < floor
        sample.values_ND[weak] *= (sample.contrast_N[weak] / np.float32(floor))[:, None]
        describer = replace(describer, sift=replace(describer.sift, contrast_floor=floor))
    with limit_threads(options.n_jobs):
        codebook = fit_codebook(
            sample.values_ND, n_words, seed, min_words=min_words, progress=options.progress
        )
    return FittedWords(
        encoder=ImageEncoder(
            describer=describer,
            codebook=codebook,
            regions=regions,
            n_nearest=n_nearest,
            mirror=mirror,
        ),
        examples=choose_examples(codebook, sample, n_examples),
        skipped=tuple(skipped),
    )


def sample_patches(
    images: Sequence[Any],
    describer: Describer,
    sample_size: int,
    seed: int,
    options: RunOptions = RunOptions(),
    *,
    with_pixels: bool = True,
) -> tuple[PatchSample, list[SkippedImage]]:
    """Draw at most about `sample_size` patches at random, equally many from each image read."""
    if not len(images):
        raise InvalidArgument("X must have an image, got none.")
    per_image = max(sample_size // len(images), min(MIN_PER_IMAGE, sample_size))
    n_images = min(len(images), max(sample_size // per_image, 1))
    side = describer.example_side
    n_candidates = max(MAX_PIXEL_BYTES // (n_images * side * side * 3), 1) if with_pixels else 0
    shuffled = named_generator(seed, "sample").permutation(len(images))
    samples, skipped, n_before = [], [], 0
    for sample in map_images(
        partial(
            _sample_image,
            describer,
            per_image,
            n_candidates,
            seed,
            options.device,
        ),
        images,
        options,
        stage=SAMPLING,
        numbers=np.sort(shuffled[:n_images]).tolist(),
    ):
        if isinstance(sample, SkippedImage):
            skipped.append(sample)
        else:
            samples.append(sample._replace(candidate_M=n_before + sample.candidate_M))
            n_before += len(sample.values_ND)
    if not samples:
        raise InvalidArgument(
            f"X must have an image that can be read, got {len(skipped)} that cannot: "
            f"{skipped[0].reason}"
        )
    return PatchSample(*(np.concatenate(arrays) for arrays in zip(*samples, strict=True))), skipped


def _sample_image(
    describer: Describer,
    per_image: int,
    n_candidates: int,
    seed: int,
    device: str,
    source: Any,
    name: str,
    number: int,
) -> PatchSample:
    """Draw patches of one image, and cut out the pixels of the first `n_candidates` drawn."""
    if n_candidates:
        pixels, colors = describer.read_with_color(source, name)
    else:
        pixels = describer.read(source, name)
    found = describer.describe(pixels, device)
    drawn = named_generator(seed, "patches", number).permutation(len(found.values_SD))[:per_image]
    candidates = np.sort(drawn[:n_candidates])
    drawn = np.sort(drawn)
    side = describer.example_side
    image_F = np.empty(0, np.float32) if found.image_F is None else found.image_F
    if n_candidates:
        cut = cut_patches(
            colors, found.centres_S2[candidates], found.patch_size_S[candidates], side
        )
    else:
        cut = np.empty((0, side, side, 3), np.uint8)
    return PatchSample(
        found.values_SD[drawn],
        found.contrast_S[drawn],
        np.full(len(drawn), number),
        image_F[None],
        np.searchsorted(drawn, candidates),
        cut,
    )


def choose_examples(codebook: Codebook, sample: PatchSample, n_examples: int) -> PatchExamples:
    """Return the most typical candidates of each word.

    A candidate is the more typical the nearer it is to the word, but the best patch of each image
    comes before the second best of any.
    """
    values_MD, image_M = sample.values_ND[sample.candidate_M], sample.image_N[sample.candidate_M]
    word_M = codebook.assign(values_MD).astype(np.int64)
    distance_M = np.square(values_MD - codebook.centres_KD[word_M]).sum(axis=1)
    order = np.lexsort((distance_M, image_M, word_M))
    rank_in_image_M = _count_repeats(word_M[order] * 2**32 + image_M[order], order)
    order = np.lexsort((distance_M, rank_in_image_M, word_M))
    rank_M = _count_repeats(word_M[order], order)
    chosen = order[rank_M[order] < n_examples]
    ends = np.searchsorted(word_M[chosen], np.arange(1, codebook.n_words))
    patches = np.split(sample.pixels_M[chosen], ends)
    return PatchExamples.of(patches, sample.pixels_M.shape[1])


def _count_repeats(keys: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each item how many items before it in the order have the same key.

    Parameters
    ----------
    keys : keys of the items in the order, equal ones adjacent.
    order : numbers of the items.
    """
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))[: len(keys)]
    lengths = np.diff(np.append(starts, len(keys)))
    repeats = np.empty(len(keys), np.int64)
    repeats[order] = np.arange(len(keys)) - np.repeat(starts, lengths)
    return repeats


def cut_patches(
    image: NDArray[np.uint8],
    centres_S2: NDArray[np.floating],
    patch_size_S: NDArray[np.integer],
    side: int,
) -> NDArray[np.uint8]:
    """Return patches of an image as side × side pixels each; its border is repeated."""
    size_S1 = patch_size_S[:, None]
    steps_SJ = (np.arange(side) + 0.5) * size_S1 / side - size_S1 / 2
    rows, columns = (
        np.clip(np.floor(centres_S2[:, axis, None] + steps_SJ), 0, image.shape[axis] - 1)
        for axis in (0, 1)
    )
    return image[rows.astype(np.int64)[:, :, None], columns.astype(np.int64)[:, None, :]]
