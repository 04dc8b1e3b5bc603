"""Visual words of images: the patches of an image, their words, and the region of each.

Many images are encoded in parallel, with a cache on disk that is keyed by their contents.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import check_count, check_shape
from supdocnade.errors import InvalidArgument, StorageError, UnwritableFile
from supdocnade.images.reading import READING, SkippedImage, map_images, read_with_key
from supdocnade.runs import RunOptions
from supdocnade.schema import array, fingerprint, load, save, stored
from supdocnade.threads import one_blas_thread
from supdocnade.visual_words.describer import (
    Describer,
    FunctionDescriber,
    NetworkDescriber,
    SIFTDescriber,
)

SMALL_SIDE = 64
"""Longest side in pixels below which a file gets a warning: little of a photograph can be seen."""

KIND = "ImageWords"
"""Of the files of a cache."""

BLOCK = 2**22
"""Distances that exist at a time: 16 MiB."""

Grid = tuple[int, int]
"""Rows and columns of cells."""


@dataclass(frozen=True, eq=False)
class Codebook:
    """The visual words: a descriptor of any kind belongs to the word whose centre is nearest."""

    centres_KD: NDArray[np.float32] = array("KD", np.float32)
    """(words, descriptor size)."""

    def __post_init__(self) -> None:
        # A contiguous copy that nobody else can change.
        object.__setattr__(self, "centres_KD", np.array(self.centres_KD, order="C"))

    @property
    def n_words(self) -> int:
        """K, the number of words."""
        return len(self.centres_KD)

    @cached_property
    def half_squares_K(self) -> NDArray[np.float32]:
        """|c|² / 2 of each word."""
        half: NDArray[np.float32] = 0.5 * np.square(self.centres_KD).sum(axis=1)
        return half

    def assign(self, values_SD: NDArray[np.float32], n_nearest: int = 1) -> NDArray[np.int32]:
        """Return the nearest words of each descriptor, the nearest first, (S, n_nearest).

        Distances are rounded, and differently for a descriptor alone: one half-way between two
        words may be assigned to either.
        """
        check_shape("descriptors", values_SD.shape[1:], self.centres_KD.shape[1:])
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


@dataclass(frozen=True)
class Regions:
    """Cells of one or several grids over the image, numbered consecutively.

    Parameters
    ----------
    grids : rows and columns of each grid. The paper has ((2, 2),); a pyramid has several, such as
        ((1, 1), (2, 2), (4, 4)), and each patch lies in one cell of each.
    """

    grids: tuple[Grid, ...]

    def __post_init__(self) -> None:
        if not self.grids:
            raise InvalidArgument("grid must have at least one grid, got none.")
        for grid in self.grids:
            if len(grid) != 2:
                raise InvalidArgument(f"grid must be rows and columns, got {grid!r}.")
            for side in grid:
                check_count("grid", side, least=1)

    @classmethod
    def of(cls, given: Grid | Sequence[Grid]) -> "Regions":
        """Return the regions for one grid (rows, columns), or for a list of grids.

        >>> Regions.of((2, 2)).n_regions, Regions.of([(1, 1), (2, 2), (4, 4)]).n_regions
        (4, 21)
        """
        if not isinstance(given, Iterable):
            raise InvalidArgument(f"grid must be rows and columns, got {given!r}.")
        parts: list[Any] = list(given)
        several = all(isinstance(part, Iterable) for part in parts)
        grids: list[Any] = [tuple(part) for part in parts] if several else [tuple(parts)]
        return cls(tuple(grids))

    @property
    def n_regions(self) -> int:
        """R, the number of cells of all grids."""
        return sum(rows * columns for rows, columns in self.grids)

    def cells(
        self,
        centres_S2: NDArray[np.floating],
        size: tuple[int, int],
        *,
        mirror: bool = False,
    ) -> NDArray[np.int64]:
        """Return the cell of each patch in each grid, (patches, grids).

        The cell of a patch with centre (y, x) is row floor(rows · y / height) and column
        floor(columns · x / width); cells are numbered row by row, grid after grid.

        Parameters
        ----------
        centres_S2 : (patches, 2) y and x of the centres, in pixels, within the image.
        size : height and width of the image.
        mirror : whether the patches of the mirror image follow.

        >>> Regions.of((2, 2)).cells(np.array([[1.0, 1.0], [1.0, 9.0], [9.0, 9.0]]), (10, 10))
        array([[0],
               [1],
               [3]])
        """
        if mirror:
            mirrored_S2 = np.stack([centres_S2[:, 0], size[1] - 1 - centres_S2[:, 1]], axis=1)
            return self.cells(np.concatenate([centres_S2, mirrored_S2]), size)
        places, first = [], 0
        for rows, columns in self.grids:
            cells = np.floor(centres_S2 * (rows, columns) / size).astype(np.int64)
            if cells.size and not ((cells >= 0) & (cells < (rows, columns))).all():
                raise InvalidArgument(f"centres must lie within an image of {size}.")
            places.append(first + cells[:, 0] * columns + cells[:, 1])
            first += rows * columns
        return np.stack(places, axis=1)

    def words(
        self, words_SM: NDArray[np.integer], cells_SG: NDArray[np.int64], n_words: int
    ) -> NDArray[np.int64]:
        """Return the column of each pair of word and region, in 0 .. n_words · R - 1.

        Parameters
        ----------
        words_SM : (patches, words per patch).
        cells_SG : (patches, grids).

        >>> regions = Regions.of((2, 2))
        >>> regions.words(np.array([[7], [7]]), np.array([[0], [3]]), 240).tolist()
        [7, 727]
        """
        return (cells_SG[:, None, :] * n_words + words_SM[:, :, None]).reshape(-1)


@dataclass(frozen=True, eq=False)
class ImageWords:
    """The words of an image, its features as a whole, and its key."""

    ids: NDArray[np.int32] = array("N", np.int32, least=0)
    """Columns of the count matrix."""
    features_F: NDArray[np.float32] | None = array(
        "F", np.float32, stored_as=np.float16, default=None
    )
    """(features,) of the whole image; None unless a network describes images."""
    key: str | None = None
    """Digest of its contents."""


class EncodedImage(NamedTuple):
    """The words of one image, patch by patch."""

    ids: NDArray[np.int32]
    """(patches · words per patch · grids,) columns of the count matrix, one per visual word and
    region."""
    words_SM: NDArray[np.int32]
    """(patches, words per patch) visual words. The patches of the mirror image follow those of the
    image if the encoder has `mirror`."""
    centres_S2: NDArray[np.float32]
    """(patches, 2): y and x in pixels of the resized image, for mirrored patches, too."""
    patch_size_S: NDArray[np.int32]
    """(patches,) pixels along a side."""
    size: tuple[int, int]
    """Height and width of the resized image."""
    features_F: NDArray[np.float32] | None = None
    """(features,) of the image, divided by their root mean square; None unless a network describes
    images."""

    @property
    def patch_of_id(self) -> NDArray[np.int64]:
        """Number of the patch of each entry of `ids`."""
        n_patches = len(self.words_SM)
        return np.repeat(np.arange(n_patches), len(self.ids) // max(n_patches, 1))

    @property
    def words(self) -> ImageWords:
        """The words and features alone."""
        return ImageWords(self.ids, self.features_F)


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageEncoder:
    """Turns an image into visual words."""

    describer: Describer
    codebook: Codebook
    regions: Regions
    n_nearest: int = stored(1, least=1)
    """Number of nearest visual words assigned to each patch."""
    mirror: bool = False
    """True if an image also has the words of the same patches mirrored, in the same columns; only
    with SIFT."""

    @property
    def n_words(self) -> int:
        """Number of visual words."""
        return self.codebook.n_words

    @property
    def n_features(self) -> int:
        """Number of columns: visual words times regions."""
        return self.n_words * self.regions.n_regions

    @property
    def n_image_features(self) -> int:
        """Number of features of a whole image; 0 unless a network describes images."""
        return sum(self.map_width)

    @property
    def map_width(self) -> tuple[int, ...]:
        """Number of features in every map of a network; none unless a network describes images."""
        if not isinstance(self.describer, NetworkDescriber) or self.describer.projection is None:
            return ()
        return self.describer.projection.map_width

    @cached_property
    def mirrored_codebook(self) -> Codebook:
        """The mirrored words: a patch is as near to them as its mirror image is to the words."""
        assert isinstance(self.describer, SIFTDescriber)
        return Codebook(self.describer.mirror(self.codebook.centres_KD))

    def encode(self, source: Any, name: str = "", device: str = "cpu") -> EncodedImage:
        """Return the words of an image; they do not depend on the number of threads.

        Parameters
        ----------
        source : an image in any form that `decode` accepts.
        name : name of the image in errors.
        device : on which a network runs.
        """
        pixels = self.describer.read(source, name)
        size = (pixels.shape[0], pixels.shape[1])
        found = self.describer.describe(pixels, device)
        words_SM = self.codebook.assign(found.values_SD, self.n_nearest)
        cells_SG = self.regions.cells(found.centres_S2, size, mirror=self.mirror)
        centres_S2, patch_size_S = found.centres_S2, found.patch_size_S
        if self.mirror:
            mirrored_SM = self.mirrored_codebook.assign(found.values_SD, self.n_nearest)
            words_SM = np.concatenate([words_SM, mirrored_SM])
            centres_S2, patch_size_S = np.tile(centres_S2, (2, 1)), np.tile(patch_size_S, 2)
        return EncodedImage(
            self.regions.words(words_SM, cells_SG, self.n_words).astype(np.int32),
            words_SM,
            centres_S2,
            patch_size_S,
            size,
            found.image_F,
        )

    def fingerprint(self) -> str:
        """Return a digest of everything on which the words of an image depend."""
        describer = self.describer
        if isinstance(describer, FunctionDescriber):  # A function has no digest.
            name = repr(describer.function)
            describer = NetworkDescriber(name=name, fingerprint="", decoding=describer.decoding)
        return fingerprint(replace(self, describer=describer))


def count_words(documents: Sequence[NDArray[np.int32]], n_features: int) -> sparse.csr_array:
    """Return the count of each word in each document, (documents, words)."""
    parts = [np.unique(words, return_counts=True) for words in documents]
    ends = np.cumsum([0, *(len(words) for words, _ in parts)])
    words = np.concatenate([np.empty(0, np.int32), *(words for words, _ in parts)])
    counts = np.concatenate([np.empty(0, np.int64), *(counts for _, counts in parts)])
    return sparse.csr_array((counts, words, ends), shape=(len(documents), n_features))


@dataclass(frozen=True, eq=False, kw_only=True)
class EncodedImages:
    """Counts of the words of many images, and the features of the images."""

    counts: sparse.csr_array = array("BW", np.int64, least=1)
    """(images, words); rows of images that were skipped are empty."""
    skipped: tuple[SkippedImage, ...]
    keys: tuple[str | None, ...] = stored(axis="B")
    """Digests of the contents of the images; None for those that were skipped."""
    global_features: NDArray[np.float32] | None = array(
        "BF", np.float32, stored_as=np.float16, default=None
    )
    """(images, features) of whole images, each row divided by its root mean square, if a network
    describes them; rows of images that were skipped are zero."""

    def __post_init__(self) -> None:
        numbers = [each.number for each in self.skipped]
        if not {*numbers} <= {*range(len(self.keys))}:
            raise InvalidArgument(f"skipped must be of {len(self.keys)} images, got {numbers}")

    @property
    def read(self) -> NDArray[np.bool_]:
        """(images,) False for images that were skipped."""
        read = np.ones(len(self.keys), np.bool_)
        read[[each.number for each in self.skipped]] = False
        return read


class WordCache:
    """A folder with one small file per image and encoder.

    A file that is damaged, by a full disk for example, counts as missing.

    Parameters
    ----------
    folder : created if it is missing.
    encoder : its fingerprint is the name of the folder of its files.
    """

    def __init__(self, folder: str | Path, encoder: ImageEncoder):
        self.folder = Path(folder) / encoder.fingerprint()
        self._n_features, self._n_image_features = encoder.n_features, encoder.n_image_features
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnwritableFile(f"{folder} cannot be a cache: {error.strerror}.") from error

    def get(self, key: str | None) -> ImageWords | None:
        """Return the words of an image, or None if they are not in the cache."""
        if key is None:
            return None
        try:
            found = load(self._path(key), KIND, ImageWords)
        except StorageError:
            return None
        n_image_features = 0 if found.features_F is None else len(found.features_F)
        is_ours = (found.key, n_image_features) == (key, self._n_image_features)
        return found if is_ours and found.ids.max(initial=0) < self._n_features else None

    def put(self, words: ImageWords) -> None:
        """Store the words of an image; several processes may do so at the same time.

        An image without a key is not stored.
        """
        if words.key is not None:
            # A file that a power failure cut off is damaged, so nobody waits for the disk.
            save(self._path(words.key), KIND, words, sync=False)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key


def encode_images(
    encoder: ImageEncoder,
    images: Sequence[Any],
    options: RunOptions = RunOptions(),
    *,
    stage: str = READING,
) -> Iterator[ImageWords | SkippedImage]:
    """Yield the words of each image, or a `SkippedImage`.

    Parameters
    ----------
    options : `cache` stores the words of images by content, so that a killed run resumes and a
        renamed image is not encoded again. `device` is where a network runs.
    stage : as for `map_images`.
    """
    cache = None if options.cache is None else WordCache(options.cache, encoder)
    encode = partial(_encode_image, encoder, cache, options.device)
    yield from map_images(encode, images, options, stage=stage)


def encode_all(
    encoder: ImageEncoder, images: Sequence[Any], options: RunOptions = RunOptions()
) -> EncodedImages:
    """Return the counts of the words of images, and the images that could not be read.

    Parameters
    ----------
    options : as for `encode_images`.
    """
    n_image_features, skipped = encoder.n_image_features, []
    nothing = np.zeros(n_image_features, np.float32) if n_image_features else None
    words = []
    for found in encode_images(encoder, images, options):
        if isinstance(found, SkippedImage):
            skipped.append(found)
            found = ImageWords(np.empty(0, np.int32), nothing)
        words.append(found)
    features_BF = None
    if n_image_features:
        features_BF = np.array([each.features_F for each in words], np.float32)
        features_BF = features_BF.reshape(-1, n_image_features)
    return EncodedImages(
        counts=count_words([each.ids for each in words], encoder.n_features),
        skipped=tuple(skipped),
        keys=tuple(each.key for each in words),
        global_features=features_BF,
    )


def _encode_image(
    encoder: ImageEncoder,
    cache: WordCache | None,
    device: str,
    source: Any,
    name: str,
    number: int,
) -> ImageWords:
    """Return the words of an image, from the cache if they are there."""
    content, key = read_with_key(source)
    words = None if cache is None else cache.get(key)
    if words is None:
        encoded = encoder.encode(content, name, device)
        height, width = encoded.size
        if isinstance(content, bytes) and max(height, width) < SMALL_SIDE:
            warnings.warn(
                f"{name} has only {width} × {height} pixels; expect more errors.", stacklevel=2
            )
        words = replace(encoded.words, key=key)
        if cache is not None:
            cache.put(words)
    return words
