"""What users append to a corpus, checked and in the form in which it is stored."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.corpus.counts import canonical_counts, repeats_of
from supdocnade.corpus.shard_files import Records, ShardContent, check_records
from supdocnade.errors import InvalidArgument


def shard_content(documents: Any, n_words: int, records: Mapping[str, Any]) -> ShardContent:
    """Return what a shard is to hold.

    Parameters
    ----------
    documents : a matrix of counts, or a list of arrays of word ids.
    n_words : width of the vocabulary.
    records : names, labels and tags; None where none are known.
    """
    if isinstance(documents, list | tuple):
        ids_N, offsets_B1 = _from_ids(documents, n_words)
        counts_N = None
    else:
        ids_N, offsets_B1, counts_N = _from_matrix(documents, n_words)
    n_documents = len(offsets_B1) - 1
    if n_documents == 0:
        raise InvalidArgument("documents must be at least one, got none.")
    lists: dict[str, Any] = {
        name: [None] * n_documents if given is None else _plain(name, given)
        for name, given in records.items()
    }
    kept = Records(**lists)
    try:
        check_records(kept, n_documents)
    except ValueError as error:
        raise InvalidArgument(f"{error}.") from error
    return ShardContent(ids_N, offsets_B1, counts_N, kept)


def _plain(name: str, given: Any) -> list[Any]:
    """Return a list of what JSON knows, of any sequence that can be one."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidArgument(f"{name} must be a list, got {given!r}.")
    values = [str(value) if isinstance(value, str) else value for value in given]
    if name != "tags":
        return values
    # Whatever else stands there is refused with its place.
    kinds = (tuple, np.ndarray)
    return [list(value) if isinstance(value, kinds) else value for value in values]


def _from_matrix(
    given: Any, n_words: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float64] | None]:
    matrix = canonical_counts("documents", given)
    if matrix.shape[1] != n_words:
        raise InvalidArgument(f"documents must have {n_words} columns, got {matrix.shape[1]}.")
    repeats, share = repeats_of("documents", matrix.data)
    ends = np.concatenate([[0], np.cumsum(repeats)])
    ids_N = np.repeat(matrix.indices.astype(np.int32), repeats)
    counts_N = None if share is None else np.repeat(matrix.data, repeats)
    return ids_N, ends[matrix.indptr], counts_N


def _from_ids(
    documents: Sequence[Any], n_words: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    parts = [np.empty(0, np.int32)]
    for number, ids in enumerate(documents):
        if not isinstance(ids, np.ndarray) or ids.ndim != 1:
            what = f"{ids.ndim} dimensions" if isinstance(ids, np.ndarray) else type(ids).__name__
            raise InvalidArgument(
                f"documents in a list must be arrays of word ids, got {what} for number {number}."
            )
        if ids.size and ids.dtype.kind not in "iu":
            raise InvalidArgument(
                f"documents in a list must be integers, got {ids.dtype} for number {number}."
            )
        if ids.size and not (ids.min() >= 0 and ids.max() < n_words):
            raise InvalidArgument(
                f"documents must have word ids in 0 .. {n_words - 1}, "
                f"got {ids.min()} .. {ids.max()} for number {number}."
            )
        parts.append(np.sort(ids).astype(np.int32))
    return np.concatenate(parts), np.cumsum([0, *map(len, parts[1:])])
