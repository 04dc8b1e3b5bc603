"""BagOfVisualWords: images to counts of visual words, as a scikit-learn transformer."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from supdocnade.checks import check_count
from supdocnade.devices import choose_device
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.inputs import read_seed
from supdocnade.estimators.persistence import load_words, save_words
from supdocnade.estimators.settings import VisualWordSettings
from supdocnade.progress import PrintProgress, ProgressCallback, no_progress
from supdocnade.run_options import RunOptions
from supdocnade.visual_words.encoder import EncodedImage, ImageEncoder, count_words
from supdocnade.visual_words.learn import fit_words
from supdocnade.visual_words.parallel import (
    SkippedImage,
    check_images,
    encode_images,
)
from supdocnade.visual_words.to_corpus import EncodedCorpus, encode_corpus


class SkippedImagesWarning(UserWarning):
    """Some images could not be read and have no words."""


class EncodedImages(NamedTuple):
    """Many images as counts, and those that could not be read."""

    counts: sparse.csr_array
    """(images, words); rows of images that were skipped are empty."""
    read: NDArray[np.bool_]
    """(images,) false where an image was skipped."""
    skipped: tuple[SkippedImage, ...]
    mirrored: sparse.csr_array | None = None
    """The counts of the mirror images, where they were asked for."""


class BagOfVisualWords(TransformerMixin, BaseEstimator, VisualWordSettings):  # type: ignore[misc]
    """Turns images into counts of visual words.

    Patches on a grid are described by dense SIFT; words are the centres of k-means on a sample of
    the descriptors; a word in another region of the image is another word. Column r · n_words + w
    counts visual word w in region r.

    Parameters
    ----------
    n_words : int, default=240
        Visual words, 2 to 100,000.
    grid : (rows, columns), or a list of them, default=(2, 2)
        Regions of the image; a list is a pyramid, in which every patch is counted once a grid.
    step : int, default=8
        Pixels from one patch to the next.
    patch_size : int, or a tuple of several, default=16
        Pixels along a side of a patch, a multiple of four.
    max_side : int, optional
        Images are resized so that their longest side has so many pixels; None: they stay.
    n_jobs : int, optional
        Workers, as joblib counts them. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        An integer makes every result reproducible.
    window : {"gaussian", "flat"}, default="gaussian"
        How SIFT weighs the pixels of a patch.
    root_sift : bool, default=False
        Take square roots of the descriptors' shares.
    contrast_percentile : float, default=0
        Patches with less contrast than this percentile of all patches get shorter descriptors.
    color : bool, default=False
        Describe red, green and blue each by itself.
    keep_constant : bool, default=True
        Whether patches of one colour count; they take the word nearest to zero.
    upscale : bool, default=True
        Whether images smaller than `max_side` are enlarged.
    sample_size : int, optional
        Patches that words are learned from; None: 100,000, or 20 a word if that is more.
    n_examples : int, default=16
        Patches that are kept as examples of every word.
    on_error : {"raise", "skip"}, default="raise"
        What to do about an image that cannot be read. With "skip" its row is empty, a warning of
        type `SkippedImagesWarning` names it, and `encode` lists it.
    cache : path of a folder, optional
        Remembers the words of images by their contents, so that a run that was killed goes on.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where words of images are looked for; "auto": on a GPU where there is one. There a patch
        that is almost as near to another word may get that one. Words are always learned on the
        CPU, and do not depend on it.
    verbose : int, default=0
        Above 0: print progress.

    Attributes
    ----------
    encoder_ : ImageEncoder
    n_features_out_ : int
        n_words times the number of regions.

    Examples
    --------
    >>> import numpy as np
    >>> images = list(np.random.default_rng(0).integers(0, 256, (4, 64, 64)).astype(np.uint8))
    >>> bag = BagOfVisualWords(n_words=10, random_state=0).fit(images)
    >>> bag.transform(images).shape
    (4, 40)
    """

    def fit(self, X: Any, y: Any = None, *, progress: ProgressCallback | None = None) -> Self:
        """Learn the visual words of images.

        Parameters
        ----------
        X : a list of images: paths, bytes of files, PIL images or arrays.
        y : ignored.
        progress : called with the stage, the units done and their total.
        """
        images = check_images(X)
        description, regions = self.check()
        choose_device(self.device)  # Rather now than when words have been learned.
        fitted = fit_words(
            images,
            description,
            regions,
            self._options(progress),
            n_words=self.n_words,
            seed=read_seed(self.random_state),
            contrast_percentile=self.contrast_percentile,
            sample_size=self.sample_size,
            n_examples=self.n_examples,
        )
        _warn(fitted.skipped)
        self.encoder_ = fitted.encoder
        self.examples_ = fitted.examples
        self.n_examples_per_word_ = fitted.n_examples_K
        self.n_features_out_ = fitted.encoder.n_features
        return self

    def transform(self, X: Any) -> sparse.csr_array:
        """Return the counts of visual words, (images, words in regions), sparse.

        Parameters
        ----------
        X : a list of images.
        """
        encoded = self.encode(X)
        _warn(encoded.skipped)
        return encoded.counts

    def encode(
        self, X: Any, *, both_sides: bool = False, progress: ProgressCallback | None = None
    ) -> EncodedImages:
        """Return the counts of visual words, and which images could not be read.

        Parameters
        ----------
        X : a list of images.
        both_sides : whether to count the words of their mirror images, too.
        progress : as for `fit`.
        """
        skipped, documents = [], []
        images = check_images(X)
        encoder = replace(self._fitted_encoder(), both_sides=both_sides)
        for found in encode_images(encoder, images, self._options(progress)):
            if isinstance(found, SkippedImage):
                skipped.append(found)
                found = np.empty(0, np.int32)
            documents.append(found)
        read = np.ones(len(images), np.bool_)
        read[[each.number for each in skipped]] = False
        counts, mirrored = count_words(documents, encoder.n_features), None
        if both_sides:
            n_words = self.n_features_out_
            counts, mirrored = counts[:, :n_words], counts[:, n_words:]
        return EncodedImages(counts, read, tuple(skipped), mirrored)

    def iter_words(self, X: Any) -> Iterator[NDArray[np.int32] | SkippedImage]:
        """Yield the words (columns) of one image after the other, one for every patch.

        Only a few images are held in memory at a time, however many there are.

        Parameters
        ----------
        X : a list of images.
        """
        return encode_images(self._fitted_encoder(), check_images(X), self._options())

    def encode_corpus(
        self,
        X: Any,
        folder: str | Path,
        *,
        labels: Sequence[str | None] | None = None,
        tags: Sequence[Sequence[str] | None] | None = None,
    ) -> EncodedCorpus:
        """Write the words of images to a corpus on disk, a thousand images at a time.

        Images that the corpus holds already are not read again: a run that was killed goes on.

        Parameters
        ----------
        X : a list of images.
        folder : of a new corpus, or of one that was made with the same words.
        labels, tags : of every image, to be kept with it; None where not known.
        """
        return encode_corpus(
            self._fitted_encoder(),
            check_images(X),
            folder,
            self._options(),
            labels=labels,
            tags=tags,
        )

    def words_in(self, image: Any) -> EncodedImage:
        """Return the position and the word of every patch of one image, found on the CPU.

        Parameters
        ----------
        image : a path, the bytes of a file, a PIL image or an array.
        """
        return self._fitted_encoder().encode(image)

    def example_patches(self, word: int) -> NDArray[np.uint8]:
        """Return patches that belong to a visual word, the most typical first, in colours.

        Parameters
        ----------
        word : number of a visual word, 0 to n_words - 1, whatever the region.

        Returns
        -------
        (examples, side, side, 3); fewer than `n_examples` of a word that is rare in the sample.
        """
        n_words = self._fitted_encoder().codebook.n_words
        if check_count("word", word) >= n_words:
            raise InvalidArgument(f"word must be below {n_words}, got {word}.")
        patches: NDArray[np.uint8] = self.examples_[word, : self.n_examples_per_word_[word]]
        return patches

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns: visual word and region.

        Parameters
        ----------
        input_features : ignored.
        """
        encoder = self._fitted_encoder()
        return np.array(
            [
                f"word{word}_region{region}"
                for region in range(encoder.regions.n_regions)
                for word in range(encoder.codebook.n_words)
            ],
            object,
        )

    def save(self, path: str | Path) -> None:
        """Write the words and their examples to one file.

        Parameters
        ----------
        path : of the file; it is replaced as a whole or not at all.
        """
        check_is_fitted(self, "encoder_")
        save_words(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return what `save` wrote; a damaged or foreign file raises `StorageError`.

        Parameters
        ----------
        path : of the file.
        """
        loaded: Self = load_words(cls, Path(path))
        return loaded

    def _fitted_encoder(self) -> ImageEncoder:
        check_is_fitted(self, "encoder_")
        encoder: ImageEncoder = self.encoder_
        return encoder

    def _options(self, progress: ProgressCallback | None = None) -> RunOptions:
        return RunOptions(
            n_jobs=self.n_jobs,
            device=self.device,
            on_error=self.on_error,
            cache=None if self.cache is None else Path(self.cache),
            progress=progress or (PrintProgress() if self.verbose else no_progress),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


def _warn(skipped: Sequence[SkippedImage]) -> None:
    if skipped:
        first = "; ".join(each.reason for each in skipped[:3])
        more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
        warnings.warn(
            f"{len(skipped)} images were skipped: {first}{more}", SkippedImagesWarning, stacklevel=3
        )
