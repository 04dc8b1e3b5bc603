"""Learning of visual words: a sample of patches, k-means, and example patches of each word.

scikit-learn's mini-batch k-means finds the words on one thread, since its bits depend on their
number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from supdocnade.checks import check_count, check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import DecodeConfig, decode, encode
from supdocnade.images.reading import SkippedImage, map_images
from supdocnade.runs import RunOptions
from supdocnade.schema import array, stored
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

N_EXAMPLES = 16
"""Maximum number of example patches per word."""

MIN_PER_IMAGE = 64
"""Patches taken from an image. If there are more images than the sample needs at this rate, some
images are not read: reading an image costs more than describing its patches."""

MAX_PIXEL_BYTES = 2**27
"""Memory for the pixels of sampled patches; if all do not fit, examples are chosen among fewer."""

SAMPLING, LEARNING = "sampling patches", "learning words"
"""Stages reported to `RunOptions.progress`."""

MAX_WORDS = 100_000

PATCHES_PER_WORD = 4
"""Mean number of different patches per word, if there are fewer patches than words wanted."""

BATCH_SIZE = 4096
"""Rows of a mini-batch, or twice the number of clusters if that is more."""

START_ROWS = 30
"""Rows per cluster among which k-means++ chooses the first centres."""

QUALITY = 70
"""WebP quality; a patch of 48 × 48 pixels has about 260 bytes, without it 6,912."""


@dataclass(frozen=True, eq=False)
class PatchExamples:
    """Example patches of visual words, the most typical of each word first."""

    pictures: tuple[bytes, ...] = array("K")
    """A WebP file of each word, the patches in rows; no bytes for a word without examples."""
    n_examples_K: NDArray[np.int32] = array("K", np.int32, least=0)
    """(words,) number of examples of each word."""
    side: int = stored(least=1)
    """Pixels along a side of a patch."""

    def __post_init__(self) -> None:
        if [n > 0 for n in self.n_examples_K.tolist()] != [len(each) > 0 for each in self.pictures]:
            raise InvalidArgument("examples must have a picture of each word with examples")

    @classmethod
    def of(cls, patches: Sequence[NDArray[np.uint8]], side: int) -> "PatchExamples":
        """Return examples, given the patches of each word as (examples, side, side, 3) pixels."""
        pictures = tuple(_draw(each) if len(each) else b"" for each in patches)
        return cls(pictures, np.array([len(each) for each in patches], np.int32), side)

    def patches(self, word: int) -> NDArray[np.uint8]:
        """Return the examples of a word, (examples, side, side, 3), as they are after WebP."""
        if check_count("word", word) >= len(self.pictures):
            raise InvalidArgument(f"word must be below {len(self.pictures)}, got {word}.")
        n_examples, side = int(self.n_examples_K[word]), self.side
        if n_examples == 0:
            return np.empty((0, side, side, 3), np.uint8)
        n_rows, n_columns = _grid(n_examples)
        in_color = DecodeConfig(color=True)
        picture = decode(self.pictures[word], in_color, name=f"picture of word {word}")
        check_shape("picture", picture.shape, (n_rows * side, n_columns * side, 3))
        rows = picture.reshape(n_rows, side, n_columns, side, 3).swapaxes(1, 2)
        return rows.reshape(-1, side, side, 3)[:n_examples]


def _grid(n_examples: int) -> tuple[int, int]:
    """Return the rows and columns of a picture."""
    n_columns = ceil(sqrt(n_examples))
    return ceil(n_examples / n_columns), n_columns


def _draw(patches: NDArray[np.uint8]) -> bytes:
    (n_rows, n_columns), side = _grid(len(patches)), patches.shape[1]
    cells = np.zeros((n_rows * n_columns, side, side, 3), np.uint8)
    cells[: len(patches)] = patches
    rows = cells.reshape(n_rows, n_columns, side, side, 3).swapaxes(1, 2)
    return encode(rows.reshape(n_rows * side, n_columns * side, 3), "WEBP", quality=QUALITY)


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


def learn_words(
    images: Sequence[Any],
    settings: VisualWordSettings,
    seed: int,
    options: RunOptions = RunOptions(),
    *,
    min_words: int | None = None,
) -> tuple[ImageEncoder, PatchExamples, tuple[SkippedImage, ...]]:
    """Learn the visual words of images.

    Parameters
    ----------
    settings : how to run, such as `n_jobs`, has no effect here: `options` says it.
    min_words : as for `fit_codebook`.

    Returns
    -------
    The encoder, examples of each word, and the images of the sample that could not be read.
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
    return encoder, choose_examples(codebook, sample), tuple(skipped)


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
    side = describer.example_side
    n_candidates = max(MAX_PIXEL_BYTES // (n_images * side * side * 3), 1)
    shuffled = named_generator(seed, "sample").permutation(len(images))
    samples, skipped, n_before = [], [], 0
    for sample in map_images(
        partial(_sample_image, describer, per_image, n_candidates, seed, options.device),
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
    pixels, colors = describer.read_with_color(source, name)
    found = describer.describe(pixels, device)
    drawn = named_generator(seed, "patches", number).permutation(len(found.values_SD))[:per_image]
    candidates = np.sort(drawn[:n_candidates])
    drawn = np.sort(drawn)
    centres_S2, patch_size_S = found.centres_S2[candidates], found.patch_size_S[candidates]
    image_F = np.empty(0, np.float32) if found.image_F is None else found.image_F
    return PatchSample(
        found.values_SD[drawn],
        found.contrast_S[drawn],
        np.full(len(drawn), number),
        image_F[None],
        np.searchsorted(drawn, candidates),
        cut_patches(colors, centres_S2, patch_size_S, describer.example_side),
    )


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
    return Codebook(find_centres(sample, n_words, named_generator(seed, "codebook")))


def find_centres(
    values_ND: NDArray[np.float32], n_clusters: int, generator: np.random.Generator
) -> NDArray[np.float32]:
    """Return the centres of k-means, (clusters, columns).

    Parameters
    ----------
    values_ND : (rows, columns), with at least as many different rows as clusters.
    """
    from sklearn.cluster import MiniBatchKMeans  # Slow to import; prediction does not need it.

    means = MiniBatchKMeans(
        n_clusters,
        batch_size=max(BATCH_SIZE, 2 * n_clusters),
        init_size=max(START_ROWS * n_clusters, BATCH_SIZE),
        n_init=1,
        random_state=int(generator.integers(2**31)),
    )
    with threadpool_limits(1):  # The bits depend on the number of threads.
        means.fit(values_ND)
    return np.ascontiguousarray(means.cluster_centers_, np.float32)


def choose_examples(codebook: Codebook, sample: PatchSample) -> PatchExamples:
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
    chosen = order[rank_M[order] < N_EXAMPLES]
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
