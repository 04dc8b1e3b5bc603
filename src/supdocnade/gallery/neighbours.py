"""Search for the nearest topic features of a segment.

The search is exact, by matrix products in blocks. In a large index inverted files of
FAISS, if that is installed, name candidates; it comes with the extra `search`. In both cases the
distances of the candidates are computed anew by differences, so that a photograph is at distance 0
from itself.
"""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import UnwritableFile
from supdocnade.gallery.segment import Int64s, Segment, digest_file
from supdocnade.likelihood.cpu.threads import one_blas_thread

MIN_APPROXIMATE, MIN_INVERTED = 200_000, 20_000
"""Photographs of an index from which on the search is approximate, in segments of this size."""

CELLS_PER_ROOT, TRAINING_ROWS, N_PROBES = 2, 40, 48
"""Cells per square root of the photographs, training photographs per cell, cells searched."""

_BLOCK = 16_384


def nearest_rows(
    segment: Segment,
    topics_H: NDArray[np.float32],
    top: int,
    is_deleted_N: NDArray[np.bool_] | None,
    approximate: Any = None,
) -> tuple[Int64s, NDArray[np.float64]]:
    """Return the nearest rows of a segment in any order, with their distances.

    Parameters
    ----------
    top : number of rows; there may be fewer in the segment.
    is_deleted_N : rows to leave out.
    approximate : index of `open_approximate`; None: the search is exact.
    """
    n = 2 * top + 16  # Rounding of the products may change the order of the nearest.
    if approximate is None:
        with one_blas_thread():  # There is a thread per question.
            rows = _nearest_by_products(segment, topics_H, n, is_deleted_N)
    else:
        rows = _nearest_candidates(approximate, topics_H, n, is_deleted_N)
    differences = segment.arrays["topics"][rows].astype(np.float64) - topics_H
    return rows, np.linalg.norm(differences, axis=1)


def _nearest_by_products(
    segment: Segment, topics_H: NDArray[np.float32], n: int, is_deleted_N: NDArray[np.bool_] | None
) -> Int64s:
    """Return n rows with the least |x|² − 2 x·q, which orders them as the distance does."""
    topics_NH, norms_N = segment.arrays["topics"], segment.arrays["norms"]
    best_rows, best_scores = np.empty(0, np.int64), np.empty(0, np.float32)
    for start in range(0, len(segment), _BLOCK):
        block = slice(start, start + _BLOCK)
        scores = norms_N[block] - 2 * (topics_NH[block] @ topics_H)
        if is_deleted_N is not None:
            scores[is_deleted_N[block]] = np.inf
        rows = np.append(best_rows, np.arange(start, start + len(scores)))
        scores = np.append(best_scores, scores)
        if len(rows) > n:
            kept = np.argpartition(scores, n)[:n]
            rows, scores = rows[kept], scores[kept]
        best_rows, best_scores = rows, scores
    return best_rows[np.isfinite(best_scores)]


def _nearest_candidates(
    approximate: Any, topics_H: NDArray[np.float32], n: int, is_deleted_N: NDArray[np.bool_] | None
) -> Int64s:
    _, found = approximate.search(np.ascontiguousarray(topics_H[None]), 2 * n)
    rows: Int64s = found[0][(found[0] >= 0) & (found[0] < approximate.ntotal)]
    return rows if is_deleted_N is None else rows[~is_deleted_N[rows]]


def write_approximate(segment: Segment) -> str | None:
    """Write the inverted file of a segment; return its digest.

    There is none, and the result is None, for a small segment and without FAISS.
    """
    if len(segment) < MIN_INVERTED or find_spec("faiss") is None:
        return None
    import faiss

    faiss.omp_set_num_threads(1)  # Several threads may change the last bits.
    topics_NH, path = segment.arrays["topics"], approximate_path(segment)
    n_cells = round(CELLS_PER_ROOT * len(segment) ** 0.5)
    sample = np.linspace(0, len(segment) - 1, n_cells * TRAINING_ROWS).astype(np.int64)
    index = faiss.index_factory(topics_NH.shape[1], f"IVF{n_cells},SQ8")
    index.train(np.ascontiguousarray(topics_NH[np.unique(sample)]))
    for start in range(0, len(segment), _BLOCK):
        index.add(np.ascontiguousarray(topics_NH[start : start + _BLOCK]))
    try:
        faiss.write_index(index, os.fspath(path))
    except RuntimeError as error:
        raise UnwritableFile(f"{path} cannot be written: {error}.") from error
    return digest_file(path)


def open_approximate(segment: Segment) -> Any:
    """Return the inverted file of a segment; None without it, without FAISS or if it is damaged.

    The digest is compared before FAISS, which trusts its files, reads it.
    """
    path, digest = approximate_path(segment), segment.entry.approximate
    if digest is None or find_spec("faiss") is None or digest_file(path) != digest:
        return None
    import faiss

    faiss.omp_set_num_threads(1)
    try:
        index: Any = faiss.read_index(os.fspath(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    except RuntimeError:
        return None
    if (index.ntotal, index.d) != segment.arrays["topics"].shape:
        return None
    index.nprobe = N_PROBES
    return index


def approximate_path(segment: Segment) -> Path:
    """Return the path of the inverted file of a segment."""
    return segment.path.with_suffix(".faiss")
