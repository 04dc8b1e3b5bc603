"""Which photographs show the same picture, though their files differ.

Scene15's outdoor classes are grey copies of LabelMe's photographs, and some of Scene15's own were
saved twice. Two photographs are one picture if their luminances, shrunk to thumbnails, correlate
almost perfectly: on these data sets the best other thumbnail of a picture correlates above 0.995 or
below 0.99, and nearly always below 0.95.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from supdocnade.images.decode import DecodeConfig, decode
from supdocnade.run_options import RunOptions
from supdocnade.visual_words.parallel import over_images

SIDE = 32
"""Pixels along the longer side of a thumbnail."""

LEAST_CORRELATION = 0.992

_BLOCK = 512


def same_pictures(
    images: Sequence[Any],
    keys: Sequence[str],
    options: RunOptions = RunOptions(),
) -> NDArray[np.int64]:
    """Return a number for every image, the same for images of one picture, (images,).

    Numbers count from 0 in order of first appearance.

    Parameters
    ----------
    images : paths, bytes of files or arrays, grey or in colours.
    keys : digests of their contents: images of one key are one picture, whatever is in them.
    """
    thumbnails = [
        np.asarray(found)
        for found in over_images(_thumbnail, images, options, stage="looking for copies")
    ]
    _, key_B = np.unique(np.array(keys), return_inverse=True)
    firsts = np.full(key_B.max() + 1, len(images))
    np.minimum.at(firsts, key_B, np.arange(len(images)))
    pairs = [(np.arange(len(images)), firsts[key_B])]
    for shape in sorted({thumbnail.shape for thumbnail in thumbnails}):
        members = np.flatnonzero([thumbnail.shape == shape for thumbnail in thumbnails])
        values = np.stack([thumbnails[i].reshape(-1) for i in members])
        first, second = _alike(_standardised(values))
        pairs.append((members[first], members[second]))
    rows, columns = (np.concatenate(each) for each in zip(*pairs, strict=True))
    links = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(images),) * 2)
    found = connected_components(links, directed=False)[1]
    _, first_B, number_B = np.unique(found, return_index=True, return_inverse=True)
    order: NDArray[np.int64] = np.argsort(np.argsort(first_B))[number_B]
    return order


def _thumbnail(source: Any, name: str, number: int) -> NDArray[np.uint8]:
    return decode(source, DecodeConfig(max_side=SIDE), name=name)


def _standardised(values_BP: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return thumbnails of mean 0 and length 1; those of one level are like no other."""
    centred = values_BP - values_BP.mean(axis=1, keepdims=True, dtype=np.float64)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
    return np.asarray(unit, np.float32)


def _alike(values_BP: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs of thumbnails that are one picture."""
    rows, columns = [], []
    for start in range(0, len(values_BP), _BLOCK):
        correlation = values_BP[start : start + _BLOCK] @ values_BP.T
        first, second = np.nonzero(correlation >= LEAST_CORRELATION)
        rows.append(first + start)
        columns.append(second)
    return np.concatenate(rows), np.concatenate(columns)
