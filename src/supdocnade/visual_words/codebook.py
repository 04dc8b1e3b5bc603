"""Codebook of visual words: the centres of k-means on descriptors of patches, with examples.

A descriptor belongs to the word whose centre is nearest. Descriptors of any kind do: a codebook
knows only their number of columns.

scikit-learn's mini-batch k-means finds them on one thread, since its bits depend on their number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from supdocnade.checks import check_count, check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import DecodeConfig, decode, encode
from supdocnade.runs import ProgressCallback, no_progress
from supdocnade.schema import array, stored
from supdocnade.seeding import named_generator
from supdocnade.threads import one_blas_thread

Floats = NDArray[np.float32]

MAX_WORDS = 100_000

PATCHES_PER_WORD = 4
"""Mean number of different patches per word, if there are fewer patches than words wanted."""

BLOCK = 2**22
"""Distances that exist at a time: 16 MiB."""

LEARNING = "learning words"
"""Stage reported to the progress callback."""

BATCH_SIZE = 4096
"""Rows of a mini-batch, or twice the number of clusters if that is more."""

START_ROWS = 30
"""Rows per cluster among which k-means++ chooses the first centres."""


@dataclass(frozen=True, eq=False)
class Codebook:
    """The visual words."""

    centres_KD: Floats = array("KD", np.float32)
    """(words, descriptor size)."""

    def __post_init__(self) -> None:
        # A contiguous copy that nobody else can change.
        object.__setattr__(self, "centres_KD", np.array(self.centres_KD, order="C"))

    @property
    def n_words(self) -> int:
        """K, the number of words."""
        return len(self.centres_KD)

    @cached_property
    def half_squares_K(self) -> Floats:
        """|c|² / 2 of each word."""
        half: Floats = 0.5 * np.square(self.centres_KD).sum(axis=1)
        return half

    def assign(self, values_SD: Floats) -> NDArray[np.int32]:
        """Return the nearest word of each descriptor, on a tie the first, (S,).

        Distances are rounded, and differently for a descriptor alone: one half-way between two
        words may be assigned to either.
        """
        return self.assign_nearest(values_SD, 1)[:, 0]

    def assign_nearest(self, values_SD: Floats, n_nearest: int) -> NDArray[np.int32]:
        """Return the nearest words of each descriptor, the nearest first, (S, n_nearest)."""
        check_shape("descriptors", values_SD.shape[1:], self.centres_KD.shape[1:])
        if not np.isfinite(values_SD).all():
            raise InvalidArgument("descriptors must be finite, got NaN or infinity.")
        words_SM = np.empty((len(values_SD), n_nearest), np.int32)
        block = max(BLOCK // self.n_words, 1)
        with one_blas_thread():
            for start in range(0, len(values_SD), block):
                rows = slice(start, start + block)
                # |v - c|² = |v|² - 2 v · c + |c|², and |v|² is the same for all words.
                products = values_SD[rows].astype(np.float32, copy=False) @ self.centres_KD.T
                np.subtract(self.half_squares_K, products, out=products)
                for place in range(n_nearest):  # A few passes are faster than sorting all words.
                    nearest_S = products.argmin(axis=1)
                    words_SM[rows, place] = nearest_S
                    products[np.arange(len(products)), nearest_S] = np.inf
        return words_SM


def fit_codebook(
    sample_ND: Floats,
    n_words: int,
    seed: int,
    *,
    min_words: int | None = None,
    progress: ProgressCallback = no_progress,
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
    check_count("n_words", n_words, least=2)
    if sample_ND.ndim != 2 or not np.isfinite(sample_ND).all():
        raise InvalidArgument(
            f"descriptors must be a finite matrix, got one of shape {sample_ND.shape}."
        )
    if n_words > MAX_WORDS:
        raise InvalidArgument(f"n_words must be at most {MAX_WORDS}, got {n_words}.")
    sample = np.ascontiguousarray(sample_ND[np.any(sample_ND != 0, axis=1)], np.float32)
    if len(sample) < n_words or len(np.unique(sample[: 50 * n_words], axis=0)) < n_words:
        n_different = len(np.unique(sample, axis=0))
        if n_different < n_words:
            if min_words is None:
                raise InvalidArgument(
                    f"n_words must be at most the number of different patches, {n_different}, "
                    f"got {n_words}."
                )
            n_words = max(n_different // PATCHES_PER_WORD, min_words, 2)
        if n_different < n_words:
            raise InvalidArgument(
                f"images must have at least {n_words} different patches, got {n_different}."
            )
    progress(LEARNING, 0, 1)
    centres_KD = find_centres(sample, n_words, named_generator(seed, "codebook"))
    progress(LEARNING, 1, 1)
    return Codebook(centres_KD)


def find_centres(values_ND: Floats, n_clusters: int, generator: np.random.Generator) -> Floats:
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


QUALITY = 70
"""WebP quality; a patch of 48 × 48 pixels has about 260 bytes, without it 6,912."""

_AS_IT_IS = DecodeConfig(color=True)


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
        n_examples, side = int(self.n_examples_K[word]), self.side
        if n_examples == 0:
            return np.empty((0, side, side, 3), np.uint8)
        n_rows, n_columns = _grid(n_examples)
        picture = decode(self.pictures[word], _AS_IT_IS, name=f"picture of word {word}")
        check_shape("picture", picture.shape, (n_rows * side, n_columns * side, 3))
        rows = picture.reshape(n_rows, side, n_columns, side, 3).swapaxes(1, 2)
        return rows.reshape(-1, side, side, 3)[:n_examples]

    def __add__(self, other: "PatchExamples") -> "PatchExamples":
        """Return the examples of words, and of further words after them."""
        numbers_K = np.concatenate([self.n_examples_K, other.n_examples_K])
        return PatchExamples(self.pictures + other.pictures, numbers_K, self.side)


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
