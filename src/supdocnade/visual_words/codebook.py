"""Codebook of visual words: the centres of k-means on descriptors of patches.

A descriptor belongs to the word whose centre is nearest. Descriptors of any kind do: a codebook
knows only their number of columns.

K-means gives the same bits for any number of threads. Rows are assigned to their nearest centre in
chunks of a fixed size, each by one thread. A cluster's rows are added up in their order: threads
share out columns, never rows. scikit-learn's KMeans gives other bits for another number of threads,
and reports no progress.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from supdocnade.checks import check_count, check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.runs import ProgressCallback, no_progress
from supdocnade.schema import array
from supdocnade.seeding import named_generator
from supdocnade.threads import SMALL_WORK, one_blas_thread, run_parts

Floats = NDArray[np.float32]

MAX_WORDS = 100_000

PATCHES_PER_WORD = 4
"""Mean number of different patches per word, if there are fewer patches than words wanted."""

BLOCK = 2**22
"""Distances that exist at a time: 16 MiB."""

LEARNING = "learning words"
"""Stage reported to the progress callback; it counts rounds, or batches."""

MAX_FULL_BATCH = 2_000
"""Above this many clusters k-means uses mini-batches: full rounds would take hours."""

START_ROWS = 30
"""Rows per cluster among which k-means++ chooses the first centres. With all of 100,000 it took
longer than k-means itself and led to no smaller inertia (240 clusters of SIFT descriptors)."""

TOLERANCE, MAX_ROUNDS = 1e-4, 30
"""K-means stops when the squared movement of all centres is below this share of the variance, or
after this number of passes over the sample."""

MIN_BATCH, BATCH_ROWS = 2**14, 10
"""Least number of rows of a mini-batch, and least number per cluster."""

RARE, PATIENCE = 0.01, 10
"""Mini-batches move a centre with less than this share of the largest cluster's rows, and stop
after this number of batches without a smaller inertia."""

CHUNK_DISTANCES, MIN_CHUNK = 2**18, 64
"""Distances that a thread computes at a time, 1 MiB, and the least number of rows."""

COLUMNS = 16
"""Columns that a thread adds up at a time."""


@dataclass(frozen=True, eq=False)
class Codebook:
    """The visual words."""

    centres_KD: Floats = array("KD", np.float32)
    """(words, descriptor size)."""

    def __post_init__(self) -> None:
        # A contiguous copy that nobody else can change.
        object.__setattr__(self, "centres_KD", np.array(self.centres_KD, order="C"))
        centres = self.centres_KD
        if centres.ndim != 2 or centres.dtype != np.float32 or not centres.size:
            raise InvalidArgument(
                "centres must be a matrix of float32, "
                f"got shape {centres.shape} of {centres.dtype}."
            )
        if not np.isfinite(centres).all():
            raise InvalidArgument("centres must be finite, got NaN or infinity.")

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
    return Codebook(find_centres(sample, n_words, seed, max_rounds=MAX_ROUNDS, progress=progress))


def find_centres(
    values_ND: Floats,
    n_clusters: int,
    seed: int,
    *,
    max_rounds: int,
    progress: ProgressCallback = no_progress,
) -> Floats:
    """Return the centres of k-means, (clusters, columns).

    Parameters
    ----------
    values_ND : (rows, columns), with at least as many different rows as clusters.
    max_rounds : maximum number of passes over the rows.
    """
    generator = named_generator(seed, "codebook")
    if n_clusters > MAX_FULL_BATCH:
        return fit_mini_batches(values_ND, n_clusters, generator, max_rounds, progress)
    start_KD = choose_start(values_ND, n_clusters, generator)
    return fit_full_batch(values_ND, start_KD, max_rounds, progress)


def choose_start(values_ND: Floats, n_clusters: int, generator: np.random.Generator) -> Floats:
    """Return the first centres, chosen by k-means++ from a random subset of the rows."""
    from sklearn.cluster import kmeans_plusplus  # Slow to import, and prediction does not need it.

    random_state = int(generator.integers(2**31))
    rows = np.sort(generator.permutation(len(values_ND))[: START_ROWS * n_clusters])
    subset = values_ND[rows]
    if len(np.unique(subset, axis=0)) < n_clusters:
        subset = values_ND
    with threadpool_limits(1):  # Its bits depend on the number of threads.
        start_KD, _ = kmeans_plusplus(subset, n_clusters, random_state=random_state)
    return np.ascontiguousarray(start_KD, np.float32)


def fit_full_batch(
    values_ND: Floats, start_KD: Floats, max_rounds: int, progress: ProgressCallback = no_progress
) -> Floats:
    """Return the centres that Lloyd's algorithm finds from a start.

    It stops like scikit-learn's KMeans: when no row changes its cluster, when the centres hardly
    move, or after `max_rounds`.
    """
    tolerance = TOLERANCE * values_ND.var(axis=0, dtype=np.float64).mean()
    centres_KD, previous_N = start_KD, np.full(len(values_ND), -1)
    for done in range(max_rounds):
        progress(LEARNING, done, max_rounds)
        cluster_N, score_N = assign(values_ND, centres_KD)
        if (cluster_N == previous_N).all():
            break
        means_KD = _find_means(values_ND, cluster_N, score_N, len(centres_KD))
        movement = np.square(means_KD - centres_KD, dtype=np.float64).sum()
        centres_KD, previous_N = means_KD, cluster_N
        if movement <= tolerance:
            break
    progress(LEARNING, max_rounds, max_rounds)
    return centres_KD


def fit_mini_batches(
    values_ND: Floats,
    n_clusters: int,
    generator: np.random.Generator,
    max_rounds: int,
    progress: ProgressCallback = no_progress,
) -> Floats:
    """Return the centres that mini-batch k-means finds from random rows (Sculley, 2010).

    Each centre is the running mean of the rows assigned to it. As in scikit-learn's
    MiniBatchKMeans, centres of rare clusters move to random rows, and the smoothed inertia of the
    batches decides when to stop.
    """
    n_rows = len(values_ND)
    batch_size = min(max(BATCH_ROWS * n_clusters, MIN_BATCH), n_rows)
    n_batches = max_rounds * n_rows // batch_size
    smoothing = min(2 * batch_size / (n_rows + 1), 1.0)
    centres_KD = values_ND[generator.choice(n_rows, n_clusters, replace=False)]
    total_K = np.zeros(n_clusters, np.int64)
    inertia = best = np.inf
    n_without_gain = 0
    for done in range(n_batches):
        progress(LEARNING, done, n_batches)
        batch_BD = values_ND[generator.integers(n_rows, size=batch_size)]
        cluster_B, score_B = assign(batch_BD, centres_KD)
        sums_KD, count_K = sum_clusters(batch_BD, cluster_B, n_clusters)
        total_K += count_K
        step_KD = sums_KD - count_K[:, None] * centres_KD
        centres_KD += (step_KD / np.maximum(total_K, 1)[:, None]).astype(np.float32)
        _move_rare_centres(centres_KD, total_K, batch_BD, generator)
        if done == 0:  # The inertia of the start says nothing.
            continue
        current = float(_squared_distances(batch_BD, score_B).mean())
        inertia = current if inertia == np.inf else inertia + smoothing * (current - inertia)
        n_without_gain = 0 if inertia < best else n_without_gain + 1
        best = min(best, inertia)
        if n_without_gain >= PATIENCE:
            break
    progress(LEARNING, n_batches, n_batches)
    return centres_KD


def assign(values_ND: Floats, centres_KD: Floats) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the nearest centre of each row, on a tie the first, and its score |c|²/2 - v·c.

    |v - c|² = |v|² - 2 v·c + |c|², and |v|² is the same for all centres.
    """
    import torch  # Slow to import, and prediction does not need it.

    values, centres = torch.from_numpy(values_ND), torch.from_numpy(centres_KD)
    half_squares_K = 0.5 * centres.square().sum(dim=1)
    cluster_N = np.empty(len(values_ND), np.int64)
    score_N = np.empty(len(values_ND), np.float32)
    chunk = max(CHUNK_DISTANCES // len(centres_KD), MIN_CHUNK)

    def assign_chunk(start: int) -> None:
        rows = slice(start, start + chunk)
        scores = torch.addmm(half_squares_K, values[rows], centres.T, alpha=-1).numpy()
        cluster_N[rows] = scores.argmin(axis=1)
        score_N[rows] = np.take_along_axis(scores, cluster_N[rows, None], axis=1)[:, 0]

    small = len(values_ND) * centres_KD.size < SMALL_WORK
    run_parts(assign_chunk, range(0, len(values_ND), chunk), small=small)
    return cluster_N, score_N


def sum_clusters(
    values_ND: Floats, cluster_N: NDArray[np.int64], n_clusters: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the sum of the rows of each cluster, and their number."""
    n_rows, n_columns = values_ND.shape
    members = sparse.csr_array(
        (np.ones(n_rows), cluster_N, np.arange(n_rows + 1)), shape=(n_rows, n_clusters)
    ).T
    sums_KD = np.empty((n_clusters, n_columns))

    def sum_columns(start: int) -> None:
        columns = slice(start, start + COLUMNS)
        sums_KD[:, columns] = members @ values_ND[:, columns]

    run_parts(sum_columns, range(0, n_columns, COLUMNS), small=values_ND.size < SMALL_WORK)
    return sums_KD, np.bincount(cluster_N, minlength=n_clusters)


def _find_means(
    values_ND: Floats, cluster_N: NDArray[np.int64], score_N: Floats, n_clusters: int
) -> Floats:
    """Return the mean of each cluster; an empty one takes the row farthest from its centre."""
    sums_KD, count_K = sum_clusters(values_ND, cluster_N, n_clusters)
    empty = np.flatnonzero(count_K == 0)
    if len(empty):
        farthest = iter(np.argsort(-_squared_distances(values_ND, score_N), kind="stable"))
        for cluster in empty:
            row = next(row for row in farthest if count_K[cluster_N[row]] > 1)
            sums_KD[cluster_N[row]] -= values_ND[row]
            count_K[cluster_N[row]] -= 1
            sums_KD[cluster], count_K[cluster] = values_ND[row], 1
    return (sums_KD / count_K[:, None]).astype(np.float32)


def _move_rare_centres(
    centres_KD: Floats,
    total_K: NDArray[np.int64],
    batch_BD: Floats,
    generator: np.random.Generator,
) -> None:
    """Move the centres of rare clusters, at most half a batch of them, to random rows."""
    n_rare = int((total_K < RARE * total_K.max()).sum())
    rare = np.argsort(total_K, kind="stable")[: min(n_rare, len(batch_BD) // 2)]
    if len(rare):
        rows = generator.choice(len(batch_BD), len(rare), replace=False)
        centres_KD[rare] = batch_BD[rows]
        total_K[rare] = np.delete(total_K, rare).min()


def _squared_distances(values_ND: Floats, score_N: Floats) -> NDArray[np.float32]:
    squares_N = np.einsum("nd,nd->n", values_ND, values_ND)
    distances: NDArray[np.float32] = np.maximum(squares_N + 2 * score_N, 0)
    return distances
