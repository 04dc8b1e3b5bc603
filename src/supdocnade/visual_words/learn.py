"""Learning of visual words: a sample of patches, and k-means.

scikit-learn's mini-batch k-means finds the words on one thread, since its bits depend on their
number.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from supdocnade.errors import InvalidArgument
from supdocnade.images.reading import SkippedImage, map_images
from supdocnade.runs import RunOptions
from supdocnade.seeding import named_generator
from supdocnade.threads import limit_threads
from supdocnade.visual_words.describer import (
    Describer,
    FunctionDescriber,
    NetworkDescriber,
    SIFTDescriber,
)
from supdocnade.visual_words.encoder import Codebook, ImageEncoder
from supdocnade.visual_words.settings import VisualWordSettings

SAMPLE_SIZE, NETWORK_SAMPLE_SIZE, SAMPLES_PER_WORD = 100_000, 40_000, 20
"""Default number of patches in the sample, for SIFT and for networks, which have ten times as many
features per patch, and the minimum per word."""

MIN_PER_IMAGE = 64
"""Patches taken from an image. If there are more images than the sample needs at this rate, some
images are not read: reading an image costs more than describing its patches."""

SAMPLING, LEARNING = "sampling patches", "learning words"
"""Stages reported to `RunOptions.progress`."""

MAX_WORDS = 100_000

PATCHES_PER_WORD = 4
"""Mean number of different patches per word, if there are fewer patches than words wanted."""

BATCH_SIZE = 4096
"""Rows of a mini-batch, or twice the number of clusters if that is more."""

START_ROWS = 30
"""Rows per cluster among which k-means++ chooses the first centres."""


class PatchSample(NamedTuple):
    """Patches of one or several images."""

    values_ND: NDArray[np.float32]
    """(patches, descriptor size)."""
    contrast_N: NDArray[np.float32]
    features_BF: NDArray[np.float32]
    """(images, features) of the images; no columns unless a network describes them."""


def learn_words(
    images: Sequence[Any],
    settings: VisualWordSettings,
    seed: int,
    options: RunOptions = RunOptions(),
    *,
    min_words: int | None = None,
) -> tuple[ImageEncoder, tuple[SkippedImage, ...]]:
    """Learn the visual words of images.

    Parameters
    ----------
    settings : how to run, such as `n_jobs`, has no effect here: `options` says it.
    min_words : as for `fit_codebook`.

    Returns
    -------
    The encoder, and the images of the sample that could not be read.
    """
    settings.check()
    describer: Describer
    if settings.features == "sift":
        describer, least = settings.sift(), SAMPLE_SIZE
    elif isinstance(settings.features, str):
        describer, least = NetworkDescriber.find(settings.features), NETWORK_SAMPLE_SIZE
    else:
        decoding = replace(settings.sift().decoding, color=True)
        describer = FunctionDescriber(function=settings.features, decoding=decoding)
        least = NETWORK_SAMPLE_SIZE
    size = settings.sample_size or max(least, SAMPLES_PER_WORD * settings.n_words)
    sample, skipped = sample_patches(images, describer, size, seed, options)
    if isinstance(describer, NetworkDescriber):
        describer = describer.fit(sample.values_ND, sample.features_BF)
        sample = sample._replace(values_ND=describer.project(sample.values_ND))
    elif isinstance(describer, SIFTDescriber) and settings.contrast_percentile > 0:
        floor = float(np.float32(np.percentile(sample.contrast_N, settings.contrast_percentile)))
        weak = sample.contrast_N < floor
        sample.values_ND[weak] *= (sample.contrast_N[weak] / np.float32(floor))[:, None]
        describer = replace(describer, sift=replace(describer.sift, contrast_floor=floor))
    options.progress(LEARNING, 0, 1)
    with limit_threads(options.n_jobs):
        codebook = fit_codebook(sample.values_ND, settings.n_words, seed, min_words=min_words)
    options.progress(LEARNING, 1, 1)
    encoder = ImageEncoder(
        describer=describer,
        codebook=codebook,
        regions=settings.regions(),
        n_nearest=settings.n_nearest,
        mirror=settings.mirror,
    )
    return encoder, tuple(skipped)


def sample_patches(
    images: Sequence[Any],
    describer: Describer,
    sample_size: int,
    seed: int,
    options: RunOptions = RunOptions(),
) -> tuple[PatchSample, list[SkippedImage]]:
    """Draw at most about `sample_size` patches at random, equally many from each image read."""
    if not len(images):
        raise InvalidArgument("X must have an image, got none.")
    per_image = max(sample_size // len(images), min(MIN_PER_IMAGE, sample_size))
    n_images = min(len(images), max(sample_size // per_image, 1))
    shuffled = named_generator(seed, "sample").permutation(len(images))
    samples, skipped = [], []
    for sample in map_images(
        partial(_sample_image, describer, per_image, seed, options.device),
        images,
        options,
        stage=SAMPLING,
        numbers=np.sort(shuffled[:n_images]).tolist(),
    ):
        if isinstance(sample, SkippedImage):
            skipped.append(sample)
        else:
            samples.append(sample)
    if not samples:
        raise InvalidArgument(
            f"X must have an image that can be read, got {len(skipped)} that cannot: "
            f"{skipped[0].reason}"
        )
    return PatchSample(*(np.concatenate(arrays) for arrays in zip(*samples, strict=True))), skipped


def _sample_image(
    describer: Describer,
    per_image: int,
    seed: int,
    device: str,
    source: Any,
    name: str,
    number: int,
) -> PatchSample:
    """Draw patches of one image."""
    found = describer.describe(describer.read(source, name), device)
    shuffled = named_generator(seed, "patches", number).permutation(len(found.values_SD))
    drawn = np.sort(shuffled[:per_image])
    image_F = np.empty(0, np.float32) if found.image_F is None else found.image_F
    return PatchSample(found.values_SD[drawn], found.contrast_S[drawn], image_F[None])


def fit_codebook(
    sample_ND: NDArray[np.float32], n_words: int, seed: int, min_words: int | None = None
) -> Codebook:
    """Learn visual words from a sample of descriptors.

    Descriptors of zero, which patches of one colour have, are ignored: they would take a word away
    from patches with a texture. Later they are assigned like all others.

    Parameters
    ----------
    sample_ND : (sample, descriptor size), with at least as many different rows as words.
    n_words : 2 to 100,000.
    min_words : if there are fewer different descriptors than `n_words`, learn one word per four
        descriptors, but at least this many. By default, raise.
    """
    if n_words > MAX_WORDS:
        raise InvalidArgument(f"n_words must be at most {MAX_WORDS}, got {n_words}.")
    sample = np.ascontiguousarray(sample_ND[np.any(sample_ND != 0, axis=1)], np.float32)
    if len(sample) < n_words or len(np.unique(sample[: 50 * n_words], axis=0)) < n_words:
        n_different = len(np.unique(sample, axis=0))
        if n_different < n_words and min_words is not None:
            n_words = max(n_different // PATCHES_PER_WORD, min_words, 2)
        if n_different < n_words:
            raise InvalidArgument(
                f"images must have at least {n_words} different patches, got {n_different}."
            )
    from sklearn.cluster import MiniBatchKMeans  # Slow to import; prediction does not need it.

    means = MiniBatchKMeans(
        n_words,
        batch_size=max(BATCH_SIZE, 2 * n_words),
        init_size=max(START_ROWS * n_words, BATCH_SIZE),
        n_init=1,
        random_state=int(named_generator(seed, "codebook").integers(2**31)),
    )
    with threadpool_limits(1):  # The bits depend on the number of threads.
        means.fit(sample)
    return Codebook(np.ascontiguousarray(means.cluster_centers_, np.float32))
