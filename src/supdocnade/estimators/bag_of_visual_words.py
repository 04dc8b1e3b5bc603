"""Photographs to counts of visual words, and damping of counts, as scikit-learn transformers."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from supdocnade.checks import check_range, document_settings
from supdocnade.corpus.disk import Corpus
from supdocnade.corpus.tokens import damp_counts
from supdocnade.estimators.inputs import read_counts, read_seed
from supdocnade.estimators.persistence import WORDS, VisualWords
from supdocnade.images.reading import SkippedImage, check_images
from supdocnade.runs import ProgressCallback, RunOptions, no_progress
from supdocnade.schema import load
from supdocnade.visual_words.encoder import EncodedImages, ImageEncoder, encode_all
from supdocnade.visual_words.learn import learn_words
from supdocnade.visual_words.settings import VisualWordSettings
from supdocnade.visual_words.to_corpus import encode_corpus


class SkippedImagesWarning(UserWarning):
    """Warning about images that could not be read and have no words."""


@document_settings
class BagOfVisualWords(TransformerMixin, BaseEstimator, VisualWordSettings):  # type: ignore[misc]
    """Bag of visual words.

    Patches on a regular grid are described by dense SIFT or a pretrained network. Visual
    words are the centres of k-means on a sample of the descriptors. Words are counted per region of
    the image: of K words in all, column r · K + w counts visual word w in region r.

    Attributes
    ----------
    encoder_ : ImageEncoder
    n_features_out_ : int
        Number of visual words times the number of regions.

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
        progress : called with the stage, the number of units done and their total.
        """
        images = check_images(X)
        self.check()  # Before a seed is drawn: invalid settings do not consume random numbers.
        seed, options = read_seed(self.random_state), self._options(progress)
        self.encoder_, skipped = learn_words(images, self, seed, options)
        _warn_about(skipped)
        self.n_features_out_ = self.encoder_.n_features
        return self

    def transform(self, X: Any) -> sparse.csr_array:
        """Return the counts of visual words, (images, words in regions), sparse.

        Parameters
        ----------
        X : a list of images.
        """
        encoded = self.encode(X)
        _warn_about(encoded.skipped)
        return encoded.counts

    def encode(self, X: Any) -> EncodedImages:
        """Return the counts of visual words and the images that could not be read.

        Parameters
        ----------
        X : a list of images.
        """
        return encode_all(self._fitted_encoder(), check_images(X), self._options())

    def encode_corpus(
        self,
        X: Any,
        folder: str | Path,
        *,
        labels: Sequence[str | None] | None = None,
        tags: Sequence[Sequence[str] | None] | None = None,
    ) -> tuple[Corpus, tuple[SkippedImage, ...]]:
        """Write the words of images to a corpus on disk, in a random order.

        A run that was killed resumes. The visual words are stored in the folder of the corpus, so
        that `SceneModel.fit` needs nothing else.

        Parameters
        ----------
        X : a list of images.
        folder : folder of the corpus, which must not exist or be empty.
        labels, tags : label and tags of each image, stored with it; None if unknown.

        Returns
        -------
        The corpus, and the images that could not be read.
        """
        return encode_corpus(
            self._fitted_encoder(),
            check_images(X),
            folder,
            self._options(),
            labels=labels,
            tags=tags,
            # A file cannot hold a function.
            stored_words=None if callable(self.features) else words_of(self),
        )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns, made of visual word and region.

        Parameters
        ----------
        input_features : ignored.
        """
        encoder = self._fitted_encoder()
        return np.array(
            [
                f"word{word}_region{region}"
                for region in range(encoder.regions.n_regions)
                for word in range(encoder.n_words)
            ],
            object,
        )

    def save(self, path: str | Path) -> None:
        """Write the words to one file, atomically.

        Parameters
        ----------
        path : path of the file.
        """
        check_is_fitted(self, "encoder_")
        words_of(self).save(Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the transformer in a file; raise `StorageError` if the file is not valid.

        Parameters
        ----------
        path : path of a file that `save` wrote.
        """
        words = load(Path(path), WORDS, VisualWords)
        bag = cls(**{**vars(words.settings), "random_state": words.random_state})
        bag.encoder_ = words.encoder
        bag.n_features_out_ = words.encoder.n_features
        return bag

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
            progress=progress or no_progress,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


def words_of(bag: BagOfVisualWords) -> VisualWords:
    """Return the visual words of a fitted transformer."""
    return VisualWords.of(bag, bag.encoder_)


def _warn_about(skipped: Sequence[SkippedImage]) -> None:
    if skipped:
        first = "; ".join(each.reason for each in skipped[:3])
        more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
        warnings.warn(
            f"{len(skipped)} images were skipped: {first}{more}", SkippedImagesWarning, stacklevel=3
        )


class DampCounts(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Damp repeated words: a count n becomes round(scale · √n).

    A texture that fills half of a picture repeats one visual word hundreds of times. Damped, it
    still weighs more than a single occurrence, but not hundreds of times as much.

    Parameters
    ----------
    scale : float, default=2
        Counts of 1, 4 and 9 become `scale`, 2 `scale` and 3 `scale`, rounded.

    Examples
    --------
    >>> DampCounts().fit_transform([[0, 1, 2, 100]]).toarray().tolist()
    [[0.0, 2.0, 3.0, 20.0]]
    """

    def __init__(self, scale: float = 2):
        self.scale = scale

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check X and store its width; there is nothing to learn.

        Parameters
        ----------
        X : (documents, words) sparse or dense counts, finite and not negative; or a `Corpus`,
            which is read as a whole.
        y : ignored.
        """
        check_range("scale", self.scale, above=0)
        read_counts(self, X, reset=True)
        return self

    def transform(self, X: Any) -> sparse.csr_matrix:
        """Return the damped counts as a sparse matrix.

        Parameters
        ----------
        X : (documents, words) sparse or dense counts, finite and not negative; or a `Corpus`,
            which is read as a whole.
        """
        check_is_fitted(self)
        counts = read_counts(self, X, reset=False)
        scale = check_range("scale", self.scale, above=0)
        return sparse.csr_matrix(damp_counts(counts, scale))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        return tags
