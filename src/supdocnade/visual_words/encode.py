"""Visual words of many images, and their cache on disk, keyed by the contents of images."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.errors import InvalidArgument, StorageError, UnwritableFile
from supdocnade.images.reading import READING, SkippedImage, map_images, read_with_key
from supdocnade.runs import RunOptions
from supdocnade.schema import array, load, save, stored
from supdocnade.visual_words.encoder import ImageEncoder, ImageWords, count_words

SMALL_SIDE = 64
"""Longest side in pixels below which a file gets a warning: little of a photograph can be seen."""

KIND = "ImageWords"
"""Of the files of a cache."""


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
    numbers: Sequence[int] | None = None,
) -> Iterator[ImageWords | SkippedImage]:
    """Yield the words of each image, or a `SkippedImage`.

    Parameters
    ----------
    options : `cache` stores the words of images by content, so that a killed run resumes and a
        renamed image is not encoded again. `device` is where a network runs.
    stage, numbers : as for `map_images`.
    """
    cache = None if options.cache is None else WordCache(options.cache, encoder)
    encode = partial(_encode_image, encoder, cache, options.device)
    yield from map_images(encode, images, options, stage=stage, numbers=numbers)


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
