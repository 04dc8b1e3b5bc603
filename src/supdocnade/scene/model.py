"""SceneModel: photographs in; labels, tags, topics and reasons out."""

from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from supdocnade.checks import check_count
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.inputs import read_seed
from supdocnade.folders.tags import Tags
from supdocnade.progress import ProgressCallback, no_progress
from supdocnade.run_options import RunOptions
from supdocnade.scene.attribution import Explanation, explain_image
from supdocnade.scene.dataset import expand_folders, read_photographs
from supdocnade.scene.fitting import check_settings, extend_scene, fit_scene
from supdocnade.scene.onnx import export_onnx
from supdocnade.scene.persistence import load_scene, save_scene
from supdocnade.scene.prediction import FittedScene, Prediction, Waiting, answer
from supdocnade.scene.settings import WORD_SETTINGS, SceneSettings
from supdocnade.visual_words.parallel import SkippedImage, image_name

BLOCK = 64
"""Photographs whose topics are computed together at most: the first alone, so that it is seen soon,
then twice as many each time."""


class SceneModel(BaseEstimator):  # type: ignore[misc]
    """Learns classes and tags of photographs.

    Parameters
    ----------
    n_topics : int, default=200
        Topics of the model.
    classifier : {"svm", "softmax"}, default="svm"
        The paper's RBF SVM on topic features, or the model's own softmax.
    n_words : int, default=500
        Visual words.
    grid : (rows, columns), or a list of them, default=(2, 2)
        Regions of the photograph.
    step : int, default=8
    patch_size : int, or several, default=(16, 32)
        Of dense SIFT, in pixels.
    max_side : int or None, default=300
        Larger photographs are made smaller, so that their longest side has so many pixels.
    contrast_percentile : float, default=10
        Patches with less contrast than this percentile count as less distinct.
    damping : float or None, default=1.0
        A word that occurs n times counts round(damping · √n) times; None: n times.
    mirror : bool, default=True
        Whether to learn from the mirror images of the photographs, too: what is seen from the left
        and from the right is the same. Predicted is from the photograph alone.
    min_tag_count : int, default=3
        Tags of fewer photographs are not learned.
    generative_weight, annotation_weight, learning_rate, activation
        Of the topic model, see `SupDocNADE`.
    max_epochs : int, default=40
        How often every photograph is looked at, at most; as its mirror image half of the times.
    batch_size : int, optional
        Photographs of an update; None: a twelfth of them, but 4 to 64.
    held_out : float, default=0.15
        Share of the photographs on which epochs, the SVM's settings, the temperature of
        probabilities and the threshold of tags are chosen, before all are learned from.
    tune : bool, default=False
        Also search for `generative_weight`, `learning_rate` and `annotation_weight`.
    tune_trials : int, default=8
        How many settings are tried.
    n_jobs : int, optional
        Workers. The result does not depend on it.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where words are looked up and topics are learned: "auto" takes a GPU where there is one and
        enough to do. On a GPU the last bits of a result are others.
    random_state : int, RandomState or None, default=None
        An integer makes every result reproducible.
    on_error : {"raise", "skip"}, default="raise"
        What to do about photographs that cannot be read; those skipped are in `skipped_`.
    cache : path of a folder, optional
        Remembers the words of photographs by their contents.
    checkpoint : path of a folder, optional
        `fit` goes on from it when it was interrupted.

    Attributes
    ----------
    fitted_ : FittedScene
        Everything that was learned.
    skipped_ : tuple of SkippedImage
        Photographs that could not be read.
    """

    def __init__(
        self,
        n_topics: int = 200,
        classifier: str = "svm",
        *,
        n_words: int = 500,
        grid: Any = (2, 2),
        step: int = 8,
        patch_size: Any = (16, 32),
        max_side: int | None = 300,
        contrast_percentile: float = 10.0,
        damping: float | None = 1.0,
        mirror: bool = True,
        min_tag_count: int = 3,
        generative_weight: float = 1e-2,
        annotation_weight: float = 30.0,
        learning_rate: float = 3e-4,
        max_epochs: int = 40,
        batch_size: int | None = None,
        activation: str = "relu",
        held_out: float = 0.15,
        tune: bool = False,
        tune_trials: int = 8,
        n_jobs: int | None = None,
        device: str = "auto",
        random_state: Any = None,
        on_error: str = "raise",
        cache: str | Path | None = None,
        checkpoint: str | Path | None = None,
    ):
        self.n_topics = n_topics
        self.classifier = classifier
        self.n_words = n_words
        self.grid = grid
        self.step = step
        self.patch_size = patch_size
        self.max_side = max_side
        self.contrast_percentile = contrast_percentile
        self.damping = damping
        self.mirror = mirror
        self.min_tag_count = min_tag_count
        self.generative_weight = generative_weight
        self.annotation_weight = annotation_weight
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.activation = activation
        self.held_out = held_out
        self.tune = tune
        self.tune_trials = tune_trials
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.on_error = on_error
        self.cache = cache
        self.checkpoint = checkpoint

    def fit(
        self,
        images: Any,
        labels: Sequence[Any] | None = None,
        tags: Sequence[Tags] | None = None,
        *,
        progress: ProgressCallback | None = None,
    ) -> Self:
        """Learn from photographs.

        Parameters
        ----------
        images : a folder with one sub-folder a class and optional metadata; or a list of paths,
            bytes of files, arrays or PIL images.
        labels : their classes, None where not known.
        tags : a list of tags for each, None where not known.
        progress : called with the stage, the units done and their total.
        """
        settings, options = self._checked_settings(), self._options(progress)
        photographs = read_photographs(images, labels, tags)
        self.fitted_, self.skipped_ = fit_scene(
            photographs, settings, read_seed(self.random_state), options
        )
        return self

    def fit_more(
        self,
        images: Any,
        labels: Sequence[Any] | None = None,
        tags: Sequence[Tags] | None = None,
        *,
        progress: ProgressCallback | None = None,
    ) -> Self:
        """Learn from more photographs, together with those learned from before.

        The visual words stay; all else is chosen and learned again. Of a photograph that was there
        before, the new label and tags count.

        Parameters
        ----------
        images, labels, tags, progress : as for `fit`.
        """
        previous = self._fitted()
        settings, options = self._checked_settings(), self._options(progress)
        for name in WORD_SETTINGS:
            if getattr(settings, name) != getattr(previous.settings, name):
                raise InvalidArgument(
                    f"{name} must be as before, {getattr(previous.settings, name)!r}: "
                    f"the visual words stay; got {getattr(settings, name)!r}."
                )
        photographs = read_photographs(images, labels, tags)
        self.fitted_, self.skipped_ = extend_scene(
            previous, photographs, settings, read_seed(self.random_state), options
        )
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes that the model knows."""
        return np.array(self._fitted().classes, object)

    @property
    def tag_names_(self) -> NDArray[Any]:
        """The tags that the model knows."""
        return np.array(self._fitted().tag_names, object)

    def predict(self, images: Any) -> NDArray[Any]:
        """Return the labels of photographs.

        Parameters
        ----------
        images : a folder, or a list of paths, folders, bytes, arrays or PIL images.
        """
        fitted = self._with_classes()
        best = self.predict_proba(images).argmax(axis=1)
        labels: NDArray[Any] = np.array(fitted.classes, object)[best]
        return labels

    def predict_proba(self, images: Any) -> NDArray[np.float64]:
        """Return the probabilities of the classes, (photographs, classes).

        Parameters
        ----------
        images : as for `predict`.
        """
        return self._with_classes().class_proba(self.transform(images))

    def transform(self, images: Any) -> NDArray[np.float32]:
        """Return the topic features of photographs, (photographs, topics).

        Parameters
        ----------
        images : as for `predict`.
        """
        fitted = self._fitted()
        return fitted.hidden(self._bag().transform(expand_folders(images)))

    def annotate(self, images: Any, top: int | None = 5) -> list[tuple[str, ...]]:
        """Return the tags of photographs, the most fitting first.

        Parameters
        ----------
        images : as for `predict`.
        top : how many; None: those whose probability reaches the threshold that was learned.
        """
        if top is not None:
            check_count("top", top, least=1)
        found = []
        for each in self.iter_predictions(images):
            assert isinstance(each, Prediction), "what cannot be read was an error"
            chosen = each.tags if top is None else each.ranked_tags[:top]
            found.append(tuple(tag for tag, _ in chosen))
        return found

    def iter_predictions(
        self, images: Any, *, on_error: str = "raise"
    ) -> Iterator[Prediction | SkippedImage]:
        """Yield what the model says of one photograph after the other, as they are read.

        Parameters
        ----------
        images : as for `predict`.
        on_error : "raise", or "skip": a `SkippedImage` stands in for what cannot be read.
        """
        fitted = self._fitted()
        sources = expand_folders(images)
        bag = self._bag().set_params(on_error=on_error)
        waiting: list[Waiting] = []
        block = 1
        for number, words in enumerate(bag.iter_words(sources)):
            waiting.append((image_name(sources, number), words))
            if len(waiting) == block or number + 1 == len(sources):
                yield from answer(fitted, waiting)
                waiting, block = [], min(2 * block, BLOCK)

    def explain(
        self, image: Any, *, label: str | None = None, tag: str | None = None
    ) -> Explanation:
        """Return which patches of a photograph spoke for its class, another class, or a tag.

        Parameters
        ----------
        image : a path, bytes of a file, an array or a PIL image.
        label : the class to explain; None: the one that is predicted.
        tag : the tag to explain, instead of a class.
        """
        return explain_image(self._fitted(), image, label=label, tag=tag)

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder; one that is there is replaced as a whole or not at all.

        Small copies of some photographs are a part of it: whoever has the model can see them.

        Parameters
        ----------
        folder : that is new, or holds a model.
        """
        save_scene(self._fitted(), self._plain_params(), Path(folder))

    def export_onnx(self, path: str | Path) -> None:
        """Write the part after the words as an ONNX model: from counts to topics, classes, tags.

        Parameters
        ----------
        path : of the file; `scene.onnx` says what goes in and what comes out.
        """
        export_onnx(self._fitted(), Path(path))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return a model that `save` wrote; a damaged or foreign one raises `StorageError`.

        Parameters
        ----------
        folder : of the model.
        """
        fitted, params = load_scene(Path(folder))
        model = cls(**params)
        model.fitted_, model.skipped_ = fitted, ()
        return model

    def _checked_settings(self) -> SceneSettings:
        settings = SceneSettings(**{name: getattr(self, name) for name in SceneSettings.names()})
        check_settings(settings)
        return settings

    def _options(self, progress: ProgressCallback | None) -> RunOptions:
        return RunOptions(
            n_jobs=self.n_jobs,
            device=self.device,
            on_error=self.on_error,
            cache=None if self.cache is None else Path(self.cache),
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            progress=progress or no_progress,
        )

    def _plain_params(self) -> dict[str, Any]:
        """Return what else than the settings is kept."""
        seed = self.random_state
        return {"random_state": int(seed) if isinstance(seed, int | np.integer) else None}

    def _fitted(self) -> FittedScene:
        check_is_fitted(self, "fitted_")
        fitted: FittedScene = self.fitted_
        return fitted

    def _with_classes(self) -> FittedScene:
        fitted = self._fitted()
        if not fitted.classes:
            raise InvalidArgument("this model was fitted without labels, it knows no classes.")
        return fitted

    def _bag(self) -> Any:
        """Return the encoder with this model's workers and cache."""
        return copy(self._fitted().bag).set_params(
            n_jobs=self.n_jobs, device=self.device, cache=self.cache
        )
