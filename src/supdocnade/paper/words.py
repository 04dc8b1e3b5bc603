"""Photographs as words, in files small enough to travel: the first stage of the experiments.

The words of an image are counted in the cells of one fine grid; coarser grids and pyramids are sums
of its cells. Since the order of words does not matter, they are kept sorted, as differences, and
packed: about half a byte a word.
"""

import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.estimators.bag_of_visual_words import BagOfVisualWords
from supdocnade.images.decode import DecodeConfig, decode
from supdocnade.images.regions import Grid, Regions
from supdocnade.progress import ProgressCallback, no_progress
from supdocnade.storage import load_arrays, save_arrays
from supdocnade.visual_words.encoder import count_words
from supdocnade.visual_words.kmeans import LEARNING
from supdocnade.visual_words.learn import SAMPLING
from supdocnade.visual_words.parallel import SkippedImage

Grids = tuple[Grid, ...]

FINEST: Grid = (4, 4)
ONE: Grids = ((1, 1),)
TWO: Grids = ((2, 2),)
PYRAMID: Grids = ((1, 1), (2, 2), (4, 4))
GRID_NAMES: dict[str, Grids] = {
    "1×1": ONE,
    "2×2": TWO,
    "1×1 and 2×2": ONE + TWO,
    "pyramid": PYRAMID,
}

KIND, FORMAT = "reproduction words", 2


@dataclass(frozen=True, kw_only=True)
class WordRecipe:
    """How photographs become words."""

    n_words: int = 240
    step: int = 8
    patch_size: int | tuple[int, ...] = 16
    contrast_percentile: float = 0.0
    root_sift: bool = False
    color: bool = False
    mirrored: bool = False
    """Whether an image has the words of its mirror image, too: left and right mean the same."""

    def settings(self) -> dict[str, Any]:
        """Return the settings as JSON has them."""
        settings = asdict(self)
        if isinstance(self.patch_size, tuple):
            settings["patch_size"] = list(self.patch_size)
        return settings

    def bag(self, *, max_side: int | None, seed: int, **options: Any) -> BagOfVisualWords:
        """Return the transformer that makes them."""
        settings = asdict(self)
        del settings["mirrored"]
        return BagOfVisualWords(
            grid=FINEST, max_side=max_side, random_state=seed, **settings, **options
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Words:
    """The words of many images, in the cells of the finest grid."""

    ids_N: NDArray[np.uint16]
    """Cell · n_words + word, sorted within an image, images one after the other."""
    length_SB: NDArray[np.int64]
    """(sides, images): how many words each has, and its mirror image if that is a side."""
    n_words: int

    def counts(self, grids: Grids) -> sparse.csr_array:
        """Return how often every word occurs in every cell of some grids, (images, cells · words).

        Columns are as those of a `BagOfVisualWords` with these grids. A mirror image's words count
        as those of its image.
        """
        first, *others = self.counts_of_sides(grids)
        return sum(others, first)

    def counts_of_sides(self, grids: Grids) -> list[sparse.csr_array]:
        """Return the same for images and for mirror images apart."""
        cell_N, word_N = np.divmod(self.ids_N.astype(np.int64), self.n_words)
        row_N, column_N = np.divmod(cell_N, FINEST[1])
        regions, parts, first = Regions(grids), [], 0
        for rows, columns in regions.grids:
            if FINEST[0] % rows or FINEST[1] % columns:
                raise InvalidArgument(
                    f"grids must divide {FINEST[0]} × {FINEST[1]} cells, got {(rows, columns)}."
                )
            coarse_N = (row_N * rows // FINEST[0]) * columns + column_N * columns // FINEST[1]
            parts.append((first + coarse_N) * self.n_words + word_N)
            first += rows * columns
        starts = np.cumsum(self.length_SB)[:-1]
        per_grid = [np.split(part.astype(np.int32), starts) for part in parts]
        documents = [np.concatenate(each) for each in zip(*per_grid, strict=True)]
        n_images = self.length_SB.shape[1]
        return [
            count_words(documents[begin : begin + n_images], self.n_words * first)
            for begin in range(0, len(documents), n_images)
        ]


def encode_words(
    images: Sequence[Any],
    learn_from: NDArray[np.integer],
    recipe: WordRecipe,
    *,
    max_side: int | None,
    seed: int,
    n_examples: int = 0,
    n_jobs: int | None = None,
    progress: ProgressCallback = no_progress,
    stage: str = "words",
) -> tuple[Words, BagOfVisualWords]:
    """Learn words from some of the images and encode all of them.

    Parameters
    ----------
    learn_from : places of the images that words are learned from.
    stage : reported to `progress` with the number of images read.
    """
    bag = recipe.bag(max_side=max_side, seed=seed, n_examples=n_examples, n_jobs=n_jobs)
    if recipe.n_words * FINEST[0] * FINEST[1] > 2**16:
        raise InvalidArgument(f"n_words must be at most 4096, got {recipe.n_words}.")
    sides = [images]
    if recipe.mirrored:
        decoding = DecodeConfig(max_side=max_side, color=recipe.color)
        sides.append([np.fliplr(decode(image, decoding)) for image in images])
    learning = [side[i] for side in sides for i in learn_from]
    total = len(learning) + len(sides) * len(images)

    def report(part: str, done: int, of: int | None) -> None:
        if part == SAMPLING:
            progress(stage, done, total)
        elif part == LEARNING:
            progress(f"visual {stage}", done, of)

    bag.fit(learning, progress=report)
    documents = []
    for found in bag.iter_words([image for side in sides for image in side]):
        assert not isinstance(found, SkippedImage), "an image that cannot be read raises"
        documents.append(np.sort(found).astype(np.uint16))
        progress(stage, len(learning) + len(documents), total)
    words = Words(
        ids_N=np.concatenate(documents),
        length_SB=np.array([len(each) for each in documents]).reshape(len(sides), -1),
        n_words=recipe.n_words,
    )
    return words, bag


def save_words(path: Path, words: Words, description: dict[str, Any]) -> None:
    """Write words to one small file.

    Parameters
    ----------
    description : what they were made from; `load_words` compares it.
    """
    # Differences of sorted numbers are small: their upper bytes are nearly all 0.
    delta_N = np.diff(words.ids_N, prepend=np.uint16(0)).astype("<u2")
    planes = np.ascontiguousarray(delta_N.view(np.uint8).reshape(-1, 2).T)
    packed = np.frombuffer(zlib.compress(planes.tobytes(), 9), np.uint8)
    save_arrays(
        path,
        {"packed": packed, "length": words.length_SB.astype(np.int32)},
        {"kind": KIND, "format": FORMAT, "n_words": words.n_words, "made_from": description},
    )


def load_words(path: Path, description: dict[str, Any] | None = None) -> Words:
    """Return what `save_words` wrote.

    Parameters
    ----------
    description : what they must have been made from; None: whatever it was.
    """
    arrays, found = load_arrays(path)
    if found.get("kind") != KIND or found.get("format") != FORMAT:
        raise StorageError(f"{path} must hold words of photographs, got another file.")
    if description is not None and found["made_from"] != description:
        raise StorageError(
            f"{path} must be made from {description}, got {found['made_from']}; remove it."
        )
    planes = np.frombuffer(zlib.decompress(arrays["packed"].tobytes()), np.uint8)
    delta_N = np.ascontiguousarray(planes.reshape(2, -1).T).view("<u2").reshape(-1)
    return Words(
        ids_N=np.cumsum(delta_N, dtype=np.uint16),
        length_SB=arrays["length"].astype(np.int64),
        n_words=int(found["n_words"]),
    )
