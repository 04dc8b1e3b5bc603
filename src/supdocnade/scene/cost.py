"""Estimates of the time and memory that fitting a scene model takes.

Reading and describing some of the photographs is timed, and so is a product of matrices, in which
the work of the other steps is expressed. Memory is that of the largest arrays.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs

from supdocnade.corpus.disk import Corpus
from supdocnade.errors import UnreadableImage
from supdocnade.folders.metadata import has_several_labels
from supdocnade.images.regions import Regions
from supdocnade.likelihood.cpu.threads import one_blas_thread
from supdocnade.run_options import RunOptions
from supdocnade.scene.corpus_fitting import (
    MAX_EXACT_SVM,
    MAX_HELD_OUT,
    MAX_SAMPLE,
    load_corpus_words,
    with_word_settings,
)
from supdocnade.scene.dataset import Photographs
from supdocnade.scene.fitting import EPOCH_SHARES, SVM_BYTES, exact_svm_limit, make_bag
from supdocnade.scene.prediction import FittedScene
from supdocnade.scene.settings import SceneSettings
from supdocnade.scene.svm import GRID, MAX_APPROXIMATE, N_LANDMARKS
from supdocnade.visual_words.describer import N_COMPONENTS, Describer, NetworkDescriber
from supdocnade.visual_words.learn import (
    MAX_PIXEL_BYTES,
    MIN_PER_IMAGE,
    NETWORK_SAMPLE_SIZE,
    SAMPLE_SIZE,
    SAMPLES_PER_WORD,
)

N_TIMED = 8
"""Number of photographs whose reading is timed."""

START_SECONDS, START_BYTES = 10, 6e8
"""Time to import packages and to compile the kernels, and the memory of the packages."""

KMEANS_ROUNDS = 30
DAMPED_SHARE = 0.45
"""Share of the words of a photograph that is left after damping (LabelMe)."""

TREE_WORK, SVM_WORK, SVM_CLASS_WORK = 12, 1000, 100
"""Multiplications that take as long as the work of the likelihood per word, topic and node of the
tree, forwards and backwards; as that of an SVM's kernel per pair of documents; and as that of its
training per pair and class. Measured on LabelMe with SIFT."""

LINEAR_CLASS_WORK = 1000
"""The same for an approximate SVM per document, landmark and class. Measured on TagMyNews."""

COUNT_BYTES, COUNT_COPIES = 12, 4
"""Memory of an entry of a count matrix, and number of such matrices at a time."""

RECORD_BYTES = 300
"""Memory of the name, label, tags and position of a photograph in a corpus."""


class Speed(NamedTuple):
    """Measured times, in seconds, and sizes of descriptions."""

    read: float
    """Time to read a photograph."""
    describe: float
    """Time to describe its patches."""
    multiply: float
    """Time of a multiplication and addition in a product of matrices."""
    n_patches: int
    n_columns: int
    """Size of a descriptor."""
    sift: "Speed | None" = None
    """That of SIFT words beside those of a network."""


def estimate_fit(
    photographs: Photographs,
    settings: SceneSettings,
    options: RunOptions = RunOptions(),
    previous: FittedScene | None = None,
) -> tuple[float, float] | None:
    """Return the seconds and the bytes that a fit takes; None if no photograph can be read.

    Parameters
    ----------
    settings : as `SceneSettings.check` returns them.
    previous : model to which the photographs are added.
    """
    if previous is not None:
        describer: Describer = previous.encoder.describer
    elif settings.features == "sift":
        describer = make_bag(settings, 0, options).check()[0]
    else:
        describer = NetworkDescriber.find(settings.features)
    speed = measure_speed(photographs.sources, describer, options.device)
    if speed is None:
        return None
    if settings.n_sift_words:
        sift = make_bag(settings, 0, options).check()[0]
        speed = speed._replace(sift=measure_speed(photographs.sources, sift, options.device))
    before = [] if previous is None else previous.training_set.photographs.labels
    n_workers = effective_n_jobs(options.n_jobs)
    return (
        estimate_seconds(photographs.labels, settings, speed, n_workers, before),
        estimate_bytes(photographs.labels, settings, speed, before),
    )


def estimate_corpus_fit(
    corpus: Corpus, settings: SceneSettings, options: RunOptions = RunOptions()
) -> tuple[float, float]:
    """Return the seconds and the bytes that a fit on a corpus takes.

    Parameters
    ----------
    settings : as they are given; those of visual words are replaced by those of the corpus.
    """
    words = load_corpus_words(corpus)
    settings = with_word_settings(settings, words).check()
    n_photographs, n_features = len(corpus), words.encoder_.n_image_features
    n_words = corpus.n_tokens / max(n_photographs, 1)
    n_stored = min(n_photographs, MAX_SAMPLE + MAX_HELD_OUT)
    labels, n_workers = corpus.labels, effective_n_jobs(options.n_jobs)
    kernel = _count_svm(labels[:n_stored], settings, MAX_EXACT_SVM)
    work = _training_work(labels, settings, n_words, n_workers, kernel)
    sample = n_stored * (n_words / 2 * COUNT_BYTES * COUNT_COPIES + n_features * 4 * 2)
    return (
        float(START_SECONDS + _time_multiplication() * work),
        float(START_BYTES + n_photographs * RECORD_BYTES + sample + SVM_BYTES * kernel[0]),
    )


def measure_speed(sources: Sequence[Any], describer: Describer, device: str) -> Speed | None:
    """Read and describe some photographs; return the mean times, None if none can be read."""
    chosen = np.unique(np.linspace(0, len(sources) - 1, N_TIMED).astype(int)).tolist()
    times, sizes = [], []
    for number in [chosen[0], *chosen]:  # The first is read twice: kernels have to be compiled.
        started = time.perf_counter()
        try:
            pixels = describer.read(sources[number])
            has_read = time.perf_counter()
            sizes.append(describer.describe(pixels, device).values_SD.shape)
        except UnreadableImage:
            continue
        times.append((has_read - started, time.perf_counter() - has_read))
    if not times:
        return None
    read, describe = np.mean(times[1:] or times, axis=0).tolist()
    n_patches, n_columns = np.mean(sizes, axis=0).astype(int).tolist()
    return Speed(read, describe, _time_multiplication(), n_patches, n_columns)


def _time_multiplication() -> float:
    """Return the seconds of a multiplication and addition in a product of matrices."""
    first, second = np.ones((2000, 128), np.float32), np.ones((128, 500), np.float32)
    times = []
    with one_blas_thread():
        for _ in range(5):
            started = time.perf_counter()
            np.matmul(first, second)
            times.append(time.perf_counter() - started)
    return min(times) / (first.size * second.shape[1])


def estimate_seconds(
    labels: Sequence[str | None],
    settings: SceneSettings,
    speed: Speed,
    n_workers: int,
    before: Sequence[str | None] = (),
) -> float:
    """Return the time of a fit on the CPU.

    Parameters
    ----------
    labels : labels of the photographs.
    before : labels of those of the model to which they are added.
    """
    assert settings.n_words is not None, "checked"
    n_sides = 2 if settings.mirror else 1
    n_columns = min(speed.n_columns, N_COMPONENTS)
    n_sampled, n_rows = (0, 0) if before else _sample_sizes(len(labels), settings, speed)
    reading = (len(labels) + n_sampled) * (speed.read + speed.describe) + len(labels) * speed.read
    n_described = KMEANS_ROUNDS * n_rows + n_sides * len(labels) * speed.n_patches
    n_words = _words_per_photograph(settings, speed)
    work = n_described * settings.n_words * n_columns / n_workers
    if speed.sift is not None:  # Photographs are encoded once for both kinds of words.
        n_sampled = 0 if before else min(len(labels), SAMPLE_SIZE // MIN_PER_IMAGE)
        reading += (len(labels) + n_sampled) * speed.sift.describe + n_sampled * speed.read
        n_rows = min(SAMPLE_SIZE, n_sampled * speed.sift.n_patches)
        n_described = KMEANS_ROUNDS * n_rows + n_sides * len(labels) * speed.sift.n_patches
        work += n_described * (settings.n_sift_words or 0) * speed.sift.n_columns / n_workers
    kernel = _count_svm([*labels, *before], settings)
    work += _training_work([*labels, *before], settings, n_words, n_workers, kernel)
    return float(START_SECONDS + reading / n_workers + speed.multiply * work)


def _training_work(
    labels: Sequence[str | None],
    settings: SceneSettings,
    n_words: float,
    n_workers: int,
    kernel: tuple[int, bool],
) -> float:
    """Return the multiplications that take as long as fitting topics and SVMs.

    Parameters
    ----------
    labels : labels of all photographs.
    n_words : words per photograph, before damping.
    kernel : of the SVM, as `_count_svm` returns it.
    """
    assert settings.n_words is not None, "checked"
    assert settings.n_topics is not None, "checked"
    n_trials = (settings.tune_trials if settings.tune else 1) if settings.held_out else 0
    n_fits = n_trials * (1 - settings.held_out) + 1
    n_damped = n_words * (DAMPED_SHARE if settings.damping else 1)
    n_leaves = (settings.n_words + (settings.n_sift_words or 0)) * Regions.of(
        settings.grid
    ).n_regions
    n_tree = n_fits * settings.max_epochs * len(labels) * n_damped * np.log2(n_leaves)
    n_svms = n_trials * len(EPOCH_SHARES) * (len(GRID) + 1) * (1 - settings.held_out) ** 2 + 1
    n_pairs, n_classes = n_svms * kernel[0], len({*labels} - {None})
    class_work = LINEAR_CLASS_WORK if kernel[1] else SVM_CLASS_WORK
    shared = TREE_WORK * n_tree * settings.n_topics + class_work * n_classes * n_pairs
    # One thread computes the kernels.
    return float(shared / n_workers + SVM_WORK * n_pairs)


def estimate_bytes(
    labels: Sequence[str | None],
    settings: SceneSettings,
    speed: Speed,
    before: Sequence[str | None] = (),
) -> float:
    """Return the memory of a fit.

    Parameters
    ----------
    labels, before : as for `estimate_seconds`.
    """
    n_documents = len(labels) + len(before)
    # About half of the words of a photograph are different ones.
    n_counts = n_documents * _words_per_photograph(settings, speed) / 2
    counts = n_counts * COUNT_BYTES * COUNT_COPIES
    n_rows = 0 if before else _sample_sizes(len(labels), settings, speed)[1]
    # Samples of SIFT descriptors are smaller than those of a network's features.
    sample = 2 * (n_rows * speed.n_columns * 4 + MAX_PIXEL_BYTES * bool(n_rows))
    svm = SVM_BYTES * _count_svm([*labels, *before], settings)[0]
    features = n_documents * speed.n_columns * 4 * 2 if settings.features != "sift" else 0
    return float(START_BYTES + features + max(sample, counts + svm))


def _sample_sizes(n_images: int, settings: SceneSettings, speed: Speed) -> tuple[int, int]:
    """Return the numbers of photographs and of patches from which words are learned."""
    least = SAMPLE_SIZE if settings.features == "sift" else NETWORK_SAMPLE_SIZE
    assert settings.n_words is not None, "checked"
    size = max(least, SAMPLES_PER_WORD * settings.n_words)
    n_sampled = min(n_images, size // MIN_PER_IMAGE)
    return n_sampled, min(size, n_sampled * speed.n_patches)


def _words_per_photograph(settings: SceneSettings, speed: Speed) -> int:
    assert settings.n_nearest is not None, "checked"
    n_per_patch = settings.n_nearest + bool(settings.n_color_words)
    n_sides = 2 if settings.mirror else 1
    n_sift = 0 if speed.sift is None else speed.sift.n_patches
    n_words = speed.n_patches * n_per_patch + n_sift
    return n_sides * n_words * len(Regions.of(settings.grid).grids)


def _count_svm(
    labels: Sequence[str | None], settings: SceneSettings, max_exact: int | None = None
) -> tuple[int, bool]:
    """Return the size of the kernel of an SVM, and whether it is approximate.

    Parameters
    ----------
    max_exact : labelled photographs of an exact SVM; None: as for photographs.
    """
    n_labelled = sum(label is not None for label in labels)
    one_class = len({*labels} - {None}) < 2
    if settings.classifier == "softmax" or one_class or has_several_labels(labels):
        return 0, False
    if n_labelled <= (exact_svm_limit(settings) if max_exact is None else max_exact):
        return n_labelled**2, False
    return min(n_labelled, MAX_APPROXIMATE) * N_LANDMARKS, True
