"""Visual words of photographs, stored in small files: the first stage of the experiments.

The words of an image are counted in the cells of one fine grid; coarser grids and pyramids are sums
of its cells. Since their order does not matter, words are stored as compressed differences of their
sorted numbers: about half a byte per word.
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
from supdocnade.images.reading import SkippedImage
from supdocnade.runs import RunOptions
from supdocnade.schema import load_arrays, save_arrays
from supdocnade.visual_words.encoder import Grid, Regions, count_words, encode_images
from supdocnade.visual_words.learn import LEARNING, SAMPLING

Grids = tuple[Grid, ...]

FINEST: Grid = (4, 4)
GRIDS: dict[str, Grids] = {
    "1×1": ((1, 1),),
    "2×2": ((2, 2),),
    "1×1 and 2×2": ((1, 1), (2, 2)),
    "pyramid": ((1, 1), (2, 2), (4, 4)),
}

KIND, FORMAT = "reproduction words", 2


@dataclass(frozen=True, kw_only=True)
class WordRecipe:
    """Settings that turn photographs into words."""

    n_words: int = 240
    step: int = 8
    patch_size: int | tuple[int, ...] = 16
    contrast_percentile: float = 0.0
    mirrored: bool = False
    """Add the words of its mirror image to each image."""

    def settings(self) -> dict[str, Any]:
        """Return the settings as values of JSON."""
        settings = asdict(self)
        if isinstance(self.patch_size, tuple):
            settings["patch_size"] = list(self.patch_size)
        return settings


@dataclass(frozen=True, eq=False, kw_only=True)
class Words:
    """The words of images, in the cells of the finest grid."""

    ids_N: NDArray[np.uint16]
    """Cell · n_words + word, sorted within an image; images are concatenated."""
    length_SB: NDArray[np.int64]
    """(sides, images) number of words; the second side is that of the mirror images, if any."""
    n_words: int

    def counts(self, grids: Grids) -> sparse.csr_array:
        """Return the counts of every word in every cell of some grids, (images, cells · words).

        Columns are those of a `BagOfVisualWords` with these grids. The words of a mirror image are
        added to those of its image.
        """
        first, *others = self.counts_of_sides(grids)
        return sum(others, first)

    def counts_of_sides(self, grids: Grids) -> list[sparse.csr_array]:
        """Return the counts of the images, and of their mirror images if there are any."""
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
    options: RunOptions = RunOptions(),
    stage: str = "words",
) -> tuple[Words, BagOfVisualWords]:
    """Learn words from some of the images and encode all of them.

    Parameters
    ----------
    learn_from : indices of the images that words are learned from.
    stage : reported to `options.progress` with the number of images read.
    """
    if recipe.n_words * FINEST[0] * FINEST[1] > 2**16:
        raise InvalidArgument(f"n_words must be at most 4096, got {recipe.n_words}.")
    settings = asdict(recipe)
    del settings["mirrored"]
    bag = BagOfVisualWords(
        grid=FINEST,
        max_side=max_side,
        random_state=seed,
        n_jobs=options.n_jobs,
        **settings,
    )
    sides = [images]
    if recipe.mirrored:
        decoding = DecodeConfig(max_side=max_side)
        sides.append([np.fliplr(decode(image, decoding)) for image in images])
    learning = [side[i] for side in sides for i in learn_from]
    total = len(learning) + len(sides) * len(images)

    def report(part: str, done: int, of: int | None) -> None:
        if part == SAMPLING:
            options.progress(stage, done, total)
        elif part == LEARNING:
            options.progress(f"visual {stage}", done, of)

    bag.fit(learning, progress=report)
    documents = []
    both = [image for side in sides for image in side]
    for found in encode_images(bag.encoder_, both, RunOptions(n_jobs=options.n_jobs)):
        assert not isinstance(found, SkippedImage), "an image that cannot be read raises"
        documents.append(np.sort(found.ids).astype(np.uint16))
        options.progress(stage, len(learning) + len(documents), total)
    words = Words(
        ids_N=np.concatenate(documents),
        length_SB=np.array([len(each) for each in documents]).reshape(len(sides), -1),
        n_words=recipe.n_words,
    )
    return words, bag


def save_words(path: Path, words: Words, description: dict[str, Any]) -> None:
    """Write words to one file, with a description that `load_words` compares."""
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
    """Return what `save_words` wrote; None accepts any description."""
    arrays, stored = load_arrays(path)
    if stored.get("kind") != KIND or stored.get("format") != FORMAT:
        raise StorageError(f"{path} must hold words of photographs, got another file.")
    if description is not None and stored["made_from"] != description:
        raise StorageError(
            f"{path} must be made from {description}, got {stored['made_from']}; remove it."
        )
    planes = np.frombuffer(zlib.decompress(arrays["packed"].tobytes()), np.uint8)
    delta_N = np.ascontiguousarray(planes.reshape(2, -1).T).view("<u2").reshape(-1)
    return Words(
        ids_N=np.cumsum(delta_N, dtype=np.uint16),
        length_SB=arrays["length"].astype(np.int64),
        n_words=int(stored["n_words"]),
    )
